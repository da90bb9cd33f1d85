"""Tells plugins/steps.py which step of a playbook goes on, and how it ends on each node.

A step is what one role does, with all roles that it includes; where there is no role, a play.
"""

import sys
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from plugins.steps import tell

DOCUMENTATION = """
    name: steps
    type: aggregate
    short_description: a line of JSON for each step and node
    description:
      - Enabled by what wraps the playbooks, and tells nothing else.
"""

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


def change_lines(result: Any) -> str:
    """The same as text, or the message of `debug`."""
    if result.task.action.rpartition(".")[2] == "debug":
        return str(result.result.get("msg"))
    return "\n".join(told(result))


def forgiven(task: Any) -> bool:
    """Whether a block around the task goes on where it fails."""
    block = task._parent
    while block is not None:
        if getattr(block, "rescue", None):
            return True
        block = block._parent
    return False


class CallbackModule(CallbackBase):  # type: ignore[misc]  # untyped where mypy skips ansible
    """Ansible's entry."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "steps"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Say how many plays there are."""
        tell("begin", count=len(playbook.get_plays()))

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Count one more."""
        self._play = play
        tell("play", step=play.get_name())

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        """Say what goes on there."""
        step = step_of(task, self._play)
        tell("task", step=step, host=host.get_name(), words=task.get_name().rpartition(" : ")[2])

    def _ended(self, result: Any, status: str, message: str = "") -> None:
        step = step_of(result.task, self._play)
        tell("result", step=step, host=result.host.get_name(), status=status, words=message)

    def v2_runner_on_ok(self, result: Any) -> None:
        """Say whether it changed something, and what of it is for a person to know."""
        if result.result.get("changed"):
            self._ended(result, "changed", change_lines(result))
        elif result.task.action.rpartition(".")[2] not in OURS:
            self._ended(result, "ok")

    def v2_runner_item_on_failed(self, result: Any) -> None:
        """Keep what an item of a loop says: the task's own words are of no use."""
        self._item = str(result.result.get("msg") or "")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Say why, where the play does not go on."""
        if not ignore_errors and not forgiven(result.task):
            item = result.result.get("results") and getattr(self, "_item", "")
            status = "refused" if result.result.get("wrong_input") else "failed"
            self._ended(result, status, str(item or result.result.get("msg") or "it failed"))

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Say why."""
        self._ended(result, "unreachable", str(result.result.get("msg") or ""))

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Say that all of it ended."""
        tell("end")
