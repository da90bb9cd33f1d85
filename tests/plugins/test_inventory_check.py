"""plugins/inventory_check.py: what roles/validate says of an inventory without a connection."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from plugins import inventory_check as check
from runner.base.paths import PROJECT
from runner.inventory.inventory import KEYS, load_inventory
from runner.terms.cluster import DEVICES
from runner.terms.container_engines import ENGINES as CONTAINER_ENGINES
from runner.terms.engines.engine_table import ENGINES
from runner.terms.engines.slurm import Slurm
from tests.asked_once import ansible_inventory

KNOWN = check.read(PROJECT)
LIMITS = yaml.safe_load((PROJECT / "roles/validate/vars/main.yml").read_text())[
    "__validate_gcc_limits"
]
INVENTORIES = sorted(path.parent for path in (PROJECT / "inventory").glob("**/hosts.*"))
GOOD: dict[str, Any] = {
    "cluster_root": "/opt/tb",
    "cluster_device": "cuda",
    "cluster_devices_per_node": 8,
    "cluster_systems": ["torch_gpt"],
}


def faults(
    values: dict[str, Any], *others: str, address: str = "10.0.0.1", local: bool = False
) -> list[str]:
    """Of GOOD with `values`, where None takes a variable away; `others` are no role's."""
    given = {name: value for name, value in (GOOD | values).items() if value is not None}
    return check.inventory_faults("n1", address, local, given, {*given, *others}, KNOWN, LIMITS)


