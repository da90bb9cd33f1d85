"""A playbook's steps: what Ansible's callback tells of them, as lines for a person."""

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from plugins.callback.steps import CallbackModule
from runner.launch.playbook import PlaybookEnd, step_lines
from runner.terms.printed_answers import STEPS, StepOnHost


class Playbook:
    """Gives a callback what Ansible would; `told` is what it told."""

    def __init__(self, file: Path) -> None:
        self.file, self.callback = file, CallbackModule()
        self.play("a play")

    def play(self, name: str) -> None:
        self.callback.v2_playbook_on_play_start(SimpleNamespace(get_name=lambda: name))

    def result(self, role: str, host: str, status: str, **result: Any) -> None:
        task = SimpleNamespace(
            _role=SimpleNamespace(get_name=lambda: role, _parents=[]),
            _parent=None,
            action=result.pop("action", "ansible.builtin.command"),
            get_name=lambda: f"{role} : Do it",
        )
        node = SimpleNamespace(get_name=lambda: host)
        self.callback.v2_runner_on_start(node, task)
        getattr(self.callback, f"v2_runner_on_{status}")(
            SimpleNamespace(task=task, host=node, result=result)
        )

    @property
    def told(self) -> list[dict[str, Any]]:
        self.callback.v2_playbook_on_stats(None)
        return [json.loads(line) for line in self.file.read_text().splitlines()]

    @property
    def steps(self) -> list[StepOnHost]:
        return [StepOnHost(**said["step"]) for said in self.told if "step" in said]

    @property
    def lines(self) -> list[list[str]]:
        shown = set[str]()
        return [line.split() for step in self.steps for line in step_lines(step, shown)]


@pytest.fixture
def playbook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Playbook:
    monkeypatch.setenv(STEPS, str(tmp_path / "steps"))
    clock = iter(range(100))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    return Playbook(tmp_path / "steps")


def test_a_line_a_step_and_node(playbook: Playbook) -> None:
    playbook.result("validate", "a", "ok")
    playbook.result("validate", "b", "ok")
    playbook.result("validate", "c", "ok", action="debug")
    playbook.play("NPUs")
    playbook.play("Put the systems on the nodes")
    playbook.result("torch_gpt", "a", "ok", changed=True)
    playbook.result("torch_gpt", "a", "ok", changed=True)
    playbook.result("torch_gpt", "b", "failed", msg="the disk is full\nmake room")
    assert playbook.lines == [
        ["validate", "a", "ok", "0:01"],
        ["validate", "b", "ok", "0:02"],
        ["torch_gpt", "a", "2", "changes", "0:02"],
        ["torch_gpt", "b", "failed", "0:03"],
        ["the", "disk", "is", "full"],
        ["make", "room"],
    ]
    assert {"now": "torch_gpt  b: Do it"} in playbook.told
    assert playbook.told[-1] == {"end": True}
    ended = PlaybookEnd(2, playbook.steps, True, 1.0)
    assert (ended.changes, ended.failed, ended.exit_code) == (2, {"b": "torch_gpt"}, 1)


def test_what_a_change_is_stands_below_its_line(playbook: Playbook) -> None:
    for what in ("/opt/conda (1.2 GiB)", "/opt/data\x1b[2J"):
        playbook.result("conda", "a", "ok", changed=True, answer={"told": [what]})
    assert [line for line in playbook.lines if line[0] != "conda"] == [
        ["/opt/conda", "(1.2", "GiB)"],
        ["/opt/data"],
    ]


def test_a_failure_of_many_lines_is_cut_and_what_was_shown_is_not_said_twice() -> None:
    why = "\n".join(f"line {n}" for n in range(12))
    step = StepOnHost(step="verify", host="a", state="failed", why=why)
    assert [line.strip() for line in step_lines(step, {"line 0", "line 1"})[1:]] == [
        *(f"line {n}" for n in range(2, 10)), "and 2 more lines in Ansible's output",
    ]  # fmt: skip


def test_text_for_a_person_is_told_as_it_is(playbook: Playbook) -> None:
    playbook.result("verify", "a", "ok", action="survey", text="the nodes are alike")
    playbook.result("verify", "b", "ok", text="what some node says")
    assert [said for said in playbook.told if "text" in said] == [{"text": "the nodes are alike"}]


@pytest.mark.parametrize("status", ["refused", "failed", "unreachable"])
def test_a_wrong_inventory_is_no_failed_node(playbook: Playbook, status: str) -> None:
    """`setup` ends with exit code 2 then, and with 1 of a node."""
    result = {"msg": "cluster_root is x", "wrong_input": status == "refused"}
    playbook.result("validate", "a", status.replace("refused", "failed"), **result)
    assert playbook.lines[0][:3] == ["validate", "a", status]
    ended = PlaybookEnd(2, playbook.steps, True, 1.0)
    assert (ended.failed, ended.exit_code) == ({"a": "validate"}, 2 if status == "refused" else 1)
