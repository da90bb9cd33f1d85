"""Each kind of step lines says all of itself, and together they know every system."""

import re
from pathlib import Path

import pytest

from runner.logs.decoding import whole_lines
from runner.logs.kinds import KINDS, counts_from_zero, every, kinds_of
from runner.results.diagnosis.log_end import last_step
from runner.systems.common.registry import system_names
from tests.runner.logs import made_lines as lines
from tests.runner.logs.test_gives import RECORDED

DATA = Path(__file__).resolve().parents[2] / "data"


def test_the_kinds_know_the_systems_and_each_system_has_a_kind() -> None:
    systems = {system for kind in KINDS.values() for system in kind.systems()}
    assert systems == {*system_names(), "torchtitan"}  # a trainer that has no system yet
    mentioned = {candidate.system for kind in KINDS.values() for candidate in kind.mentions}
    assert mentioned <= systems


def test_a_trainers_own_lines_are_tried_before_those_beside_it() -> None:
    order = [kind.own_rate for kind in KINDS.values()]
    assert order == sorted(order, reverse=True)
    assert kinds_of("megatron_lm")[0] == "megatron"
    assert kinds_of("libai") == ("libai", "libai_metrics")
    assert kinds_of("no_such_system") == ()


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_explains_itself(name: str) -> None:
    kind = KINDS[name]
    assert kind.says
    assert kind.candidates
    for pattern in (kind.step, kind.error, kind.success):
        assert not re.compile(pattern).groups  # they are joined


def test_what_counts_from_zero_is_told_by_the_step_itself() -> None:
    for line, from_zero in ((lines.libai(99, time=1.0), True), (lines.megatron(99), False)):
        step = last_step(line.encode())
        assert step is not None
        assert counts_from_zero(step[0]) is from_zero


def test_the_last_step_of_a_log_is_the_last_of_any_kind() -> None:
    """Found kind by kind, as one expression of all would find it."""
    of_all = re.compile(b"|".join(every("step")))
    texts = [path.read_bytes() for path in RECORDED]
    for text in (*texts, b"".join(texts), b"no step"):
        steps = [match.start() for match in of_all.finditer(text)]
        last = last_step(text)
        assert (last.start() if last else None) == (steps[-1] if steps else None)


@pytest.mark.parametrize("path", sorted(DATA.rglob("*.log")), ids=lambda path: path.stem)
def test_a_recorded_log_has_steps_of_its_own_family_alone(path: Path) -> None:
    """Their lines look alike: NeMo's `iteration 9/29 |` was once Megatron's."""
    folder = path.relative_to(DATA).parts[0]
    family = {"megatron_core": "megatron"}.get(folder, folder)
    data = path.read_bytes()
    parsers = [kind() for kind in KINDS.values()]
    found = {one.family() for one in parsers if any(map(one.feed, whole_lines([data])))}
    assert found == (set() if folder == "torchrun" else {family})
