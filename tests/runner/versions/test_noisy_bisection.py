"""Noisy bisection: how often it finds the version, and what it runs next."""

import math
import random
from collections.abc import Callable, Collection

import pytest

from runner.versions.noisy_bisection import (
    BisectEnd,
    BisectStep,
    Costs,
    PairReading,
    Posterior,
    next_step,
)

LAST = 30
Noise = Callable[[random.Random], float]


def known_of(readings: list[PairReading], skipped: Collection[int] = ()) -> Posterior:
    usable = [version for version in range(LAST + 1) if version not in skipped]
    return Posterior(LAST, readings, usable, math.log(1.01))


def normal(generator: random.Random) -> float:
    return generator.gauss(0, 0.01)


def disturbed(generator: random.Random) -> float:
    """One run of ten is slower or faster by 5 to 30 %."""
    far = generator.choice((-1, 1)) * generator.uniform(0.05, 0.3)
    return generator.gauss(0, 0.01) + (far if generator.random() < 0.1 else 0)


def searched(
    generator: random.Random, changed: int | None, noise: Noise, skipped: set[int]
) -> tuple[BisectEnd, list[PairReading]]:
    readings: list[PairReading] = []
    built = {0, LAST}
    while len(readings) < 300:
        known = known_of(readings, skipped)
        step = next_step(known, Costs(1.0, 4.0, frozenset(built)))
        if isinstance(step, BisectEnd):
            return step, readings
        assert not {step.a, step.b} & skipped
        built |= {step.a, step.b}
        size = math.log(1.04) if changed is not None and step.a < changed <= step.b else 0.0
        readings.append(PairReading(step.a, step.b, size + noise(generator)))
    raise AssertionError("300 pairs")


@pytest.mark.parametrize("noise", [normal, disturbed])
def test_a_change_of_4_percent_is_found(noise: Noise) -> None:
    right, generator = 0, random.Random(1)
    for _ in range(20):
        changed = generator.randint(1, LAST)
        end, readings = searched(generator, changed, noise, set())
        right += end.group is not None and end.group.earliest == end.group.final == changed
        assert len(readings) < 100
    assert right >= 19


def test_no_change_is_found() -> None:
    generator = random.Random(2)
    named = [searched(generator, None, normal, set())[0].group for _ in range(20)]
    assert sum(group is not None for group in named) <= 1


def test_versions_that_cannot_run_are_told_with_their_neighbour() -> None:
    end, _ = searched(random.Random(3), 12, normal, {11, 12})
    assert end.group is not None
    assert (end.group.earliest, end.group.final) == (11, 13)


def test_exact_figures_need_few_pairs() -> None:
    end, readings = searched(random.Random(4), 23, lambda _: 0.0, set())
    assert end.group is not None
    assert end.group.final == 23
    assert len(readings) <= 14


def test_ends_come_first_and_a_version_that_is_built_is_cheaper() -> None:
    assert next_step(known_of([]), Costs()) == BisectStep(0, LAST, "ends")
    sure = [PairReading(0, LAST, 0.04)] * 6
    known = known_of(sure)
    step = next_step(known, Costs(1.0, 100.0))
    assert isinstance(step, BisectStep)
    assert {step.a, step.b} & {14, 15, 16}
    again = next_step(known, Costs(1.0, 100.0, frozenset({10})))
    assert isinstance(again, BisectStep)
    assert 10 in (again.a, again.b)


def test_probabilities_add_up() -> None:
    readings = [PairReading(0, LAST, 0.03), PairReading(0, 10, 0.0), PairReading(10, LAST, 0.05)]
    known = known_of(readings, {3})
    total = known.no_change + sum(one.probability for one in known.groups)
    assert total == pytest.approx(1.0)
    assert known.before_or_at(LAST) == pytest.approx(1.0)
