"""Faults on real nodes: each ends the cell everywhere, leaves nothing, is named; the next runs.

The trainer is the stand-in (tests/stand_in.py); sshd, links, processes and play are real. A handful
of tests/faults, which has them all; what is slow here is proved there, too.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fixtures import Group, RealNodes
from tests.cluster.system import base_python
from tests.conftest import ROOT
from tests.on_nodes.campaign import Bench, descendants, wait

pytestmark = pytest.mark.cluster

# From the fault to a cell that has ended on every node, also where all is four times slower.
LIMIT_S = 60.0
LONG: dict[str, Any] = {"STEP_S": "0.4", "CELL": "first"}
SHORT = {"CELL": "second"}


@pytest.fixture
def group(real_nodes: RealNodes, stand_in_root: Path) -> Group:
    """Four nodes, for faults of one of them."""
    variables = {"cluster_root": str(stand_in_root), "cluster_devices_per_node": 2}
    return real_nodes(4, variables=variables)


@pytest.fixture
def pair(real_nodes: RealNodes, stand_in_root: Path) -> Group:
    """Two nodes, for what happens to all of them."""
    variables = {"cluster_root": str(stand_in_root), "cluster_devices_per_node": 2}
    return real_nodes(2, variables=variables)


def matrix(
    first: dict[str, Any], name: str = "faults", *, nodes: int = 4, **more: Any
) -> dict[str, Any]:
    """A long cell that something happens to, then a short one that must run."""
    return {
        "name": name,
        "defaults": {
            "system": "torch_gpt",
            "devices_per_node": 1,
            "nodes": nodes,
            "train_iters": 400,
        },
        "axes": {"env": [{**LONG, **first}]},
        "include": [{"env": SHORT, "train_iters": 5}],
        **more,
    }


def started(tmp_path: Path, group: Group, cells: dict[str, Any], step: int = 3) -> Bench:
    bench = Bench(tmp_path, group.inventory, cells)
    bench.start()
    bench.wait_for_step(step)
    return bench


def left(group: Group) -> list[tuple[str, str]]:
    """Processes of the trainer or the supervisor on any node."""
    return [
        (node.hostname, " ".join(argv))
        for node in group.nodes
        for _, argv in node.processes()
        if "train.py" in " ".join(argv) or "sleep" in argv
    ]


def assert_next_cell_ran(bench: Bench, group: Group, code: int = 1) -> None:
    returned, said = bench.finish()
    assert bench.outcome("env=CELL_second")["status"] == "ok", said
    assert returned == code, said
    assert left(group) == []


def test_trainer_killed_on_one_node(tmp_path: Path, group: Group) -> None:
    bench = started(tmp_path, group, matrix({}))
    victim = group.nodes[2]
    pid = next(pid for pid, argv in victim.processes() if "train.py" in " ".join(argv))
    victim.signal(pid, signal.SIGKILL)
    assert bench.wait_for_outcome("env=STEP_S", LIMIT_S) < LIMIT_S
    outcome = bench.outcome("env=STEP_S")
    assert (outcome["status"], outcome["cause"]) == ("failed", "exit")
    assert "node3: the launcher was ended by signal 9" in outcome["reason"]
    assert_next_cell_ran(bench, group)


@pytest.mark.nightly("nodes")
def test_sshd_gone_listener_and_sessions(tmp_path: Path, group: Group) -> None:
    bench = started(tmp_path, group, matrix({}))
    group.nodes[1].kill_sshd()
    took = bench.wait_for_outcome("env=STEP_S", LIMIT_S)
    group.nodes[1].start_sshd()
    outcome = bench.outcome("env=STEP_S")
    assert outcome["status"] == "node_lost"
    assert outcome["reason"].startswith("node2: out of contact")
    wait(lambda: not left_on(group, 1, "400"), LIMIT_S - took, "the end of node2's processes")
    assert_next_cell_ran(bench, group)


def left_on(group: Group, number: int, iterations: str) -> bool:
    """Whether the node still runs a trainer of so many iterations."""
    return any(
        "train.py" in " ".join(argv) and iterations in argv
        for _, argv in group.nodes[number].processes()
    )


def test_link_cut(tmp_path: Path, group: Group) -> None:
    bench = started(tmp_path, group, matrix({}))
    group.nodes[3].link(False)
    took = bench.wait_for_outcome("env=STEP_S", LIMIT_S)
    group.nodes[3].link(True)  # the next run waits there for the end of this one
    wait(lambda: not left_on(group, 3, "400"), LIMIT_S - took, "the end of node4's processes")
    assert bench.outcome("env=STEP_S")["status"] == "node_lost"
    assert bench.outcome("env=STEP_S")["reason"].startswith("node4: out of contact")
    assert_next_cell_ran(bench, group)


@pytest.mark.nightly("nodes")
def test_listener_alone_killed_ends_nothing(tmp_path: Path, group: Group) -> None:
    cells = matrix({"STEP_S": "0.02"})
    bench = started(tmp_path, group, cells)
    group.nodes[1].kill_sshd(sessions=False)
    bench.wait_for_outcome("env=STEP_S", 40)
    group.nodes[1].start_sshd()
    assert bench.outcome("env=STEP_S")["status"] == "ok"
    assert_next_cell_ran(bench, group, code=0)


@pytest.mark.nightly("nodes")
def test_trainer_that_ignores_term_and_daemonises(tmp_path: Path, group: Group) -> None:
    bench = started(tmp_path, group, matrix({"ACT": "hang"}, time_limit_s=3), step=2)
    bench.wait_for_outcome("env=STEP_S", 20)
    outcome = bench.outcome("env=STEP_S")
    assert (outcome["status"], outcome["cause"]) == ("timed_out", "time_limit")
    assert_next_cell_ran(bench, group)


def test_daemon_of_the_trainer_is_ended_and_others_are_not(tmp_path: Path, pair: Group) -> None:
    foreign = pair.nodes[0].popen(["sleep", "777"])
    try:
        cells = matrix({"ACT": "daemon", "STEP_S": "0.001"}, nodes=2)
        bench = Bench(tmp_path, pair.inventory, cells)
        done = bench.run()
        assert done.returncode == 0, done.stderr
        sleeping = [argv for _, argv in pair.nodes[0].processes() if argv[:1] == ["sleep"]]
        assert sleeping == [["sleep", "777"]]
    finally:
        foreign.kill()
        foreign.wait()


def test_runner_killed_then_bench_again(tmp_path: Path, pair: Group) -> None:
    bench = started(tmp_path, pair, matrix({}, nodes=2))
    assert bench.process is not None
    os.kill(bench.process.pid, signal.SIGKILL)
    bench.finish()
    wait(lambda: not left(pair), LIMIT_S, "clean nodes after SIGKILL of the runner")
    done = bench.run("--only", "env=CELL*")
    assert done.returncode == 0, done.stderr
    assert bench.outcome("env=CELL_second")["status"] == "ok"


@pytest.mark.parametrize("depth", [0, 1], ids=["the play", "the process that has the connections"])
def test_ansible_killed_ends_its_run_and_no_other(tmp_path: Path, pair: Group, depth: int) -> None:
    bench = started(tmp_path, pair, matrix({}, nodes=2))
    assert bench.process is not None
    os.kill(descendants(bench.process.pid)[depth], signal.SIGKILL)
    assert bench.wait_for_outcome("env=STEP_S", LIMIT_S) < LIMIT_S
    assert bench.outcome("env=STEP_S")["cause"] == "launch_error"
    assert_next_cell_ran(bench, pair)


def test_ctrl_c_once_keeps_all_and_goes_on_later(tmp_path: Path, pair: Group) -> None:
    bench = started(tmp_path, pair, matrix({"STEP_S": "0.06"}, nodes=2))
    assert bench.process is not None
    began = time.monotonic()
    os.kill(bench.process.pid, signal.SIGINT)
    returned, said = bench.finish()
    assert returned == 130, said
    assert time.monotonic() - began < LIMIT_S
    assert left(pair) == []
    assert bench.outcome("env=STEP_S")["status"] == "interrupted"
    done = bench.run(timeout=500)
    assert done.returncode == 0, done.stderr
    assert bench.outcome("env=STEP_S", attempt=2)["status"] == "ok"


@pytest.mark.nightly("nodes")
def test_one_rank_fails_before_any_step(tmp_path: Path, group: Group) -> None:
    cells = matrix({"ACT": "fail_first", "ACT_RANK": "2"})
    bench = Bench(tmp_path, group.inventory, cells)
    bench.start()
    bench.wait_for_outcome("env=STEP_S", 30)
    outcome = bench.outcome("env=STEP_S")
    assert outcome["reason"] == (
        "node3: the launcher ended with exit code 1: the trainer raised an error: torch_gpt error:"
        " the stand-in was told to fail (nodes/0002-node3/launcher.log:1)"
    )
    assert outcome["diagnosis"] == "error"
    assert_next_cell_ran(bench, group)


@pytest.mark.nightly("nodes")
def test_exit_0_without_a_step_has_no_steps(tmp_path: Path, group: Group) -> None:
    bench = Bench(tmp_path, group.inventory, matrix({"ACT": "no_step"}))
    bench.start()
    bench.wait_for_outcome("env=STEP_S", 30)
    assert bench.outcome("env=STEP_S")["status"] == "no_steps"
    assert_next_cell_ran(bench, group)


@pytest.mark.nightly("nodes")
def test_port_in_use_is_noticed_and_another_taken(tmp_path: Path, group: Group) -> None:

    cells = matrix({"STEP_S": "0.001"})
    bench = Bench(tmp_path, group.inventory, cells)
    plan = json.loads(bench.run("--dry-run", "--format", "json").stdout)[0]
    argv = plan["nodes"][0]["argv"]
    port = argv[argv.index("--master_port") + 1]
    serve = "import socket, time; s = socket.create_server(('', int(__import__('sys').argv[1])))"
    busy = group.nodes[0].popen([base_python(), "-c", f"{serve}; time.sleep(60)", port])
    try:
        time.sleep(0.3)
        done = bench.run()
    finally:
        busy.kill()
        busy.wait()
    assert done.returncode == 0, done.stderr
    assert bench.outcome("env=STEP_S")["cause"] == "port_in_use"
    assert bench.outcome("env=STEP_S", attempt=2)["status"] == "ok"


def test_values_reach_the_trainer_as_they_are(tmp_path: Path, pair: Group) -> None:
    evil = "a 'b' \"c\" $(touch /run/owned) `id` {{ lookup('pipe', 'touch /run/owned') }}\n✓ \\"
    cells = matrix({"ACT": "show", "VALUE": evil, "STEP_S": "0.001"}, nodes=2)
    bench = Bench(tmp_path, pair.inventory, cells)
    done = bench.run()
    assert done.returncode == 0, done.stderr
    log = (bench.attempt("env=STEP_S") / "nodes" / "0000-node1" / "launcher.log").read_text()
    assert f"VALUE {evil!r}" in log
    assert pair.nodes[0].exec(["ls", "/run/owned"]).returncode != 0
    assert not Path("/run/owned").exists()


def test_stop_ends_what_runs(tmp_path: Path, pair: Group) -> None:
    bench = started(
        tmp_path, pair, matrix({"STEP_S": "0.5"}, nodes=2)
    )  # long enough for a busy machine
    words = ["stop", "-i", str(pair.inventory), "--runs", str(tmp_path / "others")]
    argv = [sys.executable, "-m", "runner", *words]
    stopped = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert stopped.returncode == 0, stopped.stderr
    assert "node1: a run was ended" in stopped.stdout
    assert_next_cell_ran(bench, pair)
    assert bench.outcome("env=STEP_S")["cause"] == "stopped"


@pytest.mark.nightly("nodes")
def test_two_benches_at_once_do_not_mix(tmp_path: Path, group: Group) -> None:
    bench = started(tmp_path, group, matrix({"STEP_S": "0.06"}))
    same = bench.run()
    assert same.returncode == 2
    assert "another bench runs campaign faults-inventory-0" in same.stderr
    other = Bench(tmp_path, group.inventory, matrix({"STEP_S": "0.001"}, name="other"))
    in_use = other.run("--only", "env=STEP*")
    assert in_use.returncode == 2
    assert f"node1 is in use by the campaign {bench.campaign}; wait for its bench" in in_use.stderr
    refused = other.run_elsewhere("--only", "env=STEP*")
    assert refused.returncode == 1
    outcome = other.outcome("env=STEP_S")
    assert outcome["cause"] == "node_busy"
    assert "another run holds this node (faults-inventory-0/" in outcome["reason"]
    assert_next_cell_ran(bench, group, code=0)
