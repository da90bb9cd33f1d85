"""LiBai really trains on two nodes, put there and started by us: data, tensor, pipeline parallel.

Nothing is mocked. The mirror of LiBai may lack the one large picture of its tree; then a commit
without that file stands in for the pinned one, every other file the same, and only this test's pin
names it.
"""

import json
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.systems.common.pins import pins
from tests.cluster.fixtures import Group, RealNodes
from tests.conftest import ROOT
from tests.interpreters import python
from tests.on_nodes.campaign import Bench
from tests.roles.play import Ran, play
from tests.upstream.mirrors import whole

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.network,
    pytest.mark.nightly("nodes", by_day="minutes"),
    pytest.mark.timeout(2400),
]
PIN = "9fc504c4-cpu"
BASE = "/opt/trainbench-libai"
MATRIX = {
    "name": "libai",
    "defaults": {
        **{"system": "libai", "pin": PIN, "nodes": 2, "devices_per_node": 1},
        **{"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "seq_length": 64},
        **{"micro_batch_size": 4, "global_batch_size": 8, "train_iters": 20, "log_interval": 1},
        **{"precision": "fp32", "fusions": False, "dropout": 0.0, "lr": 0.01},
    },
    "include": [{"tensor_parallel": 1}, {"tensor_parallel": 2}, {"pipeline_parallel": 2}],
    "warmup_iters": 2,
    "time_limit_s": 300,
}


@pytest.fixture
def pin(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """The pin set, with a repository that the nodes see (they hide /tmp)."""
    found = dict(pins("libai")[PIN])
    source = found["source"]
    repository, commit, left_out = whole(source["repository"], source["commit"], tmp_path / "git")
    assert len(left_out) <= 1
    shared = ROOT / "build" / f"libai-{uuid.uuid4().hex[:8]}"
    for words in (
        ["init", "-q", "--bare", str(shared)],
        [
            "-C",
            str(shared),
            "fetch",
            "-q",
            "--depth=1",
            str(repository),
            f"{commit}:refs/heads/main",
        ],
    ):
        subprocess.run(["git", *words], check=True)
    yield {**found, "source": {**source, "commit": commit, "repository": str(shared)}}
    shutil.rmtree(shared)


@pytest.fixture
def group(real_nodes: RealNodes) -> Iterator[Group]:
    variables = {
        "cluster_root": BASE,
        "cluster_device": "cpu",
        "cluster_devices_per_node": 1,
        "cluster_systems": ["libai"],
        "libai_pin_sets": [PIN],
        "python_env_interpreters": [python("3.8")],
        "setup_privileged": False,
    }
    group = real_nodes(2, variables=variables)
    yield group
    for node in group.nodes:
        node.exec(["rm", "-rf", BASE], check=True)


def test_trains_data_tensor_and_pipeline_parallel(
    tmp_path: Path, pin: dict[str, Any], group: Group
) -> None:
    def setup() -> Ran:
        extra = json.dumps({"trainer_pins": {PIN: pin}})
        return play(group.inventory, "-e", extra, timeout=1500)

    made = setup()
    assert made.rc == 0, made.out
    bench = Bench(tmp_path, group.inventory, MATRIX)
    done = bench.run("--format", "json", timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["status"] for row in rows] == ["ok"] * 3
    assert [row["figures"]["window_last_iteration"] for row in rows] == [20] * 3
    assert [row["figures"]["flop_vocabulary"].split()[0] for row in rows] == ["4096"] * 3
    # ln(4096) is 8.32. What LiBai prints is the median of all iterations so far.
    assert all(5.0 < row["figures"]["final_loss"] < 7.5 for row in rows), rows
    # Trained on, they are what setup put there: what LiBai builds in its tree is no edit.
    again = setup()
    assert again.rc == 0, again.out
    assert again.changed() == {"node1": 0, "node2": 0}, again.out
