"""What one node answers to a role reaches no file of the control node and no line on another."""

import hashlib
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from node.answer import SIGN
from plugins.action import ask
from roles.dataset.action_plugins import datasets
from roles.prefetch.action_plugins import debs
from roles.prefetch.files import prefetch
from roles.site.action_plugins import bring
from roles.trainer.action_plugins import pins as trainer

SECRET = b"the control node's own\n"
ENV = {"python": "3", "versions": {}, "lock": "", "lines": [], "faults": [], "todo": [], "make": ""}
PIN = {"trees": [], "env": ENV, "files": [], "installed": {}, "differs": []}
SUM = hashlib.sha256(SECRET).hexdigest()


def plugin(module: Any) -> Any:
    """An action whose node answers as `says`; what it sent to the node is in `sent`."""
    action = module.ActionModule.__new__(module.ActionModule)
    action._task = SimpleNamespace(check_mode=False, args={})
    action._connection = SimpleNamespace(
        put_file=lambda source, target: action.sent.append(Path(source).read_bytes()),
        fetch_file=lambda source, target: Path(target).write_bytes(b"evil"),
    )
    action.sent, action.python, action.says, action.variables = [], "python3", {}, {}
    action._compute_environment_string = lambda: ""

    def execute(command: str, in_data: bytes) -> dict[str, Any]:
        entry = json.loads(in_data)["entry"].removeprefix("node.")
        return {"stdout": SIGN + json.dumps(action.says[entry]) + "\n", "rc": 0, "stderr": ""}

    action._low_level_execute_command = execute
    return action


@pytest.mark.parametrize("path", ["../private", "VICTIM", "pip/../../private", "pip/other.whl"])
def test_a_node_is_sent_no_file_that_it_was_not_offered(tmp_path: Path, path: str) -> None:
    """A node that says it lacks `../../.ssh/id_rsa` was sent the control node's file."""
    folder, victim = tmp_path / "prefetched", tmp_path / "private"
    (folder / "pip").mkdir(parents=True)
    victim.write_bytes(SECRET)
    (folder / "pip" / "other.whl").write_bytes(SECRET)
    (folder / "manifest.json").write_text(
        json.dumps({"files": {"pip/a.whl": [1, SUM]}, "datasets": [], "mirrors": {}})
    )
    action = plugin(bring)
    lacking = [str(victim) if path == "VICTIM" else path]
    action.says = {"prefetched:have": {"lacking": lacking, "extra": []}}
    asked = {"source": str(folder), "folder": "/opt/tb/prefetched", "data": True, "release": ""}
    with pytest.raises(Exception, match=r"none of|not offered|must be a path inside"):
        action.act(asked, {})
    assert action.sent == []


def test_a_file_is_sent_once_however_often_a_node_asks_for_it(tmp_path: Path) -> None:
    folder = tmp_path / "prefetched"
    (folder / "pip").mkdir(parents=True)
    (folder / "pip" / "a.whl").write_bytes(b"x")
    (folder / "manifest.json").write_text(
        json.dumps({"files": {"pip/a.whl": [1, SUM]}, "datasets": [], "mirrors": {}})
    )
    action = plugin(bring)
    action.says = {"prefetched:have": {"lacking": ["pip/a.whl"] * 50_000, "extra": []}}
    asked = {"source": str(folder), "folder": "/opt/tb/prefetched", "data": True, "release": ""}
    with pytest.raises(Exception, match="asks for one file several times"):
        action.act(asked, {})
    assert action.sent == []


@pytest.mark.parametrize(
    "files",
    [
        {"../../victim": [4, SUM]},
        {"/etc/cron.d/x": [4, SUM]},
        {"a_1_all.deb": [-4, SUM]},
        {"a_1_all.deb": [4, "../x"]},
        {"a_1_all.deb\n": [4, SUM]},
        {".bashrc": [4, SUM]},
        [],
        {"a_1_all.deb": [10**400, SUM]},
    ],
)
def test_a_packages_name_is_no_path_of_the_control_node(files: Any) -> None:
    action = plugin(debs)
    action.says = {"packages:plan": {"scratch": "/tmp/x", "files": files}}
    with pytest.raises(Exception, match="answer to plan"):
        action.act({"step": "plan", "groups": [], "release": "debian12"}, {})


@pytest.mark.parametrize("release", ["../../..", "/etc", "a/b", "..", "deb\nian"])
def test_a_release_is_no_path_of_the_control_node(release: str) -> None:
    """A release is one of the node's facts, and its folder is emptied of what nobody asked for."""
    action = plugin(debs)
    action.says = {"packages:plan": {"scratch": "/tmp/x", "files": {}}}
    with pytest.raises(ValueError, match="the node's release is"):
        action.act({"step": "plan", "groups": [], "release": release}, {})


