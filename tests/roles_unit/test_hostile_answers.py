"""What one node answers to a role reaches no file of the control node and no line on another."""

import hashlib
import json
from types import SimpleNamespace
from typing import Any

import pytest

from node.answer import SIGN
from plugins.action import ask
from roles.dataset.action_plugins import datasets
from roles.trainer.action_plugins import pins as trainer

ENV = {"python": "3", "versions": {}, "lock": "", "lines": [], "faults": [], "todo": [], "make": ""}
PIN = {"trees": [], "env": ENV, "files": [], "installed": {}, "differs": []}
SUM = hashlib.sha256(b"x").hexdigest()


def plugin(module: Any) -> Any:
    """An action whose node answers as `says`."""
    action = module.ActionModule.__new__(module.ActionModule)
    action._task = SimpleNamespace(check_mode=False, args={})
    action.python, action.says, action.variables = "python3", {}, {}
    action._compute_environment_string = lambda: ""

    def execute(command: str, in_data: bytes) -> dict[str, Any]:
        entry = json.loads(in_data)["entry"].removeprefix("node.")
        return {"stdout": SIGN + json.dumps(action.says[entry]) + "\n", "rc": 0, "stderr": ""}

    action._low_level_execute_command = execute
    return action


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
