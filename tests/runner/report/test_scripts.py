"""What the pages' scripts do in a browser, where there is one."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runner.report.page import to_html
from runner.results.evidence import evidence_of_records
from runner.results.records import records_of
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import Story, torch_gpt, write
from tests.runner.documents import document_of

pytestmark = pytest.mark.skipif(not shutil.which("chromium"), reason="needs Chromium")
QUIET = ("--disable-background-networking", "--disable-component-update", "--disable-sync")
HELPERS = """
window.onerror = (message) => { document.title = message; };
const one = (selector) => document.querySelector(selector);
const tell = (said) => { document.body.innerHTML = "<pre id=said></pre>";
  one("#said").textContent = JSON.stringify(said); };
"""


def report(runs: Path) -> str:
    """A page of four cells; its policy would let no test in."""
    matrix = small_matrix({"zero_stage": [0, 1], "seed": [1, 2]}, {"nodes": 2}, name="m")
    campaign = write(runs, matrix, small_cluster(), lambda *_: Story({0: torch_gpt(30)}))
    records = records_of(campaign, runs)
    evidence = evidence_of_records(campaign, records, runs)
    page = to_html(document_of(records, evidence=evidence))
    return re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)


def said(folder: Path, acts: str, address: str = "") -> Any:
    """What acts (JavaScript) tell of a page."""
    begin = f"<script>{HELPERS}</script>"
    page = report(folder).replace("<head>", f"<head>{begin}", 1)
    script = f"<script>(async () => {{{acts}}})().catch((error) => tell(String(error)))</script>"
    path = folder / "page.html"
    path.write_text(page.replace("</body>", f"{script}</body>"))
    argv = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", *QUIET]
    argv += [f"--user-data-dir={folder / 'user'}", "--virtual-time-budget=10000", "--dump-dom"]
    ran = subprocess.run(
        [*argv, f"file://{path}{address}"], capture_output=True, text=True, timeout=120, check=True
    )
    found = re.search(r'<pre id="said">(.*?)</pre>', ran.stdout, re.DOTALL)
    assert found is not None, ran.stdout[-2000:]
    return json.loads(html.unescape(found[1]))


def test_columns_are_as_many_as_fit_after_each_change(tmp_path: Path) -> None:
    acts = """
    const shown = () => [...one("#cells thead tr").cells].filter((cell) => cell.offsetWidth).length;
    const words = [shown()];
    one("#cells .sort").click();
    words.push(shown());
    one("#cells .open").click();
    words.push(shown(), one("#cells tr.detail:not([hidden]) td").colSpan);
    one(".picker .panel button").click();
    words.push(shown(), one("#cells tr.detail:not([hidden]) td").colSpan);
    tell(words);
    """
    first, sorted_, opened, wide, every, widest = said(tmp_path, acts)
    assert first == sorted_ == opened == wide
    assert every == widest >= first
