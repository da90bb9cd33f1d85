"""Nodes that share one root, by a folder of this machine that lies at the same path in each."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from node.supervisor.names import PROGRAMS
from tests.cluster.fixtures import Group, RealNodes
from tests.conftest import ROOT
from tests.on_nodes.campaign import Bench
from tests.roles.play import play

pytestmark = [pytest.mark.cluster, pytest.mark.nightly("nodes", by_day="minutes")]

TORCH = ROOT / ".trainbench" / "systems" / "torch_gpt" / "torch-2.13" / "env" / "bin" / "python3"
PARTS = ("--tags", "validate,software,data,verify")


def variables(root: Path, **more: Any) -> dict[str, Any]:
    return {
        "cluster_root": str(root),
        "cluster_devices_per_node": 1,
        "cluster_systems": ["torch_gpt"],
        "cluster_env": {"GLOO_SOCKET_IFNAME": "eth0"},
        "setup_privileged": False,
        "torch_gpt_existing_python": str(TORCH),
        "dataset_existing_python": sys.executable,
        "dataset_vocab_size": 1024,
        "dataset_max_bytes": 500_000,
        **more,
    }


def setup(group: Group, *words: str) -> Any:
    return play(group.inventory, *words, playbook="setup.yml", timeout=300)


def losses(folder: Path, group: Group, name: str) -> list[float]:
    small = {"train_iters": 8, "seq_length": 64, "global_batch_size": 8, "micro_batch_size": 1}
    matrix = {
        "name": name,
        "defaults": {"system": "torch_gpt", "nodes": 2, "devices_per_node": 1, **small},
        "warmup_iters": 2,
        "time_limit_s": 480,
        "repeats": 2,
    }
    done = Bench(folder, group.inventory, matrix).run("--format", "json", timeout=500)
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)["rows"][0]
    assert row["status"] == "ok"
    return [row["figures"]["final_loss"]]


def test_setup_installs_once_and_runs_do_not_collide(tmp_path: Path, real_nodes: RealNodes) -> None:
    shared = real_nodes(2).cluster.shared / tmp_path.name
    group = real_nodes(2, variables=variables(shared, cluster_root_shared=True))
    first = setup(group)
    assert first.rc == 0, first.out
    changed = first.changed()
    assert changed["node1"] > changed["node2"] == 0, first.out
    assert setup(group).changed() == {"node1": 0, "node2": 0}
    assert not list(shared.glob(".seen-*"))
    assert sorted(path.name for path in shared.glob("env*.json")) == [
        "env-node1.json",
        "env-node2.json",
    ]
    here = losses(tmp_path, group, "shared")
    said = [json.loads(path.read_text()) for path in tmp_path.glob("runs/shared-*/inspect/*.json")]
    assert sorted(each["files"]["env"]["hostname"] for each in said) == ["node1", "node2"]
    left = {path.name: path for path in (shared / "runs").iterdir()}
    assert sorted(left) == ["lock-node1", "lock-node2", "node1", "node2"]
    for name in ("node1", "node2"):  # what the supervisor is made of, for the next run
        assert [path.name for path in left[name].iterdir()] == [PROGRAMS], "no run's folder stays"

    # As with a root each, with what was installed there.
    own = real_nodes(2, variables=variables(Path("/opt/own-root")))
    assert setup(own).rc == 0
    assert losses(tmp_path, own, "own") == pytest.approx(here, abs=1e-4)

    gone = play(group.inventory, "-e", "teardown=yes", playbook="teardown.yml")
    assert gone.rc == 0, gone.out
    assert not list(shared.glob("systems/torch_gpt"))


def test_a_root_that_is_not_what_the_inventory_says_is_refused(
    tmp_path: Path, real_nodes: RealNodes
) -> None:
    shared = real_nodes(2).cluster.shared / tmp_path.name
    unsaid = play(real_nodes(2, variables=variables(shared)).inventory, playbook="validate.yml")
    assert unsaid.rc != 0
    assert (
        f"node1 and node2 share {shared}; set cluster_root_shared: true in the inventory"
        in unsaid.out
    )
    own = variables(Path("/opt/own-root"), cluster_root_shared=True)
    words = ["-e", '{"__validate_patience_s": 1}']
    apart = play(real_nodes(2, variables=own).inventory, *words, playbook="validate.yml")
    assert apart.rc != 0
    assert "node1 does not see what node2 writes into /opt/own-root; mount one" in apart.out