@pytest.mark.parametrize(
    "stanza",
    [
        "Package: libc6\nFilename: ./a_1_all.deb\nSize: 4\nSHA256: {sum}\n\nPackage: x\n",
        "Package: a\nFilename: ../../etc/x\nSize: 4\nSHA256: {sum}\n",
        "Package: a\nFilename: ./a_1_all.deb\nFilename: ./b\nSize: 4\nSHA256: {sum}\n",
        "Package: a\n",
    ],
)
def test_an_entry_of_apts_list_is_of_that_package_alone(tmp_path: Path, stanza: str) -> None:
    action = plugin(debs)
    name, digest = "a_1_all.deb", hashlib.sha256(b"evil").hexdigest()
    told = {"paths": {name: "/tmp/x/out/a"}, "stanzas": {name: stanza.format(sum=digest)}}
    action.says = {"packages:fetch": told, "packages:drop": {}}
    planned = {"scratch": "/tmp/x", "files": {name: [4, digest]}, "release": "debian12"}
    with pytest.raises(Exception, match=r"is not that of a_1_all\.deb"):
        action.act({"step": "fetch", "folder": str(tmp_path), "planned": planned}, {})
    assert list(tmp_path.rglob("*.control")) == []


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("../../../.bashrc", SUM),
        ("/root/.bashrc", SUM),
        ("x.whl\n", SUM),
        ("-r.whl", SUM),
        ("x.whl", "../../../root"),
        ("x.whl", ""),
    ],
)
def test_a_wheels_name_is_no_path_of_the_control_node(name: str, digest: str) -> None:
    """The keeper's wheel was fetched to build/apex/<its sha256>/<its name>."""
    action = plugin(ask)
    wheel = {"name": name, "sha256": digest, "key": {}}
    action.says = {"apex:look": {"key": {}, "wheel": wheel}}
    result = action.act({"program": "apex:look", "spec": {}}, {})
    assert result["answer"]["wheel"] == {}


@pytest.mark.parametrize(
    "line",
    [
        "--index-url http://evil/",
        "-r /etc/shadow",
        "x@http://evil/x-1-py3-none-any.whl",
        "x==1 --hash=sha256:00",
        "x==1\n--index-url http://evil/",
        "http://evil/x.whl",
        "x==1; python_version > '2'",
        "./x",
        "x==../../y",
    ],
)
def test_a_nodes_lock_is_exact_pins_on_another_node(line: str) -> None:
    """Lines of one node's environment are constraints of pip's on another: an address installs."""
    env = {"make": "", "todo": [], "python": "3.8.10", "lines": [line, "numpy==1.22.0"]}
    look = {"system": "toy", "pins": {"p": {"env": env}}}
    assert trainer.example_lock([look], "p", "3.8.18") == ["numpy==1.22.0"]


@pytest.mark.parametrize(
    "answer",
    [
        [],
        {"system": "toy"},
        {"system": "toy", "pins": {}, "differing": []},
        {"system": "toy", "pins": {"p": {"env": 3}}, "differing": []},
        {"system": "../x", "pins": {"p": {}}, "differing": ["p"]},
        *(
            {"system": "toy", "pins": {"p": {**PIN, "env": {**ENV, **odd}}}, "differing": []}
            for odd in ({"todo": [3]}, {"todo": ["name"]}, {"lines": [3]}, {"make": "rm -r /"})
        ),
    ],
)
def test_an_odd_answer_of_a_pin_set_is_one_sentence(
    answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = plugin(trainer)
    action.says = {"pin:look": answer}
    values: dict[str, Any]
    values = {"trainer_system": "toy", "trainer_pin_sets": ["p"], "trainer_files": []}
    values |= {"trainer_script": "", "trainer_cuda_homes": {}, "systems_root": "/s"}
    values |= {"trainer_pins": {"p": {"requirements": ["a==1"]}}, "trainer_gcc_version": ""}
    monkeypatch.setattr(
        type(action), "value", lambda _, name, default="": values.get(name, default)
    )
    with pytest.raises(ValueError, match="the answer to look"):
        action.act({"step": "look"}, {})


@pytest.mark.parametrize(
    "dataset",
    [
        {"fault": "", "identity": "../../../../root/.ssh/id_rsa", "begun": 0},
        {"fault": "", "identity": "", "begun": -1},
        {"fault": "", "identity": "", "begun": 1e300},
        {"fault": [], "identity": "", "begun": 0},
        {},
        3,
    ],
)
def test_an_odd_answer_of_a_dataset_is_one_sentence(
    dataset: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a node calls its dataset became a path on the nodes that take it."""
    action = plugin(datasets)
    answer = {"python": [3, 11], "address": "evil", "datasets": {"d": dataset}}
    action.says = {"dataset.inspection:look": answer}
    action.variables = {"hostvars": {}, "ansible_play_hosts": [], "inventory_hostname": "n1"}
    values: dict[str, Any]
    values = {"dataset_names": ["d"], "dataset_own": {}, "dataset_preprocess": {}}
    values |= {"dataset_vocab_size": 1, "dataset_max_bytes": 1, "dataset_seed": 1}
    monkeypatch.setattr(type(action), "value", lambda _, name, default=None: values.get(name, ""))
    with pytest.raises(ValueError, match="the answer to look: datasets"):
        action.act({"step": "look"}, {})
    action.says["dataset.inspection:look"]["datasets"] = {
        "d": {"fault": "\x1b[2Jx", "identity": "", "begun": 0}
    }
    result = action.act({"step": "look"}, {})
    assert result["address"] == ""  # the inventory's, here none; never what the node says
    assert result["answer"]["datasets"]["d"]["fault"] == "x"


def test_a_release_or_python_of_a_node_is_no_program_of_the_control_node() -> None:
    spec = {"dir": os.devnull, "nodes": [["/../../tmp/evil", "x86_64"]]}
    with pytest.raises(ValueError, match="what a node says of its Python"):
        prefetch.prefetch(spec)