def test_a_good_inventory_has_no_faults() -> None:
    own = ("my_own", "ansible_user", "data_root", "my_cluster_root", "my_cluster_devices_per_node")
    assert faults({"cuda_versions": ["11.3"], "base_gcc_version": 12}, *own) == []
    assert faults({"cluster_device_memory_mib": 0}) == []  # unknown
    assert faults({"cluster_root": ".tb"}, local=True) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cuda_verions", "no variable cuda_verions (did you mean 'cuda_versions'?); `trainbench"),
        ("cuda_x", "no variable cuda_x; `trainbench docs roles/cuda`"),
        ("site_mirors", "no variable site_mirors (did you mean 'site_mirrors'?); docs/invent"),
        ("setup_priviledged", "no variable setup_priviledged (did you mean 'setup_privileged'?)"),
        ("clster_root", "no variable clster_root (did you mean 'cluster_root'?); give one of your"),
        ("slurm_partitoin", "(did you mean 'slurm_partition'?); docs/slurm.md lists the variables"),
        ("clutser_systems", "no variable clutser_systems (did you mean 'cluster_systems'?)"),
        ("datset_names", "no variable datset_names (did you mean 'dataset_names'?)"),
    ],
)
def test_a_misspelt_variable_is_refused_with_the_nearest(name: str, words: str) -> None:
    (said,) = faults({}, name)
    assert words in said


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"cluster_root": "tb"}, "cluster_root is 'tb'; on a remote node it must be absolute"),
        ({"cluster_root": ""}, "cluster_root is not set; name the folder that holds everything"),
        ({"cluster_lost_contact_s": 2}, "cluster_lost_contact_s is 2; it must be 3 or more"),
        ({"cluster_scratch": "tmp"}, "cluster_scratch is 'tmp'; it must be an absolute path"),
        ({"cluster_container_options": ["x"]}, "is ['x']; it must be a list of options"),
        ({"cluster_root": None}, "cluster_root is not set; name the folder"),
        ({"cluster_systems": None}, "cluster_systems is not set; docs/inventory.md says what"),
        ({"cluster_systems": ["lbai"]}, "cluster_systems names lbai (did you mean 'libai'?)"),
        ({"cluster_systems": "torch_gpt"}, "cluster_systems is 'torch_gpt'; it must be a list,"),
        ({"cluster_devices_per_node": "eight"}, "'eight'; it must be a whole number"),
        ({"cluster_device": "gpu"}, "cluster_device is 'gpu'; it must be cpu, cuda or npu"),
        ({"cluster_env": "HF_TOKEN=hidden"}, "cluster_env must be a mapping"),
        ({"setup_privileged": "maybe"}, "setup_privileged is 'maybe'; it must be true or false"),
        ({"ssh_mesh_ports": [22, "ssh"]}, "ssh_mesh_ports holds 'ssh'; each of it must be a whole"),
        ({"conda_prefix": ["/opt"]}, "conda_prefix is a list or mapping; it must be a path"),
        ({"container_runtime_engines": ["dokcer"]}, "names dokcer (did you mean 'docker'?)"),
        ({"torch_gpt_pin_sets": ["torch-2.14"]}, "torch-2.14 (did you mean 'torch-2.13'?)"),
        ({"dataset_names": [".."]}, "dataset '..': a name is letters, digits"),
        ({"dataset_names": ["own"], "dataset_own": {"own": {}}}, "dataset_own lacks 'inputs';"),
        ({"site_proxy": "https://me:hidden@p:3128"}, "site_proxy is not of the form http://HOST:"),
        ({"site_proxy": 'http://me:hid"den@p:3128'}, "site_proxy is not of the form http://HOST:"),
        ({"site_proxy": ["http://me:hidden@p:3128"]}, "site_proxy is a list or mapping; it must"),
        ({"site_mirrors": {"pipp": {}}}, "site_mirrors has pipp (did you mean 'pip'?); its kinds"),
        ({"site_mirrors": {"pip": "x"}}, "site_mirrors.pip must map the beginning of a public"),
        ({"site_mirrors": {"git": {"https://githb.com/": "x"}}}, "(did you mean 'https://github"),
        # what is longer than the address is never asked
        (
            {"site_mirrors": {"pip": {"https://pypi.org/simple/": "x"}}},
            "https://pypi.org/simple'?)",
        ),
    ],
)
def test_what_cannot_work_is_one_sentence(values: dict[str, Any], words: str) -> None:
    (said,) = faults(values)
    assert words in said
    assert "\n" not in said
    assert "hidden" not in said


def test_all_that_is_wrong_is_said_at_once() -> None:
    bad = {"cluster_device": "gpu", "torch_gpt_pin_sets": ["nope"], "cluster_root": ""}
    assert len(faults(bad, "clster_root", address="EDIT-ME")) == 5


@pytest.mark.parametrize(
    "mirrors",
    [
        {"git": {"https://": "x"}, "images": {"docker.io/library/": "x", "nvcr.io/": "x"}},
        {"apt": {"https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/": "x"}},
        {"data": {"https://own.example/": "x"}},
    ],
)
def test_mirrors_of_what_is_asked(mirrors: dict[str, Any]) -> None:
    entry = {"inputs": [{"file": "f", "address": "https://own.example/f", "sha256": "recorded"}]}
    own = {"dataset_names": ["own"], "dataset_own": {"own": entry}}
    assert faults({"site_mirrors": mirrors, **own}) == []


def test_a_dataset_that_nobody_describes_may_lie_on_a_node() -> None:
    values = {"dataset_names": ["defualt", "default", "mine"]}
    assert faults(values) == []
    hints = check.dataset_faults(values, KNOWN)[1]
    assert hints == {"defualt": " (did you mean 'default'?)", "mine": ""}


@pytest.mark.parametrize(
    ("more", "refused"),
    [
        ({"base_gcc_version": 12}, True),
        ({"base_gcc_version": "11"}, True),
        ({"base_gcc_version": 12, "trainer_gcc_version": "9"}, False),
        ({"base_gcc_version": 10}, False),
        ({}, False),  # the node is asked
        ({"base_gcc_version": 12, "cluster_device": "cpu"}, False),
        ({"base_gcc_version": 12, "megatron_deepspeed_existing_python": "/x"}, False),
        ({"base_gcc_version": 12, "megatron_deepspeed_pin_sets": ["current"]}, False),
        ({"base_gcc_version": 12, "megatron_deepspeed_pin_sets": ["current", "e52bdabb"]}, True),
    ],
)
def test_a_compiler_too_new_for_the_cuda_that_builds_apex(
    more: dict[str, Any], refused: bool
) -> None:
    found = faults({"cluster_systems": ["torch_gpt", "megatron_deepspeed"], **more})
    assert len(found) == refused
    assert all("nvcc of CUDA 11.3, which builds apex for megatron_de" in one for one in found)


def test_operators_of_deepspeed_that_are_built_at_once_count_too() -> None:
    pin = {"cuda": "10.2", "deepspeed": {"version": "0.8.0", "ops": ["cpu_adam"]}}
    more = {"trainer_pins": {"p": pin}, "torch_gpt_pin_sets": ["p"], "base_gcc_version": "9"}
    (said,) = faults(more)
    assert (
        "nvcc of CUDA 10.2, which builds DeepSpeed's operators for torch_gpt's p, takes 8" in said
    )


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({}, "torch_gpt's torch-2.13"),
        ({"cluster_systems": ["libai", "torchtitan", "torch_gpt"]}, "torchtitan's 0.2.2"),
        ({"torch_gpt_existing_python": "/x"}, "torch_gpt's torch-2.13"),
        ({"cluster_env": {"NCCL_DEBUG": "WARN"}}, "torch_gpt's torch-2.13"),
        ({"cluster_env": {"CC": "/opt/gcc/bin/gcc"}}, ""),
        ({"cluster_device": "cpu"}, ""),
        ({"cluster_engine": "slurm"}, ""),
        ({"torch_gpt_pin_sets": ["container"]}, ""),
        ({"cluster_systems": ["megatron_lm"]}, ""),  # torch 1
    ],
)
def test_runs_compile_on_gpus_with_torch_2(more: dict[str, Any], named: str) -> None:
    assert check.compiles({**GOOD, **more}, KNOWN) == named


SOURCE = {"repository": "https://git.example/mine", "commit": "5" * 40, "install": "editable"}
MINE: dict[str, Any] = {
    "python": "3.11",
    "torch": {"version": "2.11.0"},
    "requirements": ["tiktoken==0.9.0"],
    "source": SOURCE,
}


def declared(pins: Any, **more: Any) -> list[str]:
    return faults({"cluster_systems": ["command"], "command_pins": pins, **more})


def test_pin_sets_that_an_inventory_declares() -> None:
    patch = str(PROJECT / "pyproject.toml")  # any file of this machine, by its absolute path
    pins = {"mine": MINE, "2": {"source": {**SOURCE, "patches": [patch]}}}
    assert declared(pins, command_pin_sets=["2"]) == []
    assert declared({}) == []
    assert declared(None) == []


def test_nvcc_builds_for_a_declared_pin_set_too() -> None:
    pin = {"cuda": "11.3", "deepspeed": {"version": "0.8.0", "ops": ["fused_adam"]}}
    (said,) = declared({"mine": pin}, base_gcc_version=12)
    assert "builds DeepSpeed's operators for command's mine" in said


@pytest.mark.parametrize(
    ("pins", "words"),
    [
        (["mine"], "command_pins must be a mapping"),
        ({"../x": MINE}, "a name in command_pins is '../x'"),
        ({5: MINE}, "a name in command_pins is 5"),
        ({"m": None}, "command's pin set m is null; it must be a mapping"),
        ({"m": {**MINE, "requirments": []}}, "'requirments' is not a key; there are apex"),
        ({"m": {"python": 3.1}}, 'python is 3.1; it must be a version in quotes, such as "3.11"'),
        ({"m": {"torch": "2.11.0"}}, "torch is '2.11.0'; it must be a mapping"),
        ({"m": {"torch": {}}}, "torch has no version"),
        ({"m": {"torch": {"version": "2.11", "cu": "12"}}}, "'cu' is not a key"),
        ({"m": {"requirements": "numpy==2.0"}}, "requirements is 'numpy==2.0'; it must be a list"),
        ({"m": {"requirements": ["numpy"]}}, "'numpy' is not an exact pin; write name==version"),
        ({"m": {"requirements": ["--pre"]}}, "'--pre' is not an exact pin"),
        ({"m": {"requirements": [{"no_deps": True}]}}, "requirements[0] has no requirements"),
        ({"m": {"source": {"repository": "r", "commit": "main"}}}, "commit by its 40 hex digits"),
        ({"m": {"source": {"repository": "--x", "commit": "5" * 40}}}, "source.repository is"),
        ({"m": {"source": {"commit": "5" * 40}}}, "source has no repository"),
        ({"m": {"sources": {"..": SOURCE}}}, "sources is '..'"),
        ({"m": {"source": {**SOURCE, "patches": ["x.patch"]}}}, "absolute path"),
        ({"m": {"source": {**SOURCE, "patches": ["/"]}}}, "/ cannot be read"),
        ({"m": {"constraints": "no.txt"}}, "no.txt; one that lies elsewhere"),
        ({"m": {"wheels": [{"url": "https://x/y"}]}}, "does not end in the name of a wheel"),
        ({"m": {"environment": {"A-B": "1"}}}, "a variable's name"),
        ({"m": {"image": {"base": "x"}}}, "m is an image, which system command does not run"),
        ({"m": {"\x1b[2J": 1}}, "is not a key"),
    ],
)
def test_a_bad_declared_pin_set_is_one_sentence(pins: Any, words: str) -> None:
    (said,) = declared(pins)
    assert words in said
    assert said.startswith("command_pins")
    assert said.isprintable()


def test_a_pin_set_that_is_not_declared_is_named() -> None:
    (said,) = declared({"mine": MINE}, command_pin_sets=["mien"])
    assert said == "command_pin_sets names mien (did you mean 'mine'?); command_pins has mine"
    (said,) = declared(None, command_pin_sets=["mine"])
    assert said.startswith("command_pin_sets names mine; ")


def test_where_a_variable_is_set(tmp_path: Path) -> None:
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "all.yml").write_text("a: 1\ncluster_env:\n  X: 1\n")
    assert check.place("cluster_env", tmp_path) == f" ({tmp_path}/group_vars/all.yml:2)"
    assert check.place("env", tmp_path) == ""


def test_names_that_the_playbooks_derive_are_known() -> None:
    assert {"node_root", "systems_root"} <= KNOWN.derived


# --- Slurm ----------------------------------------------------------------------------------------

SLURM = {"cluster_engine": "slurm", "slurm_nodes": 4, "slurm_gpus_per_node": 8}


def test_a_slurm_inventory_has_no_faults() -> None:
    assert faults({**SLURM, "setup_privileged": False}, local=True) == []


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"slurm_nodes": "many"}, "slurm_nodes is 'many'; it must be a whole number"),
        ({"slurm_options": ["--array=1-4"]}, "slurm_options has --array, which bench sets"),
        ({"ssh_mesh_enabled": True}, "ssh_mesh_enabled is true, and cluster_engine is slurm,"),
        ({"setup_privileged": True}, "is slurm; .* so set setup_privileged: false"),
    ],
)
def test_what_is_wrong_with_slurms_keys_is_said_once(values: dict[str, Any], says: str) -> None:
    (said,) = faults({**SLURM, "setup_privileged": False, **values}, local=True)
    assert re.search(says, said)


def test_what_is_to_be_built_in_a_job_says_how() -> None:
    values = {**SLURM, "slurm_setup_in_job": True, "slurm_partition": "gpu"}
    assert check.job_faults(values, {"SLURM_JOB_ID": "7"}, "inventory/mine") == []
    assert check.job_faults({**SLURM}, {}, "inventory/mine") == []
    assert check.job_faults(GOOD, {}, "inventory/mine") == []
    assert check.job_faults(values, {}, "inventory/mine") == [
        "slurm_setup_in_job is true, and this is not a job of Slurm; run `srun --nodes=1"
        " --ntasks=1 --partition=gpu --gpus-per-node=8 ansible-playbook playbooks/setup.yml -i"
        " inventory/mine`"
    ]


