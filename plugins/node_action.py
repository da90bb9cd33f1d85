"""What the action plugins share: they run programs of node/ on a node, and keep what these answer.

A plugin finds this by its place in the checkout: Ansible has no folder for code that the plugins of
several roles share on the control node.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase

from node import answer
from node.files import write_text
from node.oldest_python import OLDEST_NAME
from node.parsing import parse
from node.printable import printable, printable_lines
from node.schema import Plain, UnfitError, unfit
from plugins.answers import KINDS
from plugins.bounded import bounded
from plugins.program import command, message
from runner.base.exclusive import make_private
from runner.base.ssh_words import OTHER_KEY, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from node.schema import Kind

MOST_BYTES = 16 * 1024 * 1024  # of what a node prints: a fetch of 8 MiB, as text, and more
MOST_WORDS = 10_000  # letters of what a program printed that is no answer: the last ones
MOST_LINE = 1_000  # letters of one error's line
ANYTHING = Plain(depth=16, most=100_000, lines=True)


class Answer(NamedTuple):
    """What a program answered, None for nothing; its exit code, and what else it printed."""

    facts: Any
    code: int
    words: str

    @property
    def last(self) -> str:
        """The last line of what else was printed."""
        return (self.words.splitlines() or [""])[-1]


class NodeAction(ActionBase):  # type: ignore[misc]  # untyped where mypy skips ansible
    """An action that runs programs by its node's Python, `self.python`."""

    TRANSFERS_FILES = False
    _supports_async = False
    default_python = "/usr/bin/python3"  # where the inventory says none
    patience_s: float | None = None  # for an answer; None: as long as the connection lives
    environment: Mapping[str, str] = {}  # variables for its programs, which may be secret

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Ansible's entry: its own result with that of `act`."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        self.variables = task_vars or {}
        self.python = str(self.value("ansible_python_interpreter") or self.default_python)
        try:
            return {**result, **self.act(self._task.args, self.variables)}
        except UnfitError as error:
            raise AnsibleActionFail(str(error)) from None

    def value(self, name: str, default: Any = None) -> Any:
        """Return a variable as the task sees it, resolved; `default` without one."""
        return self._templar.template(self.variables[name]) if name in self.variables else default

    def address(self) -> str:
        """Return the node's address in the cluster, as the inventory has it."""
        names = ("cluster_address", "ansible_host", "inventory_hostname")
        return str(self.value(next(name for name in names if name in self.variables)))

    def answers(self, name: str) -> dict[str, Any]:
        """Return what each node of the play answered: node to the `answer` registered as `name`.

        Of a node that was not asked it is empty.
        """
        return {host: result.get("answer") or {} for host, result in self.registered(name).items()}

    def addresses(self, name: str) -> dict[str, str]:
        """Return each node's `address` of the inventory, which a task registered as `name`."""
        return {host: result.get("address", "") for host, result in self.registered(name).items()}

    def registered(self, name: str) -> dict[str, Mapping[str, Any]]:
        """Return what a task registered as `name` for each node of the play; empty for none."""
        return {
            str(host): self.variables["hostvars"][host].get(name) or {}
            for host in self.variables["ansible_play_hosts"]
        }

    def act(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """What the task does, and its result."""
        raise NotImplementedError

    def ask(self, entry: str, arguments: Any = None, kind: Kind = ANYTHING, file: str = "") -> Any:
        """Return the answer of a program that refuses nothing, as `kind` has checked it.

        Raises AnsibleConnectionFailure where the node cannot be reached, AnsibleError where what
        answered was not the program, UnfitError where the answer does not fit.
        """
        return self.expect(self.send(entry, arguments, kind, file=file))

    def tell(self, entry: str, arguments: Any = None, kind: Kind = ANYTHING) -> Any:
        """Return a program's answer, as `kind` has checked it.

        Raises AnsibleActionFail with the program's own sentence, UnfitError where the answer does
        not fit.
        """
        answered = self.send(entry, arguments, kind)
        if answered.code != 0 or answered.facts is None:
            raise AnsibleActionFail(answered.last or f"no answer (exit {answered.code})")
        return answered.facts

    def result(
        self, entry: str, arguments: Any = None, kind: Kind = ANYTHING, python: str = ""
    ) -> dict[str, Any]:
        """Return a task's result: a program's `answer`, or a failure with its words."""
        checked, code, failure = self.send(entry, arguments, kind, python)
        facts = json.loads(json.dumps(checked))  # to Ansible, text of our own classes is text
        result = {"changed": False, "rc": code, "answer": facts, "stderr": ""}
        if code == 0 and facts is not None:
            return {**result, "changed": isinstance(facts, dict) and bool(facts.get("changed"))}
        failure = failure or f"exit code {code}, and no output"
        code = code or 1  # what ended well, and answered nothing, was not the program
        return {**result, "failed": True, "rc": code, "stderr": failure, "msg": failure}

    def send(
        self,
        entry: str,
        arguments: Any = None,
        kind: Kind = ANYTHING,
        python: str = "",
        file: str = "",
    ) -> Answer:
        """Run a program, by the node's Python or another one with all that it has installed."""
        kind = KINDS.get(entry, ANYTHING) if kind is ANYTHING else kind
        argv = [*([python] if python else [self.python, "-I", "-S"]), *command(entry)]
        stdin = message(entry, arguments, file, self.environment)
        return self.exchange(argv, stdin, kind, to(entry))

    def exchange(
        self, argv: list[str], stdin: str = "", kind: Kind = ANYTHING, where: str = "the answer"
    ) -> Answer:
        """Run a command on the node, with text on its standard input.

        Raises UnfitError, beginning with `where`, for an answer that `kind` refuses, or that is
        too long; AnsibleConnectionFailure for none within `patience_s`.
        """
        # never empty: without input Ansible asks for a terminal, which would mix stderr into stdout
        data = (stdin + "\n").encode()
        variables = self._compute_environment_string()
        command = f"{variables} {shlex.join(argv)}" if variables else shlex.join(argv)
        with bounded(where, MOST_BYTES, self.patience_s):
            completed = self._low_level_execute_command(command, in_data=data)
        output = str(completed["stdout"])
        printed = str(completed["stderr"] or output)[-MOST_WORDS:].strip()
        return Answer(read(output, kind, where), int(completed["rc"]), printable_lines(printed))

    def expect(self, answered: Answer) -> Any:
        """Return the answer. Raises AnsibleError if it is missing."""
        if answered.facts is not None:
            return answered.facts
        why = answered.last or "no output"
        if answered.code in (126, 127):
            why += "; set ansible_python_interpreter in the inventory to a Python"
            why += f" {OLDEST_NAME} or newer"
        raise AnsibleError(f"{self.python} gave no answer (exit {answered.code}): {why}")


def to(entry: str) -> str:
    """Return what sentences call the answer of a program."""
    return f"the answer to {entry.rpartition(':')[2]}"


def read(output: str, kind: Kind, where: str) -> Any:
    """Return the answer in what a program printed, as `kind` has checked it; None without one.

    Raises UnfitError.
    """
    if len(output) > MOST_BYTES:
        raise unfit(where, f"has more than {MOST_BYTES} letters")
    text = answer.line(output)
    return None if text is None else parse(text, kind, where)


def one_line(error: BaseException) -> str:
    """Return an error's last line, which is where ssh says what happened, but of a changed key."""
    lines = [line[:MOST_LINE] for line in map(printable, str(error).splitlines()) if line]
    changed = [line for line in lines if kind_of(line) == OTHER_KEY]
    return " ".join([*lines[-1:], *changed[:1]]) or type(error).__name__


def save(path: Path, facts: dict[str, Any]) -> None:
    """Write JSON so that a reader sees all of it or none of it."""
    make_private(path.parent)
    write_text(str(path), json.dumps(facts))
