"""What `publish --check` finds in bundles that were changed. The logs are made (bundles.py)."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.__main__ import main
from runner.archive.archive import opened
from runner.archive.check import check
from runner.base.paths import PROJECT
from tests.runner.archive import bundles
from tests.runner.archive.bundles import changed, each_json, each_log, made_again

RUNS = "*/repeat*/attempt*"
Change = Callable[[Path], None]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundles.good(tmp_path_factory.mktemp("good"))


def found(bundle: Path) -> set[str]:
    with opened(bundle.parent, str(bundle)) as source:
        _, findings = check(source.campaign)
    assert all(each.why and "\n" not in each.why for each in findings)
    return {each.of for each in findings}


def test_a_bundle_of_an_older_version_is_found_good() -> None:
    assert found(PROJECT / "docs/results/bundles/headline-on-an-h200.tar.gz") == set()


def logs(edit: Callable[[str], str]) -> Change:
    return lambda home: each_log(home, edit)


def faster(times: float) -> Callable[[str], str]:
    """Each rate so many times as high, and each time as short."""

    def scaled(text: str, name: str, by: float) -> str:
        return re.sub(rf"{name}=([\d.]+)", lambda m: f"{name}={float(m[1]) * by:.3f}", text)

    return lambda text: scaled(scaled(text, "samples_per_s", times), "step_time_ms", 1 / times)


def rows(**values: Any) -> Change:
    """The table says something else."""

    def edit(table: Any) -> None:
        for row in table["rows"]:
            row.update({key: value for key, value in values.items() if key in row})
            row["figures"].update(values)

    return lambda home: each_json(home, "tables/table.json", edit)


def with_gpu(edit: Callable[[str], str]) -> Change:
    """The machine is called an H100, and its logs say something of it."""

    def on_gpus(run: Any) -> None:
        for node in run["nodes"]:
            node["device"] = "cuda"

    def change(home: Path) -> None:
        each_json(home, "inspect/*.json", lambda node: node.update(devices=[bundles.H100]))
        each_json(home, f"{RUNS}/run.json", on_gpus)
        each_log(home, edit)

    return change


def without_logs(home: Path) -> None:
    for path in home.glob(f"{RUNS}/nodes/*/launcher.log"):
        path.unlink()


def loss(pattern: str, text: str) -> Change:
    return logs(lambda log: re.sub(pattern, text, log))


BAD: dict[str, tuple[Change, str]] = {
    "a table with other figures": (rows(samples_per_s=200.0), "table"),
    "a table that says publishable": (rows(verdict="few_steps"), "table"),
    "a table of another campaign": (rows(cell_id="other"), "table"),
    "no logs": (without_logs, "table"),
    "a run that failed, called ok": (
        logs(lambda text: "".join(text.splitlines(keepends=True)[:13])),
        "outcome",
    ),
    "faster than any processor": (logs(faster(1e9)), "speed"),
    "faster than the device's peak": (with_gpu(faster(1e9)), "speed"),
    "logs three times as fast": (logs(faster(3)), "time"),
    "slower steps than the run took": (logs(faster(0.1)), "time"),
    "more memory than the device has": (
        with_gpu(lambda text: text.replace("memory_used_mib=1000.0", "memory_used_mib=99000")),
        "memory",
    ),
    "a loss below 0": (loss(r"loss=(\d)", r"loss=-\1"), "loss"),
    "a loss that never changes": (loss(r"loss=[\d.]+", "loss=9.0"), "loss"),
    "a first loss of a trained model": (loss(r" loss=(\d+)", " loss=0"), "loss"),
    "a loss left out where it was NaN": (loss(r"(step=2\d/.*) loss=\S+", r"\1 loss=nan"), "loss"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_was_changed_is_found(name: str, good: Path, tmp_path: Path) -> None:
    change, of = BAD[name]
    assert of in found(changed(good, tmp_path, change))


def test_a_whole_bundle_has_no_finding_and_a_redacted_one_neither(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["publish", "--check", str(good)]) == 0
    assert capsys.readouterr().out == (
        "zero-rack, 2 cells, entity Example Lab: what it says follows\n"
    )
    of = bundles.campaign(tmp_path / "runs")
    assert found(bundles.published(of, tmp_path / "redacted.tar.gz", "--redact")) == set()


def test_a_log_that_is_faster_than_it_grew_is_found_though_all_else_follows(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Published again: the table follows from the changed logs."""
    bad = made_again(good, tmp_path, logs(faster(3)))
    capsys.readouterr()
    assert main(["publish", "--check", str(bad), "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert {each["of"] for each in document["findings"]} == {"time"}
    assert len(document["findings"]) == 6
    assert main(["publish", "--check", str(bad)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(
        r"time: zero_stage=0, repeat 1: iterations 1 to 40 take 2\.\d s by the log, and at least"
        r" [\d.]+ s passed while it grew",
        lines[0],
    )
    assert lines[-1].endswith(": 6 findings")


@pytest.mark.parametrize("kind", ["cut", "no table", "no file", "a device", "an option"])
def test_what_is_no_bundle_is_one_sentence(
    kind: str, good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, words = tmp_path / "x.tar.gz", []
    if kind == "cut":
        path.write_bytes(good.read_bytes()[:-2000])
    elif kind == "no table":
        path = changed(good, tmp_path, lambda home: (home / "tables/table.json").unlink())
    elif kind == "a device":
        path = Path("/dev/zero")
    elif kind == "an option":
        path, words = good, ["--anyway"]
    assert main(["publish", "--check", str(path), *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
