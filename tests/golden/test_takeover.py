"""A bench that takes over the very moment another is killed: the play that lives on gives way.

The trainer is the stand-in; bench, Ansible and the supervisor are real, on this machine.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import stand_in
from tests.golden.places import stood_in
from tests.on_nodes.campaign import Bench, wait

CELL = {"system": "torch_gpt", "nodes": 1, "devices_per_node": 1, "train_iters": 400}


def opened(process: subprocess.Popen[str], path: Path) -> bool:
    """Whether the process has the file open."""
    for file in Path(f"/proc/{process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            if os.readlink(file) == str(path.resolve()):
                return True
    return False


@pytest.mark.parametrize("act", ["", "hang"], ids=["", "a trainer that ignores TERM"])
def test_the_next_bench_gets_the_node_though_it_takes_the_lock_at_once(
    tmp_path: Path, act: str
) -> None:
    """It waits for the lock already, so that no look of the old play finds the lock free."""
    python = os.path.realpath(sys._base_executable)  # type: ignore[attr-defined]  # CPython has it
    root = tmp_path / "root"
    stand_in.install(root, python)
    inventory = stood_in(tmp_path / "here", root)
    cell = {**CELL, "env": {"STEP_S": "0.1", "ACT": act}}
    first = Bench(tmp_path, inventory, {"name": "m", "defaults": cell})
    first.start()
    first.wait_for_step(2)
    assert first.process is not None
    second = subprocess.Popen(first.argv(), stdout=subprocess.DEVNULL, text=True)
    try:
        wait(lambda: opened(second, first.campaign / "lock"), 200, "the second bench")
        first.process.kill()
        first.process.wait()
        logs = "*/repeat1/attempt2/nodes/*/launcher.log"
        wait(
            lambda: any(b"step=2/" in log.read_bytes() for log in first.campaign.glob(logs)),
            200,
            "the second bench's trainer",
        )
        old = first.attempt("")
        assert json.loads((old / "halt").read_text())["cause"] == "control_lost"
        assert not (first.attempt("", attempt=2) / "halt").exists()
    finally:
        second.send_signal(signal.SIGINT)
        second.wait(60)
