"""Whatever a folder, a log, an archive or an inventory holds, no command prints what is obeyed.

Not by a terminal (escapes, the other direction of writing, lines that pretend to be ours), not by
a spreadsheet, not by what shows Markdown, not by a browser.
"""

import contextlib
import csv
import io
import json
import re
import tarfile
from collections.abc import Callable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from runner.__main__ import main
from runner.base.errors import UserError
from runner.folder import names
from runner.folder.campaign import Campaign
from runner.results.records import records_of
from tests.golden.places import inventory
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import Story, inspected, sampled, torch_gpt, write

OBEYED = "\x1b]0;x\x07\x1b[2J\x1b[31m\x9b2J\x9d0;y\x9c\u202e\u2066\r\x08\x85\u2028"
MARKED = "<img src=x onerror=alert(1)><script>alert(1)</script>\"'|`[x](javascript:alert(1))`&lt;"
HOSTILE = f"=1+1{OBEYED}\nFORGED {MARKED}"
PRINTABLE = f"=1+1 {MARKED}"
TEXTS = {
    "table": ("collect", "--format", "table"),
    "markdown": ("collect", "--format", "markdown"),
    "csv": ("collect", "--format", "csv"),
    "json": ("collect", "--format", "json"),
    "osdi": ("collect", "--shape", "osdi"),
    "osdi as csv": ("collect", "--shape", "osdi", "--format", "csv"),
    "pivot as markdown": ("collect", "--shape", "pivot", "--format", "markdown"),
    "status": ("status",),
    "status as json": ("status", "--format", "json"),
}


class Shown:
    """What a command printed, looked at."""

    def __init__(self, out: str, err: str = "") -> None:
        self.out, self.err = out, err
        for line in (out + err).split("\n"):
            assert line.isprintable(), ascii(line)
            assert not line.startswith("FORGED") or out.startswith("<!DOCTYPE html>"), line
        assert "Traceback" not in err


Runs = Callable[..., Shown]


@pytest.fixture
def ran(capsys: pytest.CaptureFixture[str]) -> Runs:
    def run(*words: object) -> Shown:
        with contextlib.suppress(SystemExit):  # argparse's
            main([*map(str, words)])
        shown = capsys.readouterr()
        return Shown(shown.out, shown.err)

    return run


def story(cell: Any, repeat: int, more: str = "") -> Story:
    halt = {"cause": "exit", "host": "n1", "message": "n1: exit code 1"}
    if cell.parameters["zero_stage"]:
        log = torch_gpt(7, of=20, then=f"ValueError: boom {more}\n")
        return Story({0: log}, halt, samples={0: sampled(50, devices=2)})
    return Story({0: torch_gpt(20, then=more)}, samples={0: sampled(50, devices=2)})


def campaign(runs: Path, more: str = "", facts: Mapping[str, Any] | None = None) -> Path:
    """Two cells on two nodes, one of them failed."""
    defaults = {"nodes": 2, "env": {"NOTE": "a"}, "global_batch_size": 16, "train_iters": 20}
    matrix = small_matrix({"zero_stage": [0, 1]}, defaults)
    device = {"name": "Tesla V100-SXM2-32GB", "memory_mib": "32510", "driver": "440"}
    found = inspected("n1", **(facts or {"devices": [device] * 2}))
    told = write(
        runs,
        matrix,
        small_cluster(),
        lambda cell, repeat: story(cell, repeat, more),
        facts=lambda host: {**found, "hostname": host},
    )
    return told.path


def poisoned(content: Any, path: tuple[Any, ...], text: str = HOSTILE) -> Any:
    """The content with the text behind what stands at a place."""
    if not path:
        return content + text if isinstance(content, str) else content
    if isinstance(content, list):
        return [poisoned(inner, path[1:], text) for inner in content]
    if isinstance(content, Mapping) and path[0] in content:
        return {**content, path[0]: poisoned(content[path[0]], path[1:], text)}
    return content


def poison(folder: Path, glob: str, path: tuple[Any, ...], text: str = HOSTILE) -> None:
    for file in folder.glob(glob):
        file.write_text(json.dumps(poisoned(json.loads(file.read_text()), path, text)))


AT_ONCE: Mapping[str, list[tuple[str | None, ...]]] = {
    f"{names.ATTEMPTS}/{names.OUTCOME}": [("reason",), ("last_words",)],
    names.CAMPAIGN: [("cells", None, "name"), ("cells", None, "env", "NOTE"), ("matrix",)],
    f"{names.ATTEMPTS}/{names.RUN}": [
        *(("cell", "name"), ("cell", "env", "NOTE")),
        *(("nodes", None, "argv", None), ("nodes", None, "env", "NOTE"), ("nodes", None, "cwd")),
    ],
    f"{names.INSPECTED}/*.json": [("cpu",), ("devices", None, "name"), ("kernel",), ("system",)],
}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    return hostile_campaign(tmp_path / "runs")


