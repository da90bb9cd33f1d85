"""Real training across real nodes, through the real playbooks: setup, bench, collect."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runner.results import stall
from tests.cluster.fixtures import Group, RealNodes
from tests.conftest import ROOT
from tests.on_nodes.campaign import Bench, wait

pytestmark = pytest.mark.cluster


@pytest.fixture
def group(real_nodes: RealNodes) -> Group:
    """Four nodes that see this checkout's .trainbench (made by `make setup`) as their root."""
    root = ROOT / ".trainbench"
    if not (root / "datasets").is_dir():
        pytest.fail("this machine is not set up: run `make setup` first", pytrace=False)
    variables = {
        "cluster_root": str(root),
        "cluster_devices_per_node": 2,
        "cluster_systems": ["torch_gpt"],
        "setup_privileged": False,
        "cluster_env": {"GLOO_SOCKET_IFNAME": "eth0"},
    }
    return real_nodes(4, variables=variables)


def setup(inventory: Path) -> None:
    ran = subprocess.run(
        ["ansible-playbook", "playbooks/setup.yml", "-i", str(inventory)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def matrix(**more: Any) -> dict[str, Any]:
    small = {"train_iters": 12, "seq_length": 64, "global_batch_size": 8, "micro_batch_size": 1}
    return {
        "name": "real",
        "defaults": {"system": "torch_gpt", "devices_per_node": 1, **small},
        "warmup_iters": 2,
        "time_limit_s": 480,
        **more,
    }


def test_trains_on_four_nodes_after_setup(tmp_path: Path, group: Group) -> None:
    """Two nodes with two processes each: tests/on_slurm/test_bench.py; alike: test_parallel.py."""
    setup(group.inventory)
    cells = matrix(include=[{"nodes": 4, "zero_stage": 1}])
    done = Bench(tmp_path, group.inventory, cells).run("--format", "json", timeout=280)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    assert row["status"] == "ok"
    assert 4.0 < row["figures"]["final_loss"] < 8.2  # ln(4096) is 8.3: it fell


@pytest.mark.nightly("nodes")
def test_killed_trainer_is_named_and_next_cell_trains(tmp_path: Path, group: Group) -> None:
    axes = {"train_iters": [2000, 6]}
    bench = Bench(tmp_path, group.inventory, matrix(axes=axes))
    content = bench.matrix.read_text().replace("train_iters: 12", "nodes: 4")
    bench.matrix.write_text(content)
    bench.start()
    bench.wait_for_step(3)
    node = group.nodes[2]
    ranks = [pid for pid, argv in node.processes() if argv[-1:] == ["1234"] and "-u" in argv]
    assert len(ranks) == 1
    node.signal(ranks[0], signal.SIGKILL)
    took = bench.wait_for_outcome("train_iters=2000", 15)
    outcome = bench.outcome("train_iters=2000")
    assert outcome["status"] == "failed", outcome
    assert took < 15
    returned, said = bench.finish()
    assert returned == 1
    assert bench.outcome("train_iters=6")["status"] == "ok", said
    wait(lambda: not any("train.py" in str(n.processes()) for n in group.nodes), 5, "clean nodes")


@pytest.mark.nightly("nodes")
def test_a_stopped_rank_is_named_and_every_rank_writes_where_it_stands(
    tmp_path: Path, group: Group
) -> None:
    """The others wait in gloo for ever. The limit is above what torch's import may take."""
    cell = {"nodes": 2, "devices_per_node": 2, "train_iters": 2000}
    cells = matrix(include=[cell], time_limit_s=600, stall_limit_s=60)
    bench = Bench(tmp_path, group.inventory, cells)
    bench.start()
    bench.wait_for_step(3, timeout=180)
    node = group.nodes[1]
    ranks = [pid for pid, argv in node.processes() if argv[-1:] == ["1234"] and "-u" in argv]
    assert len(ranks) == 2
    node.signal(max(ranks), signal.SIGSTOP)
    bench.wait_for_outcome("", 180)
    outcome = bench.outcome("")
    assert (outcome["status"], outcome["cause"]) == ("stalled", "stalled")
    assert outcome["reason"] == (
        "no node printed anything for 60 s (stall_limit_s);"
        " the others waited for rank 3 (node2), which was stopped"
    )
    stood = []
    for number in (1, 2):
        log = bench.attempt("") / "nodes" / f"000{number - 1}-node{number}" / "launcher.log"
        stood += stall.read_stacks(f"node{number}", log.read_text(errors="replace"))
    assert [one.rank for one in stood] == [0, 1, 2, 3]
    assert all(one.frame for one in stood)
    returned, said = bench.finish()
    assert returned == 1, said
