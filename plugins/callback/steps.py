"""Tells who runs a playbook what each step came to on each node (plugins/steps.py).

A step is what one role does, with all roles that it includes; where there is no role, a play.
"""

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from ansible.plugins.callback import CallbackBase

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from plugins.steps import tell, words
from runner.terms.printed_answers import State, StepOnHost

DOCUMENTATION = """
    name: steps
    type: aggregate
    short_description: a line of JSON for each step and node
    description:
      - Enabled by what wraps the playbooks, and tells nothing else.
"""

STATES = get_args(State)  # the best first
# They do nothing on a node.
OURS = ("include_tasks", "include_role", "include_vars", "set_fact", "assert", "debug", "meta")


def step_of(task: Any, play: Any) -> str:
    """The outermost role of a task, or the play's name."""
    role = task._role
    while role is not None and role._parents:
        role = role._parents[0]
    return str(role.get_name() if role is not None else play.get_name())


def told(result: Any) -> list[str]:
    """The lines `told` of a program's answer: what a change is."""
    answer = result.result.get("answer")
    lines = answer.get("told") if isinstance(answer, dict) else None
    return list(map(str, lines)) if isinstance(lines, list) else []


def forgiven(task: Any) -> bool:
    """Whether a block around the task goes on where it fails."""
    block = task._parent
    while block is not None and not getattr(block, "rescue", None):
        block = block._parent
    return block is not None


class CallbackModule(CallbackBase):  # type: ignore[misc]  # untyped where mypy skips ansible
    """Ansible's entry. `hosts` has what the step that goes on came to so far."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "steps"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.step, self.since, self.item = "", time.monotonic(), ""
        self.hosts: dict[str, StepOnHost] = {}

    def enter(self, step: str) -> None:
        """Begin a step; tell what the last one came to."""
        if step != self.step:
            for ended in self.hosts.values():
                tell(step=asdict(ended))
            self.step, self.since, self.hosts = step, time.monotonic(), {}

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Note whose tasks come."""
        self._play = play
        self.enter("")

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        """Say what goes on there."""
        self.enter(step_of(task, self._play))
        now = f"{self.step}  {host.get_name()}: {task.get_name().rpartition(' : ')[2]}"
        tell(now=words(now))

    def ended(self, result: Any, state: State, why: str = "") -> None:
        """Count a task's end on a node."""
        host = result.host.get_name()
        self.enter(step_of(result.task, self._play))
        before = self.hosts.get(host) or StepOnHost(step=self.step, host=host)
        said = (before.why, why) if state == "changed" else (why or before.why,)
        self.hosts[host] = StepOnHost(
            step=self.step,
            host=host,
            state=max(before.state, state, key=STATES.index),
            changes=before.changes + (state == "changed"),
            took_s=time.monotonic() - self.since,
            why=words("\n".join(filter(None, said))),
        )

    def v2_runner_on_ok(self, result: Any) -> None:
        """Say whether it changed something, and what of it is for a person to know."""
        action = result.task.action.rpartition(".")[2]
        if action == "survey" and result.result.get("text"):
            tell(text=words(result.result["text"]))
        if result.result.get("changed"):
            message = str(result.result.get("msg")) if action == "debug" else ""
            self.ended(result, "changed", message or "\n".join(told(result)))
        elif action not in OURS:
            self.ended(result, "ok")

    def v2_runner_item_on_failed(self, result: Any) -> None:
        """Keep what an item of a loop says: the task's own words are of no use."""
        self.item = str(result.result.get("msg") or "")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Say why, where the play does not go on."""
        if not ignore_errors and not forgiven(result.task):
            item = result.result.get("results") and self.item
            state: State = "refused" if result.result.get("wrong_input") else "failed"
            self.ended(result, state, str(item or result.result.get("msg") or "it failed"))

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Say why."""
        self.ended(result, "unreachable", str(result.result.get("msg") or ""))

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Say that all of it ended."""
        self.enter("")
        tell(end=True)
