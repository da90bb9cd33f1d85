"""Node ranks by switch on real Slurm, whose topology is known: two switches, nodes by turns."""

import json
from pathlib import Path

import pytest

from runner.folder import names
from tests.cluster.slurm import SlurmCluster
from tests.on_slurm.campaign import SlurmBench, install_stand_in, user_folder

pytestmark = [pytest.mark.nightly("slurm", by_day="row"), pytest.mark.cluster]
TOPOLOGY = "/etc/slurm/topology.conf"


def told(slurm: SlurmCluster, text: str) -> None:
    """Have all daemons know this topology."""
    for node in (slurm.login, *slurm.compute):
        Path(f"/proc/{node.pid}/root{TOPOLOGY}").write_text(text)
    slurm.login.exec(["scontrol", "reconfigure"], check=True)


@pytest.mark.parametrize("mode", ["job", "allocation"])
def test_nodes_of_a_switch_have_ranks_in_a_row(slurm_cluster: SlurmCluster, mode: str) -> None:
    install_stand_in(slurm_cluster)
    hosts = [node.hostname for node in slurm_cluster.compute]
    before = Path(f"/proc/{slurm_cluster.login.pid}/root{TOPOLOGY}").read_text()
    by_turns = [[hosts[1], hosts[3]], [hosts[0], hosts[2]]]
    lines = [f"SwitchName=leaf{k} Nodes={','.join(leaf)}" for k, leaf in enumerate(by_turns)]
    told(slurm_cluster, "\n".join([*lines, "SwitchName=top Switches=leaf[0-1]", ""]))
    try:
        matrix = {
            "name": f"switches-{mode}",
            "defaults": {
                **{"system": "torch_gpt", "model": "gpt2-tiny", "train_iters": 3, "nodes": 4},
                **{"global_batch_size": 32, "env": {"STEP_S": "0.1"}},
            },
            "warmup_iters": 0,
            "time_limit_s": 60,
        }
        folder = user_folder(slurm_cluster, f"switches-{mode}")
        bench = SlurmBench(slurm_cluster, folder, matrix, {"slurm_mode": mode})
        ran = bench.run()
    finally:
        told(slurm_cluster, before)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (attempt,) = bench.campaign.glob(names.ATTEMPTS)
    placement = json.loads((attempt / names.PLACEMENT).read_text())
    assert placement["host"] == [*by_turns[0], *by_turns[1]]
    assert placement["switch"] == ["top.leaf0"] * 2 + ["top.leaf1"] * 2
    assert_ranks(attempt, placement["host"])


def assert_ranks(attempt: Path, hosts: list[str]) -> None:
    """What each node was told is of the rank that it has by its switch."""
    for rank, host in enumerate(hosts):
        (folder,) = (attempt / names.NODES).glob(f"{rank:04d}-*")
        started = json.loads((folder / names.STARTED).read_text())
        argv = started["argv"]
        assert argv[argv.index("--node_rank") + 1] == str(rank), (host, argv)
