"""Each cause that a run may end by: who says it, the status it gives, whether it is run again.

The causes are taken from the code that says them: the supervisor, the launch plugin, bench. mypy
holds what these tests cannot see, since what takes a cause takes a `Cause`.
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from node.causes import EXPLAINED, LATE, Cause, EndedBy, cause_named
from node.supervisor.daemon import STALLED
from node.supervisor.kinds import REFUSALS
from runner.base.paths import PROJECT
from runner.judge.decide import is_finished
from runner.terms.outcome import Outcome
from runner.terms.record import ENDED

SAYERS = [
    *(PROJECT / "node" / "supervisor").glob("*.py"),
    PROJECT / "node" / "visibility.py",
    PROJECT / "roles" / "launch" / "action_plugins" / "launch.py",
    *(PROJECT / "plugins" / "launching").glob("*.py"),
    PROJECT / "runner" / "launch" / "interrupts.py",
    *(PROJECT / "runner" / "launch" / "slurm").glob("*.py"),
    PROJECT / "runner" / "judge" / "decide.py",
    PROJECT / "runner" / "tuner" / "early_end.py",
    PROJECT / "runner" / "judge" / "judge.py",
]
TAKE_A_CAUSE = {"RefusedError", "RefusalError", "halt", "ask_to_halt"}  # as their first argument
KEYS_OF_CAUSES = {"cause", "refused", "ended_by"}


def words_of(node: ast.AST | None) -> Iterator[str]:
    """Yield each string literal that an expression may come to, and those of its tuple."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    parts: list[ast.expr] = []
    if isinstance(node, ast.Tuple):
        parts = node.elts
    elif isinstance(node, ast.BoolOp):
        parts = node.values
    elif isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    elif isinstance(node, ast.Compare):
        parts = [node.left, *node.comparators]
    for part in parts:
        yield from words_of(part)


def bare(tree: ast.AST) -> Iterator[str]:
    """Yield each string literal that stands where a cause, or what ended a launcher, is meant."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            meant = node.args[:1] if called in TAKE_A_CAUSE else []
            meant += [each.value for each in node.keywords if each.arg in KEYS_OF_CAUSES]
            yield from (word for each in meant for word in words_of(each))
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value in KEYS_OF_CAUSES:
                    yield from words_of(value)
        elif isinstance(node, ast.Return | ast.Assign | ast.Compare):  # a cause on its way
            on_its_way = words_of(node if isinstance(node, ast.Compare) else node.value)
            yield from (word for word in on_its_way if cause_named(word))


def members(tree: ast.AST, of: str) -> set[str]:
    """The members of an enumeration that the code says: named, and not in a comparison."""
    compared = {
        id(each)
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        for each in ast.walk(node)
    }
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if node.value.id == of and id(node) not in compared
    }


def parsed() -> dict[Path, ast.AST]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in SAYERS}


@pytest.mark.parametrize("path", SAYERS, ids=lambda path: path.name)
def test_nobody_writes_a_cause_as_a_bare_string(path: Path) -> None:
    assert list(bare(ast.parse(path.read_text(encoding="utf-8")))) == []


def test_a_bare_string_is_found_wherever_a_cause_is_meant() -> None:
    text = """
raise RefusedError("missing", "words")
self.halt("a" if x else "b", "words")
done = {"cause": "c"}
answer(refused="d")
return "disk_full", "words"
cause = "exit"
if cause == "stalled": pass
"""
    found = set(bare(ast.parse(text)))
    assert found == {"missing", "a", "b", "c", "d", "disk_full", "exit", "stalled"}


def test_every_cause_is_said_by_somebody_and_nobody_says_another() -> None:
    said, ended_by = set(), set()
    for tree in parsed().values():
        said |= members(tree, "Cause")
        ended_by |= members(tree, "EndedBy")
    assert ended_by == set(EndedBy.__members__)
    said |= {EndedBy[name].cause.name for name in ended_by}
    assert said == set(Cause.__members__)


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_has_a_status_a_rule_and_a_meaning(cause: Cause) -> None:
    assert cause.status in set(ENDED) - {"ok"}
    assert cause.meaning
    assert is_finished(Outcome("failed", cause, "")) is not cause.again
    assert json.loads(json.dumps({"cause": cause})) == {"cause": cause.value}
    assert f"{cause}" == str(cause) == cause.value
    assert cause_named(cause.value) is cause


def test_bench_makes_again_only_what_a_machine_or_a_person_ended() -> None:
    """What lies in the cell would end it so the next time, too."""
    finished = {cause.value for cause in Cause if not cause.again}
    assert finished == {
        *("exit", "no_step", "stopped_early", "nan_loss", "unreadable"),
        *("time_limit", "stalled", "log_limit", "out_of_memory", "ended_early"),
    }
    assert finished >= set(map(str, EXPLAINED))
    assert is_finished(Outcome("ok", "", ""))
    assert is_finished(Outcome("failed", "of_another_version", ""))
    assert not is_finished(None)


def test_what_may_come_late_is_said_from_outside_of_the_nodes() -> None:
    assert set(map(str, LATE)) == {"interrupted", "control_lost", "stalled", "ended_early"}


def test_what_a_node_may_refuse_with_is_what_its_supervisor_refuses_with() -> None:
    texts = [
        path.read_text(encoding="utf-8")
        for path in (PROJECT / "node" / "supervisor").glob("*.py")
        if path.name not in ("kinds.py", "task.py")  # a task answers nobody: it writes files
    ]
    named = {Cause[name] for text in texts for name in re.findall(r"\bCause\.([A-Z_]+)", text)}
    of_a_task = {Cause.LAUNCH_ERROR, Cause.SETUP_FAILED}  # of Slurm's, which answers nobody
    assert named - {STALLED} - of_a_task == set(REFUSALS)
