"""A Slurm inventory from what sinfo says; sinfo's own words are those of Slurm 22.05."""

from pathlib import Path

import pytest

from runner.base.errors import UserError
from runner.enrol.slurm_inventory import files, notes, read
from runner.inventory.inventory import load_inventory
from runner.terms.engines.slurm import Slurm

SAID = """\
n01|gpu:a100:8(S:0-1)|128|1031000|idle|infinite
n02|gpu:a100:8(S:0-1),nvme:2|128|1031000|drained*|infinite
n03|gpu:h100:4|96|515000|mixed|infinite
"""


def written(folder: Path, texts: dict[str, str]) -> Path:
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def test_a_partitions_nodes_and_gpus_become_an_inventory(tmp_path: Path) -> None:
    partition = read("gpu", SAID)
    assert [(node.gpus, node.is_up) for node in partition.nodes] == [
        *((8, True), (8, False), (4, True))
    ]
    texts = files(partition, "/shared/tb", "cuda", "a1", partition.devices)
    cluster = load_inventory(written(tmp_path / "mine", texts))
    assert isinstance(cluster.engine, Slurm)
    engine = cluster.engine
    assert (engine.nodes, engine.partition, engine.account) == (3, "gpu", "a1")
    assert (engine.gpus_per_node, cluster.nodes[0].devices) == ("cell", 8)
    assert str(cluster.nodes[0].root) == "/shared/tb"


def test_what_needs_a_hand_is_noted() -> None:
    said = list(notes(read("gpu", SAID), 8))
    assert said == [
        "the number of GPUs differs from most nodes on n03; leave such nodes out with slurm_exclude"
        " or slurm_constraint",
        "the partition has GPUs of several types (a100, h100); choose one: slurm_gpus_per_node:"
        " a100:cell",
        "1 nodes are down or drained now (`sinfo -R`)",
    ]
    short = read("cpu", "c1|(null)|8|16000|idle|30:00\n")
    assert list(notes(short, 0)) == [
        "a job may take 30:00 there; the time_limit_s of a matrix and slurm_time_margin_s must fit",
        "Slurm knows of no GPU there, so the device is cpu",
    ]


@pytest.mark.parametrize(
    ("gres", "gpus", "types"),
    [
        ("gpu:a100:4(S:0-3),gpu:1g.5gb:14(S:0)", 4, ("a100", "1g.5gb")),
        ("gpu:nvidia_a100_3g.20gb:2,gpu:1g.5gb:7", 7, ("1g.5gb", "nvidia_a100_3g.20gb")),
        ("gpu:v100:2,gpu:h100:4", 4, ("h100", "v100")),
        ("gpu:8(S:0-1),shard:gpu:16", 8, ("",)),
        ("gpu", 1, ("",)),
        ("(null)", 0, ("",)),
    ],
)
def test_whole_gpus_of_one_type_are_a_nodes_devices(
    gres: str, gpus: int, types: tuple[str, ...]
) -> None:
    (node,) = read("gpu", f"n|{gres}|64|1000|idle|1-00:00:00\n").nodes
    assert (node.gpus, (node.gpu_type, *node.other_types)) == (gpus, types)


@pytest.mark.parametrize(
    ("state", "is_up"),
    [
        *((word, True) for word in ("idle", "idle~", "mixed-", "allocated+", "planned")),
        *((word, False) for word in ("inval", "blocked", "reboot^", "idle@", "future", "idle*")),
        *((word, False) for word in ("no_respond", "drained", "maint", "unknown", "perfctrs")),
    ],
)
def test_states_in_which_jobs_may_get_a_node(state: str, is_up: bool) -> None:
    (node,) = read("gpu", f"n|gpu:8|64|1000|{state}|1-00:00:00\n").nodes
    assert node.is_up == is_up


def test_processors_ask_for_no_gpu(tmp_path: Path) -> None:
    texts = files(read("cpu", "c1|(null)|8|16000|idle|infinite\n"), "/shared/tb", "cpu", "", 1)
    cluster = load_inventory(written(tmp_path / "mine", texts))
    assert isinstance(cluster.engine, Slurm)
    assert (cluster.device, cluster.engine.gpus_per_node) == ("cpu", None)


def test_a_partition_that_there_is_not_is_refused() -> None:
    with pytest.raises(UserError, match="no nodes in a partition gpu"):
        read("gpu", "")
