"""What happens on two nodes to runs of one campaign; each ends as it should, and the next one runs.

The trainer is the stand-in (tests/stand_in.py); sshd, processes and play are real. tests/faults has
every fault, a campaign each.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runner.folder import names
from tests.cluster.fixtures import RealNodes
from tests.conftest import ROOT
from tests.on_nodes.campaign import Bench, descendants, wait

pytestmark = pytest.mark.cluster

LIMIT_S = 120.0
EVIL = "a 'b' \"c\" $(touch /run/owned) `id` {{ lookup('pipe', 'touch /run/owned') }}\n✓ \\"
QUICK = {"STEP_S": "0.001"}
LONG = {"STEP_S": "0.5"}  # is ended long before its last step
CELLS = {
    "values": {**QUICK, "ACT": "show", "VALUE": EVIL},
    "daemon": {**QUICK, "ACT": "daemon"},
    "play": LONG,
    "connections": LONG,
    "stopped": LONG,
    "last": QUICK,
}
MATRIX = {
    "name": "faults",
    "defaults": {"system": "torch_gpt", "devices_per_node": 1, "nodes": 2, "train_iters": 400},
    "axes": {"env": [{"CELL": name, **env} for name, env in CELLS.items()]},
}


def cell(name: str) -> str:
    return f"env=CELL_{name}"


def until_trains(bench: Bench, name: str) -> None:
    def trains() -> bool:
        logs = bench.campaign.glob(f"{cell(name)}*/**/{names.LOG}")
        return any(b"torch_gpt step=3/" in log.read_bytes() for log in logs)

    wait(trains, LIMIT_S, f"step 3 of {name}")


def test_each_run_ends_as_it_should_and_the_next_one_runs(
    tmp_path: Path, real_nodes: RealNodes, stand_in_root: Path
) -> None:
    variables = {"cluster_root": str(stand_in_root), "cluster_devices_per_node": 2}
    group = real_nodes(2, variables=variables)
    node = group.nodes[0]
    foreign = node.popen(["sleep", "777"])
    bench = Bench(tmp_path, group.inventory, MATRIX)
    bench.start()
    assert bench.process is not None
    try:
        # Ansible: the play, then the process that has the connections.
        for depth, name in enumerate(("play", "connections")):
            until_trains(bench, name)
            os.kill(descendants(bench.process.pid)[depth], signal.SIGKILL)
            bench.wait_for_outcome(cell(name), LIMIT_S)

        until_trains(bench, "stopped")
        words = ["stop", "-i", str(group.inventory), "--runs", str(tmp_path / "others")]
        argv = [sys.executable, "-m", "runner", *words]
        stopped = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=400)
        code, said = bench.finish()
        left = [argv for each in group.nodes for _, argv in each.processes()]
    finally:
        foreign.kill()
        foreign.wait()
        if bench.process.poll() is None:
            os.killpg(bench.process.pid, signal.SIGKILL)
    assert code == 1, said
    assert stopped.returncode == 0, stopped.stderr
    assert f"{node.hostname}: a run was ended" in stopped.stdout
    ends = {name: bench.outcome(cell(name)) for name in CELLS}
    assert {name: end["cause"] or end["status"] for name, end in ends.items()} == {
        **dict.fromkeys(("values", "daemon", "last"), "ok"),
        **dict.fromkeys(("play", "connections"), "launch_error"),
        "stopped": "stopped",
    }, said
    # The trainer's daemon is gone, and what somebody else runs there is not.
    assert left == [["sleep", "777"]]
    folder = bench.attempt(cell("values")) / names.NODES / f"0000-{node.hostname}"
    assert f"VALUE {EVIL!r}" in (folder / names.LOG).read_text()
    assert node.exec(["ls", "/run/owned"]).returncode != 0
    assert not Path("/run/owned").exists()
