"""`parse` and `import` with `collect` say the same figures of every real log of the shared folder.

The folder is not part of the project: TRAINBENCH_SHARED names it, else these tests are skipped.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from runner.__main__ import main

SHARED = os.environ.get("TRAINBENCH_SHARED")
FOLDER = Path(SHARED or "/nonexistent") / "logs"
WHY = (
    "TRAINBENCH_SHARED names no folder: parse and collect are not compared on the shared real logs"
)
LOGS = sorted(path for path in FOLDER.rglob("*") if path.suffix in (".log", ".txt", ".out"))
pytestmark = pytest.mark.skipif(not LOGS, reason=WHY)
SAME = {
    **{key: key for key in ("samples_per_s", "step_time_ms")},
    **{"stalls_percent": "stalls_percent", "counted_lines": "counted_lines"},
    **{"tokens_per_s": "tokens_per_s", "tokens_per_s_per_device": "tokens_per_s_per_device"},
    **{"last_loss": "final_loss", "last_validation_loss": "validation_loss"},
    **{
        f"memory_{kind}_mib": f"memory_{kind}_mib"
        for kind in ("allocated", "reserved", "used", "rss")
    },
    **{"last_iteration": "iterations_trained", "planned_iterations": "iterations_planned"},
}


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """What a command prints as JSON."""
    assert main([*arguments, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.name)
def test_both_say_the_same_figures(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = ("--devices", "16")
    parsed = printed(capsys, "parse", str(log), *there)
    into = ("import", str(log), *there, "--into", "x", "--runs", str(tmp_path))
    if main([*into, "--format", "json"]) == 2:  # of no family at all
        assert not parsed["logged_lines"]
        return
    capsys.readouterr()
    (row,) = printed(capsys, "collect", "--campaign", "x", "--runs", str(tmp_path))["rows"]
    for ours, theirs in SAME.items():
        if row["figures"][theirs] is None:
            assert not parsed[ours], ours
        else:
            assert parsed[ours] == pytest.approx(row["figures"][theirs], rel=1e-6, abs=1e-6), ours
