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


def test_an_inventory_of_another_engine_has_no_slurm() -> None:
    assert parse(changed()).engine.name == "ssh"
    assert parse(changed(cluster_engine="ssh")).engine.name == "ssh"


def test_the_inventory_to_copy_is_read() -> None:
    found = load_inventory(PROJECT / "inventory" / "slurm")
    assert isinstance(found.engine, Slurm)
    assert (found.engine.nodes, len(found.nodes), str(found.scratch)) == (4, 4, "/tmp/trainbench")


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        (
            {"slurm_nodes": None},
            "slurm_nodes is not set: nodes that a run may have at most",
        ),
        ({"slurm_nodes": 0}, "slurm_nodes is 0; it must be 1 to 100000"),
        ({"slurm_mode": "jobs"}, "slurm_mode is 'jobs'; it must be one of 'job', 'allocation'"),
        ({"slurm_time_margin_s": 5}, "slurm_time_margin_s is 5; it must be 60 to 86400"),
        ({"slurm_exclusive": "yes"}, "slurm_exclusive is 'yes'; it must be true or false"),
        (
            {"slurm_partition": "gpu fast"},
            "slurm_partition is 'gpu fast'; it must be one word without blanks,"
            " quotes, '\\' and '#'",
        ),
        (
            {"slurm_options": ["licenses=a:1"]},
            "slurm_options[0] is 'licenses=a:1'; it must be one option of sbatch's in one word,"
            " such as --licenses=nccl:4",
        ),
        (
            {"slurm_options": ["--partition=gpu"]},
            "slurm_options has --partition, which has a key of its own: slurm_partition",
        ),
        (
            {"slurm_options": ["--parti=gpu"]},
            "slurm_options has --parti, which has a key of its own: slurm_partition",
        ),
        (
            {"slurm_options": ["--cpu-bind=cores"]},
            "slurm_options has --cpu-bind, which is srun's; write it into slurm_srun_args",
        ),
        (
            {"slurm_srun_args": ["--mpi=pmix"]},
            "slurm_srun_args has --mpi, which has a key of its own: slurm_mpi",
        ),
        (
            {"slurm_setup": "module load cuda"},
            "slurm_setup is 'module load cuda'; it must be a list",
        ),
        (
            {"slurm_setup": ["if true", "a\nb"]},
            "slurm_setup of login[1] is 'a\\nb'; control characters are not allowed",
        ),
        (
            {"slurm_options": ["--array=1-4"]},
            "slurm_options has --array, which bench sets itself; take it out",
        ),
        (
            {"slurm_options": ["--container-image=x"]},
            "slurm_options has --container-image, which bench sets itself; take it out",
        ),
        (
            {"slurm_options": ["--time=10"]},
            "slurm_options has --time, which bench sets itself; it comes from time_limit_s of the"
            " matrix and slurm_time_margin_s",
        ),
        (
            {"slurm_options": ["--licenses=a:1", "--licenses=b:1"]},
            "slurm_options has --licenses twice; leave one",
        ),
        (
            {"slurm_gres": "gpu:2", "slurm_gpus_per_node": 2},
            "slurm_gres and slurm_gpus_per_node are both set; they say the same, so leave one out",
        ),
        (
            {"cluster_device": "cuda"},
            "cluster_device is cuda, and a job that asks for no GPU has none; set"
            " slurm_gpus_per_node: 2 (slurm_gres: none where Slurm knows of no GPUs)",
        ),
        (
            {"cluster_device": "cuda", "slurm_gres": "gpu:a100:1,nvme:4"},
            "slurm_gres asks for 1 GPUs a node, and cluster_devices_per_node is 2; make them the"
            " same",
        ),
        ({"cluster_engine": "slrum"}, "cluster_engine is 'slrum'; it must be ssh or slurm"),
        ({"cluster_scratch": "tmp"}, "cluster_scratch is 'tmp'; it must be an absolute path"),
        (
            {"ansible_connection": "ssh"},
            "a Slurm inventory has one host, the login node that bench runs on, with"
            " ansible_connection: local; Slurm names the others (it has 1 host, which is reached by"
            " ssh)",
        ),
    ],
)
def test_what_is_wrong_is_said_with_the_cure(variables: dict[str, Any], says: str) -> None:
    assert refused(**variables) == says


def test_several_hosts_are_refused() -> None:
    said = refusal(listed("a", "b", each=SLURM))
    assert "one host, the login node" in said
    assert said.endswith("(it has 2 hosts)")


def test_a_misspelt_key_is_refused_with_the_right_one() -> None:
    said = refused(slurm_partitoin="gpu")
    assert said.startswith(
        "login has an unknown key 'slurm_partitoin' (did you mean 'slurm_partition'?); the keys are"
        " slurm_nodes, "
    )


def test_a_key_on_an_inventory_of_ssh_is_refused() -> None:
    assert refusal(changed(slurm_partition="gpu")) == (
        "inventory/test: slurm_partition is set, and cluster_engine is ssh; set"
        " cluster_engine: slurm, or take it out"
    )


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