# --- our own inventories --------------------------------------------------------------------------


def test_the_keys_of_a_cluster_are_the_runners() -> None:
    options = KNOWN.specs["validate"]
    assert {name for name in options if name.startswith("cluster_")} == set(KEYS)
    assert {name for name in options if name.startswith("slurm_")} == set(Slurm.inventory_keys())
    assert options["cluster_device"]["choices"] == list(DEVICES)
    assert options["cluster_engine"]["choices"] == list(ENGINES)
    assert options["cluster_container_engine"]["choices"] == list(CONTAINER_ENGINES)


@pytest.mark.parametrize("inventory", INVENTORIES, ids=lambda path: path.name)
def test_every_inventory_is_read_and_has_no_fault_but_addresses_to_edit(
    inventory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hostfile").write_text("node1 slots=8\nnode2 slots=8\n")
    monkeypatch.setenv("TRAINBENCH_HOSTFILE", str(tmp_path / "hostfile"))
    found = load_inventory(inventory)
    listed = ansible_inventory(inventory)["_meta"]["hostvars"]
    said = [
        fault
        for host, variables in listed.items()
        for fault in check.inventory_faults(
            host,
            variables.get("ansible_host", host),
            variables.get("ansible_connection") == "local",
            {name: value for name, value in variables.items() if KNOWN.spec(name)},
            variables,
            KNOWN,
            LIMITS,
        )
    ]
    to_edit = ("vs", "start-fast", "ascend", "ascend-cuda")
    assert len(said) == (1 if inventory.name in to_edit else 0), said
    assert all("EDIT-ME" in fault for fault in said)
    assert found.device == {"local": "cpu", "ascend": "npu"}.get(inventory.name, "cuda")


def test_the_documents_clusters() -> None:
    def addresses(name: str) -> list[str]:
        return [node.address for node in load_inventory(PROJECT / "inventory" / name).nodes]

    assert addresses("vs") == ["10.10.0.8", "EDIT-ME"]
    assert addresses("documents/osdi") == ["10.11.0.2", "10.11.0.3", "10.11.0.4", "10.11.0.5"]
    assert addresses("documents/thumt") == ["10.10.10.102", "10.10.10.105"]


def test_odd_values_and_names_are_printable_sentences_without_what_a_mapping_holds() -> None:
    """As the fuzzer found them: raised, or said to the terminal."""
    secret = {"HF_TOKEN": "hf_0123456789"}
    odd = {
        "cuda_versions": secret,
        "dataset_names": [7, secret],
        "base_gcc_version": float("inf"),
        "cluster_device_memory_mib": 10**400,
        "cluster_devices_per_node": secret,
    }
    words = faults(odd, "cluster_\x1b[2Jroot", "cuda_version\u2028")
    assert len(words) > 4
    assert all(each.isprintable() for each in words)
    assert "hf_0123456789" not in " ".join(words)


@pytest.mark.parametrize(("value", "text"), [("1e999", "'1e999'"), (None, "empty")])
def test_a_count_that_is_no_whole_number_is_refused_in_one_sentence(
    value: object, text: str
) -> None:
    """Ansible takes 1e999 for one, and null for a variable that is not set."""
    (fault,) = check.engine_faults({"cluster_devices_per_node": value}, True)
    assert fault == f"cluster_devices_per_node is {text}; it must be a whole number"
