"""A trainer whose steps take a known time, for ssh and Slurm: what its log's arrivals must say."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CASES = ("plain", "bursts", "buffered", "evaluates", "pauses")
LEFT_OUT = {"evaluates": 5, "pauses": 1}
PROGRAM = r"""
import sys, time
case, held, took = sys.argv[1], "", []
out = open(1, "w", buffering=1 << 16 if case == "buffered" else 1, closefd=False)
now = time.monotonic()
for step in range(1, 61):
    time.sleep(0.05)
    held += f"step {step}/60 loss {9 / step:.3f}\n"
    if case != "bursts" or step % 5 == 0:
        out.write(held)
        held = ""
    before, now = now, time.monotonic()
    paused = step % 10 == 1 if case == "evaluates" else case == "pauses" and step == 31
    if step > 5 and not paused:
        took.append(now - before)
    if case == "evaluates" and step % 10 == 0:
        time.sleep(0.2)
        out.write(f"step {step}: val loss {9 / step:.3f}\n")
    if case == "pauses" and step == 30:
        out.write("saving a checkpoint\n")
        time.sleep(1.0)
out.write(f"truth {8 * len(took) / sum(took)}\n")
"""


def matrix(folder: str) -> dict[str, Any]:
    """A matrix with a cell for each case; train.py is in the folder."""
    return {
        "name": "clock",
        "warmup_iters": 5,
        "defaults": {
            "system": "command",
            "nodes": 1,
            "devices_per_node": 1,
            "cwd": folder,
            "log": {"step": r"step (\d+)/(\d+)", "loss": r"loss ([\d.]+)"},
            "samples_per_step": 8,
        },
        "include": [{"argv": ["python3", "train.py", case]} for case in CASES],
    }


def check(runs: Path) -> None:
    """Compare each row with what its trainer says at the end of its log."""
    argv = [sys.executable, "-m", "runner", "collect", "--runs", str(runs), "--format", "json"]
    told = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    rows = {row["parameters"]["argv"][-1]: row for row in json.loads(told)["rows"]}
    assert set(rows) == set(CASES)
    for path in runs.glob("*/*/repeat1/attempt1/run.json"):
        case = json.loads(path.read_text())["nodes"][0]["argv"][-1]
        (log,) = path.parent.glob("nodes/*/launcher.log")
        truth = re.search(r"truth ([\d.]+)", log.read_text())
        assert truth is not None
        row = rows[case]
        if case == "buffered":
            assert (row["figures"]["clock"], row["figures"]["samples_per_s"]) == (None, None)
            assert "start it unbuffered" in row["missing"]["samples_per_s"]
            continue
        assert row["figures"]["clock"] == "arrivals", case
        assert row["figures"]["samples_per_s"] == pytest.approx(float(truth[1]), rel=0.02), case
        assert row["figures"]["lines_paused"] == LEFT_OUT.get(case, 0), case
