"""Tests that run at night: the mark `nightly`, and what `make nightly` prints.

    @pytest.mark.nightly("soak")                     by day the first of a file that is all nightly
    @pytest.mark.nightly("faults", by_day="row")     by day one of the suite's rows, by the date
    @pytest.mark.nightly("oneflow", by_day="827 MB") never by day, and why

`pytest --nightly SUITE` runs a suite whole, any other pytest what runs by day; a test that is named
(`file.py::test`) runs at any time. TRAINBENCH_DAY=N repeats what ran on the day with that number.
"""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tabulate import tabulate

RESULTS = Path(__file__).resolve().parents[1] / "build" / "nightly"
SUITES = {
    "training": "torch_gpt in every parallel way",
    "setup": "roles: bare nodes to verify green, broken downloads, a node without a network",
    "privileged": "what setup changes as root, and what teardown gives back",
    "nodes": "bench and its answers on nodes with ssh: what takes minutes",
    "faults": "every fault of docs/reliability.md over ssh",
    "kills": "50 kill -9 at random moments",
    "soak": "200 cells in a row, a fault in every fifth",
    "hostile": "a node that answers bench and doctor, before a run, in every way",
    "slurm": "the whole flow on real Slurm",
    "slurm-faults": "every fault of docs/reliability.md on Slurm",
    "acceptance": "planted faults for accept to find, clean nodes, simulated clusters",
    "slowdowns": "slow commits for bisect to find, equal ones for ci to pass",
    "properties": "properties and hostile texts, of which a tenth runs by day",
    "fuzz": "100,000 damaged and hostile inputs",
    "pages": "reports in Chromium",
    "upstream": "the trainers' own repositories: clones, or TRAINBENCH_MIRRORS",
    "examples": "the scripts of examples/, with MLflow and wandb installed",
    "oneflow": "OneFlow 0.8.0 installed: 827 MB",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Name the option."""
    parser.addoption("--nightly", choices=SUITES, help="run this suite, whole")


def pytest_configure(config: pytest.Config) -> None:
    """Name the mark; all workers take one day's rows."""
    config.addinivalue_line("markers", "nightly(suite, by_day): tests/nightly.py")
    os.environ.setdefault("TRAINBENCH_DAY", str(date.today().toordinal()))
    os.environ["TRAINBENCH_NIGHTLY"] = config.getoption("nightly") or ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what does not run now."""
    marks = {item: mark for item in items if (mark := item.get_closest_marker("nightly"))}
    suite = config.getoption("nightly")
    if suite:
        keep = [item for item in items if suite == suite_of(item)]
    elif any("::" in word for word in config.args):
        return
    else:
        chosen = by_day(items, marks)
        keep = [item for item in items if item not in marks or item in chosen]
    config.hook.pytest_deselected(items=[item for item in items if item not in keep])
    items[:] = keep


def suite_of(item: pytest.Item) -> str | None:
    """The suite that runs it at night, if any."""
    mark = item.get_closest_marker("nightly")
    if mark is not None:
        return str(mark.args[0])
    if "upstream" in item.path.parts:  # which by day skips what needs a mirror
        return "upstream"
    asked = {"examples", "some"}  # of tests/budget.py
    module = item.getparent(pytest.Module)
    return "properties" if module and asked & vars(module.obj).keys() else None


def by_day(items: list[pytest.Item], marks: dict[pytest.Item, pytest.Mark]) -> set[pytest.Item]:
    """The first of each file in which all is nightly, and of each suite one of its rows."""
    day = int(os.environ["TRAINBENCH_DAY"])
    mixed = {item.path for item in items if item not in marks}
    firsts: dict[Path, pytest.Item] = {}
    rows: dict[str, list[pytest.Item]] = {}
    for item, mark in marks.items():
        (suite,), when = mark.args, mark.kwargs.get("by_day", "first")
        assert suite in SUITES, f"{item.nodeid}: tests/nightly.py has no suite {suite}"
        if when == "first" and item.path not in mixed:
            firsts.setdefault(item.path, item)
        elif when == "row":
            rows.setdefault(suite, []).append(item)
    return {*firsts.values(), *(row[day % len(row)] for row in rows.values())}


@pytest.fixture
def seed(record_property: Callable[[str, object], None]) -> int:
    """Another each time, or SEED: it repeats what a run did."""
    number = int(os.environ.get("SEED") or random.SystemRandom().randrange(10**6))
    record_property("seed", number)
    return number


@pytest.fixture(scope="session", autouse=True)
def _commit(request: pytest.FixtureRequest, record_testsuite_property: Any) -> None:
    """Say in the suite's result of which commit it is."""
    if request.config.getoption("nightly"):
        argv = ["git", "describe", "--always", "--dirty", "--exclude=*"]
        said = subprocess.run(argv, capture_output=True, text=True, cwd=RESULTS.parents[1])
        record_testsuite_property("commit", said.stdout.strip())


def last_result(suite: str) -> tuple[str, str, str]:
    """(how it ended, when, on which commit)."""
    try:
        result = ElementTree.parse(RESULTS / f"{suite}.xml").getroot()[0]
    except FileNotFoundError:
        return "never run here", "", ""
    bad = {word: int(result.attrib[word]) for word in ("failures", "errors", "skipped")}
    passed = int(result.attrib["tests"]) - sum(bad.values())
    said = ", ".join(f"{n} {word}" for word, n in {"passed": passed, **bad}.items() if n)
    took_s = float(result.attrib["time"])
    when = datetime.fromisoformat(result.attrib["timestamp"]).astimezone(UTC)
    commit = result.find("properties/property[@name='commit']")
    which = "?" if commit is None else commit.attrib["value"]
    return f"{said} in {took_s / 60:.0f} min", f"{when:%Y-%m-%d %H:%M}", which


def table_of(suite: str) -> str:
    """What the suite's tests recorded, a row each: a table of docs/reliability.md."""
    rows = []
    for case in ElementTree.parse(RESULTS / f"{suite}.xml").getroot().iter("testcase"):
        said = {each.attrib["name"]: each.attrib["value"] for each in case.iter("property")}
        bad = [each.tag for each in case if each.tag in ("failure", "error", "skipped")]
        if said:
            rows.append({**said, "as it should be": bad[0] if bad else "yes"})
    return tabulate(rows, headers="keys", tablefmt="github", disable_numparse=True)


def main(suites: list[str]) -> None:
    """Print the table of a suite, or without one what each suite's last result was."""
    if suites:
        try:
            print(table_of(suites[0]))
        except (OSError, ElementTree.ParseError):
            sys.exit(
                f"error: no result of {suites[0]} in {RESULTS}: its run ended before it wrote one"
            )
        return
    rows = [(f"make nightly SUITE={suite}", *last_result(suite), SUITES[suite]) for suite in SUITES]
    headers = ("", "last result", "when (UTC)", "commit", "what it runs")
    print(tabulate(rows, headers=headers))


if __name__ == "__main__":
    main(sys.argv[1:])
