"""The door of what a node answers: bounded in bytes and time, checked, and printable."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from node.kinds import Line, having
from node.schema import UnfitError, Whole
from node.validated_text import WheelName
from plugins import node_action
from plugins.node_action import NodeAction, one_line, read
from runner.base.ssh_words import silence

ESCAPE = "\x1b[2J\x1b]0;owned\x07\x9b31m"


class Action(NodeAction):
    """An action whose connection runs shell commands of this machine."""

    def __init__(self, script: str, patience_s: float | None = None) -> None:
        self.script, self.patience_s = script, patience_s
        self.python = sys.executable
        self._task = SimpleNamespace(args={})

    def _compute_environment_string(self) -> str:
        return ""

    def _low_level_execute_command(self, command: str, in_data: bytes) -> dict[str, Any]:
        ran = subprocess.run(["/bin/sh", "-c", self.script], capture_output=True, check=False)
        out, err = (stream.decode("utf-8", "replace") for stream in (ran.stdout, ran.stderr))
        return {"stdout": out, "stderr": err, "rc": ran.returncode}


def test_what_is_printed_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_action, "MOST_BYTES", 1 << 20)
    with pytest.raises(UnfitError, match="the answer has more than 1048576 bytes"):
        Action("yes").exchange(["x"])


def test_what_a_program_reads_here_is_not_what_it_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    """A local connection's program was refused for the files that it had read."""

    class Reading(Action):
        def _low_level_execute_command(self, command: str, in_data: bytes) -> dict[str, Any]:
            subprocess.run(["head", "-c", "8M", "/dev/zero"], stdout=subprocess.DEVNULL, check=True)
            return super()._low_level_execute_command(command, in_data)

    monkeypatch.setattr(node_action, "MOST_BYTES", 1 << 20)
    done = Reading("sleep 0.5; echo 'TRAINBENCH {}'").exchange(["x"])
    assert (done.code, done.facts) == (0, {})


def test_who_answers_nothing_is_not_waited_for_for_good() -> None:
    began = time.monotonic()
    with pytest.raises(AnsibleConnectionFailure, match=r"no answer within 0\.5 s"):
        Action("(sleep 100; echo) & sleep 100", patience_s=0.5).exchange(["x"])
    assert time.monotonic() - began < 60


def test_what_ran_before_is_left_alone() -> None:
    """Of this process's children, those that the exchange started are ended, no others."""
    with subprocess.Popen(["sleep", "100"]) as before:
        time.sleep(0.05)
        with pytest.raises(AnsibleConnectionFailure):
            Action("sleep 100", patience_s=0.3).exchange(["x"])
        assert before.poll() is None
        before.kill()


def test_what_another_thread_runs_is_left_alone() -> None:
    """Each node's thread has a connection of its own."""
    other = threading.Thread(
        target=Action("sleep 1.5; echo 'TRAINBENCH {}'").exchange, args=(["x"],)
    )
    with pytest.raises(AnsibleConnectionFailure):  # noqa: PT012  # the other's begins within it

        class Slow(Action):
            def _low_level_execute_command(self, command: str, in_data: bytes) -> dict[str, Any]:
                other.start()
                return super()._low_level_execute_command(command, in_data)

        Slow("sleep 100", patience_s=0.5).exchange(["x"])
    assert other.is_alive()
    other.join()


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("TRAINBENCH " + "[" * 100_000 + "\n", "the answer is nested too deep"),
        ("TRAINBENCH [1]\n", "the answer is a list; it must be a mapping"),
        ('TRAINBENCH {"n": "x"}\n', "the answer: n is 'x'; it must be a whole number"),
        ('noise\nTRAINBENCH {"n": -1}\n', "the answer: n is -1; it must be 0 to"),
        ("TRAINBENCH {\n", "the answer is not JSON"),
    ],
)
def test_an_answer_that_does_not_fit_is_one_sentence(output: str, words: str) -> None:
    with pytest.raises(UnfitError) as caught:
        read(output, having({"n": Whole()}), "the answer")
    assert str(caught.value).startswith(words)


def test_an_answer_is_its_line_and_what_is_no_answer_is_none() -> None:
    kind = having({"n": Whole()})
    assert read('a\nTRAINBENCH {"n": 1, "more": [1]}\nTRAINBENCH []\n', kind, "x") == {"n": 1}
    assert read("no TRAINBENCH {}\n", kind, "x") is None
    assert read("", kind, "x") is None


def test_a_task_whose_node_answers_oddly_fails_with_the_sentence() -> None:
    action = Action("echo TRAINBENCH 7")
    action.act = lambda arguments, variables: action.ask("env.inspection:look", None, having({}))  # type: ignore[method-assign]  # stands in
    action.value = lambda name, default=None: ""  # type: ignore[method-assign]  # stands in
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})
        with pytest.raises(AnsibleActionFail) as caught:
            action.run()
    assert str(caught.value) == "the answer to look is 7; it must be a mapping"


def test_words_of_a_program_bring_no_escape_sequence() -> None:
    answered = Action(f"printf '%s' 'a{ESCAPE}b\n  c\td' >&2; exit 3").exchange(["x"])
    assert (answered.code, answered.words) == (3, "ab\nc d")
    assert answered.last == "c d"


def test_words_are_cut() -> None:
    answered = Action("seq 100000 >&2; exit 3").exchange(["x"])
    assert len(answered.words) <= node_action.MOST_WORDS
    assert answered.last == "100000"
    assert len(one_line(ValueError("x" * 10_000_000))) == node_action.MOST_LINE


def test_a_fact_is_kept_as_it_is_but_for_what_a_terminal_obeys() -> None:
    assert Line().check("Xeon(R) CPU     5650", "x") == "Xeon(R) CPU     5650"
    assert Line().check(f"a{ESCAPE}\nb", "x") == "a b"
    assert os.sep in Line().check("/usr", "x")


def test_ssh_says_that_a_key_has_changed_in_one_line() -> None:
    said = (
        "@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\n@\nHost key verification failed."
    )
    assert silence(one_line(RuntimeError(said))).startswith(
        "Host key verification failed (another key is recorded here"
    )
    assert one_line(RuntimeError("a\nb\n")) == "b"


def test_a_result_is_text_that_ansible_stores_without_a_warning() -> None:
    """A kind makes its own text, of which Ansible says in each setup that it is unsupported."""
    action = Action("""echo 'TRAINBENCH {"name": "a.whl"}'""")
    answer = action.result("env.inspection:look", kind=having({"name": WheelName}))["answer"]
    assert type(answer["name"]) is str
