"""torch_gpt over two real nodes on every axis, and DeepSpeed through both launchers."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fixtures import RealNodes
from tests.conftest import ROOT
from tests.on_nodes.campaign import Bench
from tests.roles.play import play

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.network,
    pytest.mark.nightly("nodes", by_day="minutes"),
]

DEEPSPEED: dict[str, Any] = {"engine": "deepspeed", "pin": "deepspeed-0.19"}
CELLS: list[dict[str, Any]] = [
    {"tensor_parallel": 1},
    *({**DEEPSPEED, "zero_stage": stage, "launcher": "deepspeed"} for stage in range(3)),
    {**DEEPSPEED, "zero_stage": 3, "launcher": "deepspeed", "devices_per_node": 2},
    {"tensor_parallel": 2},
    {"pipeline_parallel": 2},
    {"tensor_parallel": 2, "zero_stage": 3, "devices_per_node": 2},
    {"tensor_parallel": 2, "pipeline_parallel": 2, "devices_per_node": 2},
    *({**DEEPSPEED, "zero_stage": stage} for stage in range(4)),
    {"precision": "bf16"},
    *({**DEEPSPEED, "precision": "bf16", "zero_stage": stage} for stage in range(4)),
]


@pytest.mark.timeout(2400)
def test_every_way_to_spread_it_gives_the_same_losses(
    tmp_path: Path, real_nodes: RealNodes
) -> None:
    pins = {"torch_gpt_pin_sets": ["torch-2.13", "deepspeed-0.19"]}
    made = subprocess.run(
        ["ansible-playbook", "playbooks/software.yml", "-e", json.dumps(pins)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    variables = {
        "cluster_root": str(ROOT / ".trainbench"),
        "cluster_devices_per_node": 2,
        "cluster_systems": ["torch_gpt"],
        "cluster_env": {"GLOO_SOCKET_IFNAME": "eth0", "NOTE": 'two words="a" $HOME'},
        "ssh_mesh_enabled": True,
    }
    group = real_nodes(2, variables=variables)
    meshed = play(group.inventory, playbook="ssh.yml")
    assert meshed.rc == 0, meshed.out
    for node in group.nodes:
        node.exec(["apt-get", "install", "-qy", "pdsh"], check=True, timeout=300)
    small = {"seq_length": 64, "micro_batch_size": 2, "global_batch_size": 8, "train_iters": 5}
    matrix = {
        "name": "parallel",
        "defaults": {"system": "torch_gpt", "devices_per_node": 1, "nodes": 2, **small},
        "include": CELLS,
        "time_limit_s": 400,
        "stall_limit_s": 300,  # DeepSpeed compiles an operator at its first start
    }
    bench = Bench(tmp_path, group.inventory, matrix)
    done = bench.run("--format", "json", timeout=2000)
    assert done.stdout, done.stderr
    rows = json.loads(done.stdout)["rows"]
    print(
        "\n".join(f"{row['status']} {row['figures']['final_loss']} {row['cell']}" for row in rows)
    )
    assert [row["status"] for row in rows] == ["ok"] * len(CELLS), done.stderr
    for low in (False, True):  # DeepSpeed rounds its weights where autocast rounds what it computes
        losses = [row["figures"]["final_loss"] for row, cell in zip(rows, CELLS, strict=True)
                  if ("precision" in cell) == low]  # fmt: skip
        assert max(losses) - min(losses) < 1e-3, (low, losses)