def hostile_campaign(runs: Path) -> Path:
    """A campaign whose names, reasons, devices, commands and logs are hostile, all at once.

    Where a text with control characters is refused when the file is read, one without stands.
    """
    versions = f"torch_gpt config torch=2.13{HOSTILE}\n"
    path = campaign(runs, f"{HOSTILE}\n{versions}")
    for glob, places in AT_ONCE.items():
        for place in places:
            before = {file: file.read_text() for file in path.glob(glob)}
            poison(path, glob, place)
            if not readable(path):
                for file, text in before.items():
                    file.write_text(text)
                poison(path, glob, place, PRINTABLE)
                assert readable(path), (glob, place)
    return path


def readable(campaign: Path) -> bool:
    try:
        records = records_of(Campaign(campaign), campaign)
    except UserError:
        return False
    return all(record.status != "unreadable" for record in records)


@pytest.mark.parametrize("form", TEXTS)
def test_a_hostile_campaign_is_shown(form: str, hostile: Path, ran: Runs) -> None:
    command, *words = TEXTS[form]
    assert ran(command, "--runs", hostile.parent, *words).out


def test_the_cells_of_a_csv_are_texts_and_numbers(hostile: Path, ran: Runs) -> None:
    text = ran("collect", "--runs", hostile.parent, "--format", "csv").out
    rows = list(csv.reader(io.StringIO(text)))
    assert len({len(row) for row in rows}) == 1
    for cell in (cell for row in rows for cell in row):
        assert not re.match(r"\s*[=+@-]", cell) or re.fullmatch(r"[-+][\d.e+-]+", cell), cell


def test_markdown_has_no_link_image_html_or_column_of_a_cells(hostile: Path, ran: Runs) -> None:
    good = campaign(hostile.parents[1] / "good")
    for words in (
        ("collect", "--runs", hostile.parent, "--format", "markdown"),
        ("compare", good, hostile, "--format", "markdown"),
    ):
        text = ran(*words).out
        assert not re.search(r"(?<!\\)[<\[`]|(?<!\\)&(?=#?\w+;)", text)
        tables = [line for line in text.split("\n") if line.startswith("|")]
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in tables}) == 1


class Elements(HTMLParser):
    """A page's elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        linking = ("href", "xlink:href", "src")
        self.links += [value or "" for name, value in attrs if name in linking]


def test_a_report_has_no_element_of_a_logs(hostile: Path, ran: Runs) -> None:
    """Its elements and attributes are those of a report of good text, and no others."""
    good = campaign(hostile.parents[1] / "good")
    ours = Elements(ran("collect", "--runs", good.parent, "--format", "html").out)
    page = Elements(ran("collect", "--runs", hostile.parent, "--format", "html").out)
    assert page.names - {"summary", "details", "strong"} <= ours.names
    assert page.attributes - {"open", "rowspan"} <= ours.attributes
    assert all(re.match(r"#|data:,$|[\w.%-]+/", link) for link in page.links), page.links


@pytest.mark.parametrize("form", ["table", "csv", "markdown", "html"])
def test_what_is_written_to_a_file_is_as_harmless(
    form: str, hostile: Path, tmp_path: Path, ran: Runs
) -> None:
    target = tmp_path / "table"
    ran("collect", "--runs", hostile.parent, "--format", form, "--output", target)
    Shown(target.read_text(encoding="utf-8"))


def test_an_exports_tables_are_as_harmless(hostile: Path, tmp_path: Path, ran: Runs) -> None:
    target = tmp_path / "x.tar.gz"
    ran("export", hostile, "-o", target)
    with tarfile.open(target) as archive:
        tables = [name for name in archive.getnames() if re.search(r"/tables/(?!matrix)", name)]
        assert len(tables) == 4
        for member in tables:
            stream = archive.extractfile(member)
            assert stream is not None
            Shown(stream.read().decode())


def test_a_dry_run_shows_any_value(tmp_path: Path, ran: Runs) -> None:
    """Values of a matrix, and addresses, variables and launchers of an inventory."""
    # A matrix of YAML takes no line break as it is, but by an escape.
    matrix = tmp_path / "m.yaml"
    env = json.dumps({"NOTE": f"b{HOSTILE}", "MORE": "\x9b2J\u202e"})
    matrix.write_text(f"defaults: {{system: torch_gpt, env: {env}}}\n", encoding="utf-8")
    place = inventory(tmp_path / "place", cluster_env={"SITE": f"c{HOSTILE}"})
    shown = ran("bench", "--matrix", matrix, "-i", place, "--dry-run")
    assert "NOTE=$'b=1+1\\x1b]0;x\\x07\\x1b[2J" in shown.out
    ran("bench", "--matrix", matrix, "-i", place, "--dry-run", "--format", "json")
    local = {"ansible_connection": "local", "ansible_host": f"a{HOSTILE}"}
    for hosts in ({"n1": local}, {f"n{OBEYED}": {**local, "ansible_host": "127.0.0.1"}}):
        folder = tmp_path / f"other{len(list(tmp_path.iterdir()))}"
        place = inventory(folder, {"nodes": {"hosts": hosts}})
        ran("bench", "--matrix", matrix, "-i", place, "--dry-run", "--runs", tmp_path / "r")
