"""roles/validate: what its plugin says of inventories and of nodes' answers."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils import basic

from node.oldest_python import OLDEST_PYTHON
from plugins import disk_estimate
from plugins import inventory_check as check
from roles.validate.action_plugins import validate_node as validate
from roles.validate.filter_plugins.all_faults import all_faults
from runner.base.paths import PROJECT
from runner.base.ssh_words import out_of_reach

SETTINGS = yaml.safe_load((PROJECT / "roles/validate/vars/main.yml").read_text())
OLD_PYTHONS = [found for n in (2, 3, 3.5, 3.6, 3.7) if (found := shutil.which(f"python{n}"))]


def arguments(**more: Any) -> dict[str, Any]:
    return {
        "root": "/opt/tb",
        "privileged": True,
        "systems": SETTINGS["__validate_systems"],
        **more,
    }


# --- nodes ----------------------------------------------------------------------------------------

JAMMY = {
    "id": "ubuntu",
    "version": "22.04",
    "release": "jammy",
    "pretty": "Ubuntu 22.04.4 LTS",
    "machine": "x86_64",
    "user": "train",
    "python": "3.10.12",
    "root": "yes",
    "writable": "yes",
}
XENIAL = {**JAMMY, "version": "16.04", "pretty": "Ubuntu 16.04.7 LTS", "python": "3.5.2"}


def node_faults(said: dict[str, str], **more: Any) -> list[str]:
    settings: dict[str, Any] = {
        "python": "/usr/bin/python3",
        "python_named": False,
        "password": False,
    }
    settings.update({key: more.pop(key) for key in list(more) if key in settings})
    return validate.node_faults("n1", said, arguments(**more), **settings)


@pytest.mark.parametrize(
    ("name", "version"),
    [(name, v) for name, found in SETTINGS["__validate_systems"].items() for v in found],
)
def test_supported_systems(name: str, version: str) -> None:
    assert node_faults({**JAMMY, "id": name, "version": version}) == []


def test_an_old_system_is_refused_with_the_reason() -> None:
    (said,) = node_faults(XENIAL)
    assert said == (
        "n1 is Ubuntu 16.04.7 LTS, and Ansible's modules cannot run with its Python 3.5.2 at"
        " /usr/bin/python3; install a supported system (Ubuntu 20.04, 22.04, 24.04; Debian 11, 12,"
        " 13), or name a newer one in ansible_python_interpreter (3.8 or newer)"
    )


def test_an_old_system_with_a_newer_python_named_is_taken() -> None:
    newer = {**XENIAL, "python": "3.8.18"}
    assert (
        node_faults(newer, python_named=True, python="/opt/py/bin/python3", privileged=False) == []
    )
    assert node_faults({**newer, "apt": "yes"}, python_named=True) == []
    (said,) = node_faults(newer, python_named=True)
    assert "where packages cannot be managed" in said
    assert "setup_privileged: false" in said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"python": ""}, "n1 has no Python at /usr/bin/python3; install python3"),
        ({"python": "3.7.16"}, "Python 3.7.16 at /usr/bin/python3; name a newer one"),
        ({"id": "fedora", "version": "40", "pretty": "Fedora 40"}, "n1 is Fedora 40, where pack"),
        ({"version": "25.10", "pretty": "Ubuntu 25.10"}, "n1 is Ubuntu 25.10, where packages"),
        ({"id": "", "version": "", "pretty": ""}, "n1 is a system without /etc/os-release"),
    ],
)
def test_other_systems_are_refused(change: dict[str, str], words: str) -> None:
    (said,) = node_faults({**JAMMY, **change})
    assert words in said
    assert "\n" not in said


def test_a_foreign_system_is_used_as_it_is_without_root() -> None:
    foreign = {**JAMMY, "id": "rocky", "version": "9.4"}
    del foreign["root"]
    assert node_faults(foreign, privileged=False) == []


def without(*names: str) -> dict[str, str]:
    return {key: value for key, value in JAMMY.items() if key not in names}


def test_sudo_that_asks_is_refused_unless_a_password_is_given() -> None:
    (said,) = node_faults(without("root"))
    assert "setup needs root on n1, and train may not sudo without a password" in said
    for cure in ("NOPASSWD", "--ask-become-pass", "setup_privileged: false"):
        assert cure in said
    assert node_faults(without("root"), password=True) == []
    assert node_faults(without("root"), privileged=False) == []


@pytest.mark.parametrize("privileged", [True, False])
def test_a_root_folder_that_cannot_be_written_is_refused(privileged: bool) -> None:
    (said,) = node_faults(without("writable"), privileged=privileged)
    assert said.startswith("train may not write to /opt/tb on n1; make the folder")


@pytest.mark.parametrize(
    "words",
    [
        "Failed to connect to the host via ssh: ssh: connect to host 10.0.0.1 port 22: No route to"
        " host",
        'Data could not be sent to remote host "10.0.0.1". Make sure this host can be reached'
        " over ssh: ssh: connect to host 10.0.0.1 port 22: No route to host\r\n",
    ],
)
def test_silence_is_one_sentence_with_a_cure(words: str) -> None:
    (said,) = out_of_reach({"n1": words}, {"n1": "10.0.0.1"})
    assert said.startswith(
        "n1 (10.0.0.1) cannot be reached: ssh: connect to host 10.0.0.1 port 22: No route to host;"
    )
    assert "\n" not in said
    assert "--limit '!n1'" in said


def test_ansibles_words_that_name_no_reason_are_replaced() -> None:
    words = "Data could not be sent to remote host '10.0.0.1'. Make sure this host can be reached"
    (sentence,) = out_of_reach({"n1": f"{words} over SSH."}, {"n1": "10.0.0.1"})
    why = "the connection ended before anything was sent; see that it is on"
    assert sentence.startswith(f"n1 (10.0.0.1) cannot be reached: {why}")


CHANGED = "@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed."


@pytest.mark.parametrize(
    ("words", "why", "cure"),
    [
        (
            "Failed to connect to the host via ssh: Host key verification failed.",
            "Host key verification failed (the key is not recorded here)",
            "`ssh-keyscan 10.0.0.1 10.0.0.2 >> ~/.ssh/known_hosts`",
        ),
        (
            CHANGED,
            "Host key verification failed (another key is recorded here than the one that answers)",
            "`ssh-keygen -R 10.0.0.1; ssh-keygen -R 10.0.0.2`",
        ),
        (
            "Failed to connect to the host via ssh: Permission denied (publickey).",
            "Permission denied (publickey)",
            "`ssh-copy-id 10.0.0.1`",
        ),
    ],
)
def test_what_spoils_many_nodes_is_one_sentence_with_its_own_cure(
    words: str, why: str, cure: str
) -> None:
    node = {"lost": words, "faults": []}
    found = {f"n{n}": {**node, "address": f"10.0.0.{n}"} for n in (1, 2)}
    (said,), (again,) = all_faults(found).values()
    assert said == again
    assert said.startswith(f"n1 (10.0.0.1), n2 (10.0.0.2) cannot be reached: {why}; ")
    assert cure in said
    assert said.endswith("--limit '!n1:!n2')")


def test_a_fault_of_the_inventory_is_all_nodes_and_a_folder_on_one_node_is_enough() -> None:
    undescribed = {"own": "own is nowhere", "defualt": "defualt is nowhere"}
    one = {"faults": ["x is not set"], "address": "a", "undescribed": undescribed, "there": []}
    found = {"n1": one, "n2": {**one, "there": ["own"]}}
    said = ["x is not set", "defualt is nowhere"]
    assert all_faults(found) == {"n1": said, "n2": said}


NEEDED = check.Builds("apex for a's b", "11.3", 10)


@pytest.mark.parametrize(
    ("said", "version", "privileged", "words"),
    [
        ({}, "10", True, ""),  # setup installs it
        ({}, "", True, ""),  # and the system's own, of which nobody knows yet
        ({"gcc": "10"}, "10", False, ""),
        ({"gcc": "10.2.1"}, "", False, ""),
        ({"gcc": ""}, "10", False, "n1 has no gcc-10 with g++-10, which is to build apex for a's"),
        ({"gcc": ""}, "", False, "n1 has no gcc with g++, which is to build"),
        ({"gcc": "12"}, "", False, "gcc of n1 is 12, and nvcc of CUDA 11.3, which builds apex for"),
        ({"gcc": "12"}, "", True, 'takes 10 at most; set base_gcc_version: "10"'),
    ],
)
def test_the_compiler_that_builds_is_there_and_old_enough(
    said: dict[str, str], version: str, privileged: bool, words: str
) -> None:
    found = "".join(validate.compiler_faults("n1", said, NEEDED, version, privileged))
    assert words in found
    assert bool(words) == bool(found)


@pytest.mark.parametrize(
    ("said", "what", "privileged", "refused"),
    [
        ({}, "torch_gpt's torch-2.13", False, True),
        ({"cc": "/usr/bin/clang"}, "torch_gpt's torch-2.13", False, False),
        ({}, "torch_gpt's torch-2.13", True, False),  # setup installs it
        ({}, "", False, False),
    ],
)
def test_a_compiler_for_torch_compile_is_there_where_setup_brings_none(
    said: dict[str, str], what: str, privileged: bool, refused: bool
) -> None:
    found = validate.runtime_faults("n1", {"cc": "", **said}, what, privileged)
    words = (
        "n1 has no gcc and no clang, one of which torch.compile needs when torch_gpt's torch-2.13"
        " trains; have one installed there, or name a C compiler by CC in cluster_env"
    )
    assert found == [words] * refused


def test_facts_have_ansibles_names() -> None:
    assert validate.facts(JAMMY)["ansible_distribution"] == "Ubuntu"
    assert validate.facts(JAMMY)["ansible_distribution_version"] == "22.04"
    assert validate.facts(JAMMY)["ansible_distribution_release"] == "jammy"
    assert validate.facts(JAMMY)["ansible_os_family"] == "Debian"


def ask(python: str, root: Path | str, gcc: str = "", *files: str) -> dict[str, str]:
    ran = subprocess.run(
        ["sh", "-c", validate.ASK, "ask", python, str(root), gcc, *files],
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(re.findall(r"^TRAINBENCH ([^=]+)=(.*)$", ran.stdout, flags=re.MULTILINE))


def test_this_machine_answers_in_plain_sh(tmp_path: Path) -> None:
    said = ask(sys.executable, tmp_path / "a" / "b")
    assert said["python"] == ".".join(map(str, sys.version_info[:3]))
    assert said["writable"] == "yes"
    assert {"id", "version", "machine", "kernel", "user", "uid"} <= set(said)
    assert ask("/nonexistent/python3", tmp_path)["python"] == ""


def test_a_node_says_its_compiler_and_its_datasets(tmp_path: Path) -> None:
    (tmp_path / "datasets" / "own").mkdir(parents=True)
    (tmp_path / "datasets" / "own" / "dataset.json").touch()
    files = [disk_estimate.dataset(name) for name in ("own", "none")]
    said = ask(sys.executable, tmp_path, "-of-no-version", *files)
    assert said["gcc"] == ""
    assert validate.there(said) == {"datasets/own/dataset.json"}
    assert int(said["free"]) > 0
    if shutil.which("g++"):
        assert ask(sys.executable, tmp_path)["gcc"].partition(".")[0].isdecimal()
    assert said["cc"] == (shutil.which("gcc") or shutil.which("clang") or "")


@pytest.mark.parametrize("python", OLD_PYTHONS, ids=lambda path: Path(path).name)
def test_old_pythons_say_their_version(python: str, tmp_path: Path) -> None:
    """As many as this machine has: the answer must come from a Python that modules cannot use."""
    version = subprocess.run([python, "-V"], capture_output=True, text=True)
    said = (version.stdout + version.stderr).split()  # Python 2 says it on stderr
    assert ask(python, tmp_path)["python"] == (said[1] if version.returncode == 0 else "")


def test_the_lowest_python_is_ansibles_own() -> None:
    """Of the ansible-core that runs here; 2.18 and 2.19 have the same."""
    assert OLDEST_PYTHON == basic._PY_MIN
