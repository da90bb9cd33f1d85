"""Each kind of step lines says all of itself, and together they know every system."""

import re

import pytest

from runner.judge.diagnosis.evidence import STEP
from runner.logs.kinds import KINDS, counts_from_zero, kinds_of
from runner.systems.common.registry import system_names
from tests.runner.logs import made_lines as lines


def test_the_kinds_know_the_systems_and_each_system_has_a_kind() -> None:
    systems = {system for kind in KINDS.values() for system in kind.systems()}
    assert systems == {*system_names(), "torchtitan"}  # a trainer that has no system yet
    named = {candidate.system for kind in KINDS.values() for candidate in kind.named}
    assert named <= systems


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
        step = STEP.search(line.encode())
        assert step is not None
        assert counts_from_zero(step[0]) is from_zero
