"""What the roles' action plugins share: they ask a node's Python, and keep what it says as JSON.

A plugin finds this by its place in the checkout: Ansible has no folder for code that the plugins of
several roles share on the control node.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase

from plugins.program import program

SIGN = "TRAINBENCH "  # begins the one line that is a program's answer


class NodeAction(ActionBase):  # type: ignore[misc]  # untyped where mypy skips ansible
    """An action that asks its node's Python, `self.python`."""

    TRANSFERS_FILES = False
    _supports_async = False
    default_python = "/usr/bin/python3"  # where the inventory says none

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Ansible's entry: its own result with that of `act`."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        given = variables.get("ansible_python_interpreter") or self.default_python
        self.python = str(self._templar.template(given))
        return {**result, **self.act(self._task.args, variables)}

    def act(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """What the task does, and its result."""
        raise NotImplementedError

    def ask(self, *arguments: str, data: bytes | None = None) -> str:
        """A program's answer; `arguments` are the Python's, `data` its standard input.

        Raises AnsibleConnectionFailure where the node cannot be reached, AnsibleError where what
        answered was not the program.
        """
        answer, code, words = self._exchange(arguments, data)
        if answer is not None:
            return answer
        words = words or "no output"
        if code in (126, 127):
            words += "; set ansible_python_interpreter in the inventory to a Python 3.8 or newer"
        raise AnsibleError(f"{self.python} gave no answer (exit {code}): {words}")

    def tell(self, path: Path, spec: dict[str, Any], *words: str) -> dict[str, Any]:
        """Run a program on the node with its words and `spec` on standard input; its answer.

        `path` is its file or folder, as plugins/program.py has it.

        Raises AnsibleActionFail with the program's own sentence.
        """
        argv = ("-I", "-c", program(path), *words)
        answer, code, sentence = self._exchange(argv, json.dumps(spec).encode())
        if answer is None:
            raise AnsibleActionFail(sentence or f"no answer (exit {code})")
        said: dict[str, Any] = json.loads(answer)
        return said

    def _exchange(
        self, arguments: tuple[str, ...], data: bytes | None
    ) -> tuple[str | None, int, str]:
        """The answer, None without one; the exit code; the last line of what else was said."""
        argv = [self.python, *arguments]
        done = self._low_level_execute_command(shlex.join(argv), in_data=data)
        found = (line for line in done["stdout_lines"] if line.startswith(SIGN))
        answer = next(found, None)
        words = (done["stderr"] or done["stdout"]).strip().splitlines()
        return answer and answer[len(SIGN) :], done["rc"], words[-1] if words else ""


def one_line(error: BaseException) -> str:
    """An error's last line, which is where ssh says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def save(path: Path, facts: dict[str, Any]) -> None:
    """Write JSON so that a reader sees all of it or none of it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.tmp")
    fresh.write_text(json.dumps(facts), encoding="utf-8")
    fresh.replace(path)
