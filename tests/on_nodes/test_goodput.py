"""Runs that fail on purpose and go on, on real nodes: what it cost, and who lied.

The trainer is tests/resuming_trainer.py, and torch_gpt in the slow one.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fixtures import RealNodes
from tests.conftest import ROOT
from tests.on_nodes.campaign import Bench
from tests.on_nodes.goodput import alive, bystanders, defaults, rows, variables

pytestmark = pytest.mark.cluster
LIES = ("optimizer", "data", "step")
LIAR = {"STEPS": "60", "INTERVAL": "10", "STEP_S": "0.03"}


def matrix(*cells: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "name": "goodput",
        "defaults": defaults(nodes=2, **more),
        "include": list(cells),
        "warmup_iters": 2,
        "time_limit_s": 480,
    }


def test_faults_cost_time_and_nothing_else(tmp_path: Path, real_nodes: RealNodes) -> None:
    group = real_nodes(4)
    shared = group.cluster.shared / tmp_path.name
    group = real_nodes(4, variables=variables(shared))
    pids = bystanders(group.cluster)
    cells = matrix(
        {"faults": "none", "axes": {"fault": "none"}},
        {"faults": "kill_rank:1@25", "axes": {"fault": "rank"}},
        {"faults": "kill_node:1@25", "recovery": "spare", "axes": {"fault": "spare"}},
        {"faults": "kill_node:1@25", "recovery": "shrink", "axes": {"fault": "shrink"}},
        {"faults": "stop:1@25+1s", "axes": {"fault": "stop"}},
        {"faults": "slow:1@25+1s", "axes": {"fault": "slow"}},
        *(
            {"faults": fault, "env": {**LIAR, "LIE": lie}, "axes": {"fault": f"{lie} {fault}"}}
            for lie in LIES
            for fault in ("none", "kill_rank:1@25")
        ),
    )
    done = Bench(tmp_path, group.inventory, cells).run("--format", "json", timeout=500)
    assert done.returncode == 0, done.stderr
    by = {row["axes"]["fault"]: row for row in rows(done.stdout)}
    assert all(row["status"] == "ok" for row in by.values())
    for name in ("rank", "spare", "shrink"):
        row = by[name]
        assert row["figures"]["final_loss"] == by["none"]["figures"]["final_loss"], name
        assert row["figures"]["faults"] == 1
        # A poll may come right after the next checkpoint.
        assert row["figures"]["recovery_lost_steps"] >= 0
        assert 0 < row["figures"]["goodput_percent"] < by["none"]["figures"]["goodput_percent"]
        assert "resume_differs" not in row["verdict"]
    for name in ("stop", "slow"):
        assert by[name]["figures"]["faults"] == 1
        assert by[name]["figures"]["final_loss"] == by["none"]["figures"]["final_loss"], name
    for lie in LIES:
        assert "resume_differs" in by[f"{lie} kill_rank:1@25"]["verdict"]
        assert "resume_differs" not in by[f"{lie} none"]["verdict"]
    assert alive(group.cluster, pids) == ["node1", "node2", "node3", "node4"]
    assert not list(shared.rglob("step-*"))
    campaign = tmp_path / "runs" / f"goodput-{group.inventory.name}"
    last = next(campaign.glob("fault=spare*/repeat1/attempt2/run.json"))
    assert [node["host"] for node in json.loads(last.read_text())["nodes"]] == ["node1", "node3"]
    for node in group.cluster.nodes:
        node.exec(["kill", pids[node.hostname]])


@pytest.mark.nightly("nodes")
def test_torch_goes_on_with_fewer_nodes(tmp_path: Path, real_nodes: RealNodes) -> None:
    shared = real_nodes(3).cluster.shared / tmp_path.name
    given = {
        "cluster_root": str(ROOT / ".trainbench"),
        "cluster_devices_per_node": 1,
        "cluster_systems": ["torch_gpt"],
        "setup_privileged": False,
        "cluster_env": {"GLOO_SOCKET_IFNAME": "eth0"},
        "cluster_checkpoints": str(shared),
    }
    group = real_nodes(3, variables=given)
    small = {"train_iters": 30, "seq_length": 32, "global_batch_size": 12, "micro_batch_size": 1}
    cells = {
        "name": "shrink",
        "defaults": {"system": "torch_gpt", "nodes": 3, "checkpoint_interval": 5, **small},
        "include": [
            {"faults": "none"},
            {"faults": "kill_node:2@12", "recovery": "shrink", "zero_stage": 0},
        ],
        "warmup_iters": 2,
        "time_limit_s": 200,
    }
    done = Bench(tmp_path, group.inventory, cells).run("--format", "json", timeout=400)
    assert done.returncode == 0, done.stderr
    whole, fewer = rows(done.stdout)
    assert fewer["figures"]["final_loss"] == pytest.approx(whole["figures"]["final_loss"], abs=2e-4)
    assert "resume_differs" not in fewer["verdict"]
