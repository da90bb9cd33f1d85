"""inventory/allocation: hosts of a DeepSpeed hostfile or of SLURM, also through Ansible."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.base.errors import UserError
from runner.base.paths import PROJECT
from runner.inventory.inventory import load_inventory
from tests.roles.play import play

INVENTORY = PROJECT / "inventory" / "allocation"


def load() -> ModuleType:
    """The program as a module; no __pycache__, which Ansible would take for an inventory."""
    spec = importlib.util.spec_from_file_location("allocation", INVENTORY / "hosts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = writes
    return module


hosts: Any = load()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu3", "gpu3"),
        ("a,b", "a b"),
        ("node[01-04,7],gpu3", "node01 node02 node03 node04 node7 gpu3"),
        ("n[8-11]", "n8 n9 n10 n11"),
        ("n[08-11]", "n08 n09 n10 n11"),
        ("n[98-101]", "n98 n99 n100 n101"),
        ("n[098-101]", "n098 n099 n100 n101"),
        ("n[0-2]", "n0 n1 n2"),
        ("n[00,000]", "n00 n000"),
        ("rack[1-2]node[3-4]", "rack1node3 rack1node4 rack2node3 rack2node4"),
        ("r[1]u[09-10]-ib", "r1u09-ib r1u10-ib"),
        ("a-b[1,3],c.example.org", "a-b1 a-b3 c.example.org"),
        (" n[5-5] ", "n5"),
        ("n[3,1,2]", "n3 n1 n2"),
    ],
)
def test_hostlists_as_scontrol_show_hostnames_expands_them(text: str, names: str) -> None:
    assert hosts.expand_hostlist(text) == names.split()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("n[1-", "brackets do not match"),
        ("n1]", "brackets do not match"),
        ("n[1[2]]", "brackets do not match"),
        ("n[3-1]", "goes backwards"),
        ("n[a-b]", "'a-b' is not a number"),
        ("n[]", "'' is not a number"),
        ("n[1-2-3]", "is not a number"),
        ("n[1,]", "is not a number"),
        ("a,,b", "'' is no host name"),
        ("[1-2]", "is no host name"),
        ("a b", "is no host name"),
        ("n;reboot", "is no host name"),
        ("n[0-99999999999]", "more than 65536"),
        ("n[1-60000]m[1-60000]", "more than 65536"),
    ],
)
def test_bad_hostlists_are_refused(text: str, words: str) -> None:
    with pytest.raises(hosts.BadAllocationError, match=words):
        hosts.expand_hostlist(text)


@given(st.text(alphabet="n0123456789[],-", max_size=12))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    try:
        found = hosts.expand_hostlist(text)
    except hosts.BadAllocationError:
        return
    assert found
    assert not any(letter in name for name in found for letter in "[],")


# --- hostfiles ------------------------------------------------------------------------------------

GOOD = """\
# two machines
10.10.10.102 slots=8

