"""The final race: whose turn it is, who wins, and intervals of several comparisons."""

import pytest

from runner.figures.between_runs import of_values, rate_difference
from runner.figures.run_mean import quantile, quantile_of, tail
from runner.tune.final_race import SearchEnd, race


@pytest.mark.parametrize(("freedom", "comparisons"), [(1, 4), (3, 2), (8, 8), (30, 20), (2, 1)])
def test_a_quantile_of_several_comparisons(freedom: int, comparisons: int) -> None:
    wide = quantile_of(freedom, comparisons)
    assert tail(wide, freedom) == pytest.approx(0.05 / comparisons, rel=2e-3)
    assert (wide > quantile(freedom)) is (comparisons > 1)


def test_intervals_are_wider_for_several_comparisons() -> None:
    ours, theirs = of_values([1.0, 1.01, 0.99]), of_values([1.1, 1.12, 1.11])
    one, eight = (rate_difference(ours, theirs, comparisons=count) for count in (1, 8))
    assert one.percent == eight.percent
    assert eight.half > one.half


def test_finalists_take_turns_until_it_is_decided() -> None:
    times = {"a": [1.0], "b": [1.2]}
    for turn in ("a", "b"):
        assert race(times, {}, 1.0) == turn
        times[turn] = [*times[turn], times[turn][0] * 1.0001]
    assert race(times, {}, 1.0) == SearchEnd("decided", "a")


def test_who_is_clearly_behind_runs_no_more() -> None:
    times = {"a": [1.0, 1.001], "b": [1.5, 1.501], "c": [1.01, 1.0]}
    assert race(times, {}, 0.01) == "a"
    assert race({**times, "a": [1.0, 1.001, 1.003]}, {}, 0.01) == "c"


def test_equals_are_told_apart_by_memory_alone() -> None:
    times = {"a": [1.0, 1.0], "b": [1.001, 1.001], "c": [2.0, 2.0]}
    assert race(times, {"a": 9, "b": 8, "c": 1}, 1.0) == SearchEnd("equal", "b")
    assert race(times, {"a": 9}, 1.0) == SearchEnd("equal", "a")


def test_noisy_finalists_stay_undecided() -> None:
    times = {"a": [1.0, 1.1, 0.9, 1.05, 1.0], "b": [1.0, 0.95, 1.1, 1.1, 1.0]}
    assert race(times, {}, 1.0) == SearchEnd("undecided", "a")
