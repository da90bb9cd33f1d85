"""What the runner reads of an inventory's Slurm keys, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest

from runner.base.errors import UserError
from runner.base.paths import PROJECT
from runner.inventory.engine_keys import asked_keys
from runner.inventory.inventory import load_inventory, parse_inventory
from runner.launch.slurm.job_script import job_script
from runner.terms.engines.slurm import Slurm
from tests.runner.launch.slurm.test_job_script import OUTPUT
from tests.runner.launch.slurm.test_job_script import planned as orders
from tests.runner.test_inventory import changed, listed, parse, refusal

SLURM = {
    "cluster_engine": "slurm",
    "ansible_connection": "local",
    "cluster_root": "/shared/tb",
    "slurm_nodes": 2,
}


def refused(**variables: Any) -> str:
    return refusal(listed("login", each={**SLURM, **variables})).removeprefix("inventory/test: ")


def test_the_nodes_are_the_ranks_of_any_job() -> None:
    found = parse(listed("login", each={**SLURM, "slurm_partition": "gpu", "slurm_mem": 0}))
    assert [(node.host, node.address) for node in found.nodes] == [
        ("rank0", "{master_addr}"),
        ("rank1", "{node_addr_1}"),
    ]
    assert {(str(node.root), node.devices) for node in found.nodes} == {("/shared/tb", 2)}
    assert isinstance(found.engine, Slurm)
    assert (found.engine.partition, found.engine.mem, found.engine.mode) == ("gpu", "0", "job")


def test_the_inventory_to_copy_is_read() -> None:
    found = load_inventory(PROJECT / "inventory" / "slurm")
    assert isinstance(found.engine, Slurm)
    assert (found.engine.nodes, len(found.nodes), str(found.scratch)) == (4, 4, "/tmp/trainbench")


@pytest.mark.parametrize(
    ("variables", "culprit", "cure"),
    [
        ({"slurm_nodes": None}, "slurm_nodes is not set", "nodes that a run may have at most"),
        ({"slurm_nodes": 0}, "slurm_nodes is 0", "1 to 100000"),
        ({"slurm_mode": "jobs"}, "slurm_mode is 'jobs'", "one of 'job', 'allocation'"),
        ({"slurm_time_margin_s": 5}, "slurm_time_margin_s is 5", "60 to 86400"),
        ({"slurm_exclusive": "yes"}, "slurm_exclusive is 'yes'", "true or false"),
        ({"slurm_partition": "a b"}, "slurm_partition is 'a b'", "one word without blanks"),
        (
            {"slurm_options": ["licenses=a"]},
            "slurm_options[0] is 'licenses=a'",
            "--licenses=nccl:4",
        ),
        ({"slurm_options": ["--partition=a"]}, "has --partition", "of its own: slurm_partition"),
        ({"slurm_options": ["--parti=a"]}, "has --parti", "of its own: slurm_partition"),
        ({"slurm_options": ["--cpu-bind=a"]}, "has --cpu-bind", "write it into slurm_srun_args"),
        ({"slurm_srun_args": ["--mpi=a"]}, "slurm_srun_args has --mpi", "of its own: slurm_mpi"),
        ({"slurm_setup": "a"}, "slurm_setup is 'a'", "a list"),
        ({"slurm_setup": ["b", "a\nb"]}, "of login[1] is 'a\\nb'", "are not allowed"),
        ({"slurm_options": ["--array=1-4"]}, "has --array", "take it out"),
        ({"slurm_options": ["--container-image=x"]}, "has --container-image", "take it out"),
        ({"slurm_options": ["--time=10"]}, "has --time", "time_limit_s of the matrix"),
        ({"slurm_options": ["--licenses=a", "--licenses=b"]}, "has --licenses twice", "leave one"),
        ({"slurm_gres": "gpu:2", "slurm_gpus_per_node": 2}, "are both set", "leave one out"),
        ({"cluster_device": "cuda"}, "cluster_device is cuda", "set slurm_gpus_per_node: 2"),
        (
            {"cluster_device": "cuda", "slurm_gres": "gpu:a100:1,nvme:4"},
            "slurm_gres asks for 1 GPUs a node",
            "make them the same",
        ),
        ({"cluster_engine": "slrum"}, "cluster_engine is 'slrum'", "ssh or slurm"),
        ({"cluster_scratch": "tmp"}, "cluster_scratch is 'tmp'", "an absolute path"),
        ({"ansible_connection": "ssh"}, "which is reached by ssh", "ansible_connection: local"),
    ],
)
def test_what_is_wrong_is_said_with_the_cure(
    variables: dict[str, Any], culprit: str, cure: str
) -> None:
    said = refused(**variables)
    assert culprit in said
    assert cure in said


def test_several_hosts_are_refused() -> None:
    said = refusal(listed("a", "b", each=SLURM))
    assert "one host, the login node" in said
    assert said.endswith("(it has 2 hosts)")


def test_a_misspelt_key_is_refused_with_the_right_one() -> None:
    said = refused(slurm_partitoin="gpu")
    assert "'slurm_partitoin' (did you mean 'slurm_partition'?); the keys are slurm_nodes, " in said


@pytest.mark.parametrize(
    "variables",
    [
        {"slurm_gpus_per_node": 2},
        {"slurm_gpus_per_node": "a100:4"},
        {"slurm_gres": "gpu:a100:2,nvme"},
        {"slurm_gres": "none"},
    ],
)
def test_gpus_that_are_enough(variables: dict[str, Any]) -> None:
    found = parse(listed("login", each={**SLURM, "cluster_device": "cuda", **variables}))
    assert found.engine.name == "slurm"


def digest(**variables: Any) -> str:
    return parse(listed("login", each={**SLURM, **variables})).digest


def test_a_campaign_stays_with_what_its_runs_have_alike() -> None:
    """More jobs, other nodes to leave out, a longer margin: the same campaign goes on."""
    same = {"slurm_nodes": 4, "slurm_exclude": "n7", "slurm_most_jobs": 2, "slurm_account": "me"}
    assert {digest(**{key: value}) for key, value in same.items()} == {digest()}
    other = {"slurm_partition": "gpu", "slurm_mode": "allocation", "cluster_scratch": "/tmp/x"}
    assert len({digest(), *(digest(**{key: value}) for key, value in other.items())}) == 4


ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 10**30, float("nan"), "", " ", "a b", "a\nb", "\x1b[1m"),
    *([], {}, [1], ["--a", None], {"a": {"b": 1}}, "x" * 5_000, "#", "'", "--x=1", ["--x="]),
)


@pytest.mark.parametrize("key", [*Slurm.inventory_keys(), "cluster_engine", "cluster_scratch"])
def test_any_value_is_read_or_refused_in_one_line(key: str) -> None:
    said = []
    for value in ODD:
        try:
            found = parse(listed("login", each={**SLURM, key: value}))
        except UserError as error:
            said.append(str(error))
            continue
        if isinstance(found.engine, Slurm):
            job_script(orders(), found.engine, output=OUTPUT, comment="c", command=("true",))
    assert all(each.isprintable() and len(each) < 1_500 for each in said)
    assert len(said) > len(ODD) / 3


def test_keys_on_the_command_line_take_the_inventorys_place() -> None:
    words = ["qos=2023", "slurm_account=1234", "gpus-per-node=cell", "time_margin_s=60"]
    instead = asked_keys(words, "--queue")
    found = parse_inventory(
        listed("login", each={**SLURM, "slurm_qos": "long"}), Path("inventory/test"), instead
    )
    assert isinstance(found.engine, Slurm)
    engine = found.engine
    assert (engine.qos, engine.account, engine.gpus_per_node) == ("2023", "1234", "cell")
    assert engine.time_margin_s == 60


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("qos", "--queue: 'qos' is not KEY=VALUE, such as qos=debug"),
        ("acount=a", "--queue: 'acount' is not a key of an engine (did you mean 'account'?)"),
    ],
)
def test_a_word_of_the_command_line_that_is_no_key(word: str, says: str) -> None:
    with pytest.raises(UserError) as caught:
        asked_keys([word], "--queue")
    assert str(caught.value).startswith(says)


def test_a_key_of_the_command_line_is_refused_on_another_engine() -> None:
    with pytest.raises(UserError, match="slurm_qos is set, and cluster_engine is ssh"):
        parse_inventory(changed(), Path("inventory/test"), asked_keys(["qos=debug"], "--queue"))