10.10.10.105\tslots=4   # half of it
"""


def test_a_deepspeed_hostfile() -> None:
    assert hosts.read_hostfile(GOOD, "hostfile") == {"10.10.10.102": 8, "10.10.10.105": 4}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a slots=8\nb\n", "f, line 2: 'b' is not of the form `host slots=8`"),
        ("a slots=x", "line 1"),
        ("a slots=0", "line 1"),
        ("a slots=-1", "line 1"),
        ("# c\n\na slots = 8", "line 3"),
        ("a slots=8 b slots=8", "line 1"),
        ("slots=8", "line 1"),
        ("a slots=8\n\na slots=8", "line 3: a is named twice"),
        ("# nothing\n", "f names no host"),
        ("", "f names no host"),
    ],
)
def test_bad_lines_are_refused_by_number(text: str, words: str) -> None:
    with pytest.raises(hosts.BadAllocationError) as caught:
        hosts.read_hostfile(text, "f")
    assert words in str(caught.value)


# --- devices --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "devices"),
    [
        ({}, [None, None, None]),
        ({"SLURM_GPUS_ON_NODE": "8"}, [8, 8, 8]),
        ({"SLURM_GPUS_PER_NODE": "4", "SLURM_GPUS_ON_NODE": "8"}, [4, 4, 4]),
        ({"SLURM_GPUS_PER_NODE": "a100:4"}, [4, 4, 4]),
        ({"SLURM_GPUS_PER_NODE": "a100:2,v100:1"}, [3, 3, 3]),
        ({"SLURM_GPUS_PER_NODE": "0", "SLURM_NTASKS_PER_NODE": "2"}, [2, 2, 2]),
        ({"SLURM_NTASKS": "7", "SLURM_TASKS_PER_NODE": "3(x2),1"}, [3, 3, 1]),
        # Without --ntasks Slurm says one task a node, which means nothing.
        ({"SLURM_TASKS_PER_NODE": "1(x3)"}, [None, None, None]),
    ],
)
def test_devices_as_slurm_says_them(
    variables: dict[str, str], devices: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "device", lambda: "cpu")
    env = {"SLURM_JOB_NODELIST": "n[1-3]", **variables}
    assert hosts.allocation(env) == list(zip(("n1", "n2", "n3"), devices, strict=True))


def test_a_task_is_no_gpu(tmp_path: Path) -> None:
    """One torchrun a node is one task; what the inventory says decides, wherever it is a copy."""
    variables = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NTASKS_PER_NODE": "1", "SLURM_NTASKS": "2"}
    for device, found in (("cuda", {}), ("'cpu'", {"cluster_devices_per_node": 1})):
        folder = tmp_path / device.strip("'")
        shutil.copytree(INVENTORY, folder)
        settings = folder / "group_vars" / "all" / "cluster.yml"
        text = settings.read_text()
        settings.write_text(text.replace("cluster_device: cuda", f"cluster_device: {device}"))
        argv = [sys.executable, str(folder / "hosts.py"), "--list"]
        printed = subprocess.check_output(argv, env={**os.environ, **variables}, text=True)
        assert json.loads(printed)["_meta"]["hostvars"] == {"n1": found, "n2": found}


def test_tasks_that_do_not_fit_the_hosts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "device", lambda: "cpu")
    env = {"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_NTASKS": "2", "SLURM_TASKS_PER_NODE": "1(x2)"}
    with pytest.raises(hosts.BadAllocationError, match="3 hosts in SLURM_JOB_NODELIST; run inside"):
        hosts.allocation(env)


@pytest.mark.parametrize("text", ["n[1-", "n[3-1]", "a,,b"])
def test_a_bad_hostlist_is_refused_by_its_variable_with_a_cure(text: str) -> None:
    with pytest.raises(hosts.BadAllocationError) as caught:
        hosts.allocation({"SLURM_JOB_NODELIST": text})
    assert str(caught.value).startswith("SLURM_JOB_NODELIST is no list of hosts such as node[01")
    assert "name a DeepSpeed hostfile in TRAINBENCH_HOSTFILE" in str(caught.value)


# --- through Ansible ------------------------------------------------------------------------------


@pytest.fixture
def no_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("SLURM_", "TRAINBENCH_HOSTFILE"))]:
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("no_allocation")
def test_the_runner_reads_a_hostfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hostfile").write_text(GOOD)
    monkeypatch.setenv("TRAINBENCH_HOSTFILE", str(tmp_path / "hostfile"))
    monkeypatch.setenv("SLURM_JOB_NODELIST", "other[1-2]")
    found = load_inventory(INVENTORY)
    assert [(node.host, node.devices) for node in found.nodes] == [
        ("10.10.10.102", 8),
        ("10.10.10.105", 4),
    ]


@pytest.mark.usefixtures("no_allocation")
def test_the_runner_and_ansible_read_a_slurm_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_NODELIST", "node[09-10],gpu3")
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "2")
    found = load_inventory(INVENTORY)
    assert [(node.host, node.devices) for node in found.nodes] == [
        ("node09", 2),
        ("node10", 2),
        ("gpu3", 2),
    ]
    listed = subprocess.run(
        ["ansible-playbook", "playbooks/validate.yml", "-i", str(INVENTORY), "--list-hosts"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "hosts (3)" in listed.stdout


@pytest.mark.usefixtures("no_allocation")
def test_without_an_allocation_the_sentence_reaches_the_user() -> None:
    with pytest.raises(UserError, match=r"there is no allocation here; name a DeepSpeed hostfile"):
        load_inventory(INVENTORY)


@pytest.mark.usefixtures("no_allocation")
def test_ansible_shows_the_sentence_on_a_line_of_its_own_with_what_follows_from_it() -> None:
    ran = play(INVENTORY, playbook="validate.yml")
    assert ran.rc != 0
    assert "\n\nerror: there is no allocation here; name a DeepSpeed hostfile in TR" in ran.out
    assert f"\n\n{hosts.AFTERWARDS}\n\n" in ran.out
