"""A comparison as JUnit XML, as another program reads it: the library junitparser."""

from pathlib import Path
from typing import Any

import junitparser
import pytest

from runner.__main__ import main
from runner.compare.rendering import to_junit
from runner.compare.side import Side
from runner.compare.verdicts import compare_campaigns, thresholds
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import Story, torch_gpt, write
from tests.runner.compare.test_compare import FAILED
from tests.runner.rows import row_of as row

EVIL = "x\x1b[2J\ufffe\x00]]><&\"'\ud800"


def read(text: str, folder: Path) -> junitparser.TestSuite:
    path = folder / "compare.xml"
    path.write_text(text, encoding="utf-8")
    (suite,) = junitparser.JUnitXml.fromfile(str(path))
    return suite


def test_worse_cells_fail_and_cells_without_a_result_are_skipped(tmp_path: Path) -> None:
    untold: dict[str, Any] = {"rate": 90.0, "runs": [{"samples_per_s": 90.0}]}
    pairs: dict[str, Any] = {
        "same": (row("same"), row("same")),
        "slower": (row("slower"), row("slower", 90.0)),
        "broke": (row("broke"), row("broke", **{**FAILED, "reason": f"out of {EVIL}"})),
        "vanished": (row("vanished"), None),
        "appeared": (None, row("appeared")),
        "not_ok": (row("not_ok", **FAILED), row("not_ok", **FAILED)),
        "cannot_tell": (row("cannot_tell"), row("cannot_tell", **untold)),
    }
    a, b = (
        Side(f"{name}{EVIL}", [one for pair in pairs.values() if (one := pair[at])], {})
        for at, name in enumerate("AB")
    )
    suite = read(to_junit(compare_campaigns(a, b, thresholds([]))), tmp_path)
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (7, 3, 0, 3)
    results = {
        case.name: [(type(one), one.type, one.message) for one in case.result] for case in suite
    }
    assert results.keys() == pairs.keys()
    failed = {
        name for name, found in results.items() if found and found[0][0].__name__ == "Failure"
    }
    assert failed == {"slower", "broke", "vanished"}
    ((_, kind, message),) = results["slower"]
    assert kind == "slower"
    assert message == "SLOWER; samples/s 100.0 → 90.00: -10.0% ±1.0 slower"
    ((_, _, message),) = results["broke"]
    assert "out of x" in message
    assert not set(message) & set(EVIL) - set("x[2J]><&\"'")
    ((_, _, message),) = results["cannot_tell"]
    assert message.startswith("cannot_tell: the runs vary too much")
    assert "repeats on each side" in message
    assert results["same"] == []


def test_the_command_writes_it_beside_what_it_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    matrix = small_matrix({"zero_stage": [0, 1]})
    made = write(tmp_path / "runs", matrix, small_cluster(), lambda *_: Story({0: torch_gpt(50)}))
    campaign = str(made.path)
    target = tmp_path / "ci" / "compare.xml"
    code = main(["compare", campaign, campaign, "--junit", str(target)])
    suite = read(target.read_text(), tmp_path)
    assert (code, suite.failures) == (3, 0)
    assert all("one run" in case.result[0].message for case in suite)
    assert "no regression" in capsys.readouterr().out
    assert main(["compare", campaign, campaign, "--junit", str(tmp_path)]) == 2
    assert "cannot be written" in capsys.readouterr().err
