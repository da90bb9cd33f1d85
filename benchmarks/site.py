"""How long a site of many campaigns takes to make, and its pages to open.

    python -m benchmarks.site [--campaigns 25] [--cells 40] [--steps 100]

Campaigns of two nodes are written to a temporary folder, night after night: 25 of 40 cells are
1,000 runs. A tenth of the cells is a tenth slower from the middle on, and must be found; no other
may. Printed are the seconds of `site` and `history` (the whole command, and of processors' time),
and, where playwright and Chromium are (`make site-scale`), until each kind of page has loaded: the
load event since the address was entered, the median of five, each in a browser context of its own.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tabulate import tabulate

from runner.terms.cell import Cell
from tests.runner.many_campaigns import nights, stepping

PROJECT = Path(__file__).resolve().parents[1]
OPENED = 5
SLOWER = 10


def make(runs: Path, campaigns: int, cells: int, steps: int) -> None:
    """Write the campaigns."""

    def slower(cell: Cell) -> bool:
        return int(cell.parameters["seed"]) % SLOWER == 0

    rate = stepping(campaigns // 2, -10, slower, sigma=1.0)
    nights(runs, campaigns, rate, axes={"seed": list(range(cells))}, steps=steps)


def timed(*words: str) -> tuple[float, float]:
    """Run a command of the runner; its seconds, and those of all processors."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "runner", *words], check=True, cwd=PROJECT, stdout=subprocess.DEVNULL
    )
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, spent


def load_ms(site: Path, pages: dict[str, Path]) -> dict[str, float]:
    """Open each page in Chromium; the median of its load events in ms."""
    from playwright.sync_api import sync_playwright

    told: dict[str, float] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for name, path in pages.items():
            times = []
            for _ in range(OPENED):
                context = browser.new_context(viewport={"width": 1280, "height": 800})
                page = context.new_page()
                page.goto(path.as_uri(), wait_until="load")
                entry = "performance.getEntriesByType('navigation')[0].loadEventEnd"
                page.wait_for_function(f"{entry} > 0")
                times.append(float(page.evaluate(entry)))
                context.close()
            told[name] = statistics.median(times)
        browser.close()
    return told


def some_pages(site: Path) -> dict[str, Path]:
    """Choose a page of each kind: the largest."""

    def largest(glob: str) -> Path:
        return max(site.glob(glob), key=lambda path: path.stat().st_size)

    return {
        "first page": site / "index.html",
        "a campaign": largest("campaigns/*/index.html"),
        "a cell over time": largest("cells/*.html"),
        "two that followed": largest("comparisons/*.html"),
    }


def main() -> int:
    """Make the campaigns and the site, measure, print."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--campaigns", type=int, default=25)
    options.add_argument("--cells", type=int, default=40)
    options.add_argument("--steps", type=int, default=100)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="trainbench-site-") as name:
        runs, site = Path(name) / "runs", Path(name) / "site"
        make(runs, chosen.campaigns, chosen.cells, chosen.steps)
        wall, spent = timed("site", str(runs), "-o", str(site))
        history, of_history = timed("history", str(runs))
        found = json.loads((site / "data/regressions.json").read_text())["regressions"]
        right = sum(each["verdict"] == "slower" for each in found)
        planted = -(-chosen.cells // SLOWER)
        size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
        files = sum(path.is_file() for path in site.rglob("*"))
        print(f"{chosen.campaigns * chosen.cells} runs: {files} files, {size / 1e6:.0f} MB")
        print(
            f"site {wall:.1f} s ({spent:.1f} s of processors), history {history:.1f} s"
            f" ({of_history:.1f} s)"
        )
        print(f"planted regressions found: {right} of {planted}; others: {len(found) - right}")
        pages = some_pages(site)
        try:
            opened = load_ms(site, pages)
        except ImportError:
            opened = {}
        rows = [
            [kind, f"{path.stat().st_size / 1e3:.0f}", f"{opened[kind]:.0f}" if opened else "–"]
            for kind, path in pages.items()
        ]
        print(tabulate(rows, ("page", "kB", "loaded, ms"), disable_numparse=True))
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())
