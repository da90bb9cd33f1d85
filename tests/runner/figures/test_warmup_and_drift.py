"""Where warm-up ends, and which runs drift."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.figures.cell_statistics import cell_statistics
from runner.figures.counted_steps import warmup_of
from runner.figures.run_mean import drift
from runner.figures.warmup import FEWEST, steady_from
from runner.terms.record import Interval
from tests.runner.figures.test_cell_statistics import record, steps


def noise(count: int, seed: int = 0, sigma: float = 1.0, around: float = 100.0) -> list[float]:
    found: list[float] = np.random.default_rng(seed).normal(around, sigma, count).tolist()
    return found


# --- warm-up --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [10, 20, 50, 200, 1000])
def test_a_steady_run_keeps_almost_all_steps(count: int) -> None:
    left_out = [steady_from(noise(count, seed)) for seed in range(50)]
    assert np.median(left_out) == 0
    assert max(left_out) <= count // 2
    assert np.mean(left_out) < 0.15 * count


@pytest.mark.parametrize("count", [8, 20, 50, 200, 1000])
def test_a_first_step_that_compiles_is_left_out(count: int) -> None:
    for seed in range(20):
        values = [5000.0, *noise(count - 1, seed)]
        assert steady_from(values) >= 1


@pytest.mark.parametrize("slow", [3, 10, 20])
def test_slow_first_steps_are_left_out_and_few_more(slow: int) -> None:
    found = [steady_from([130.0] * slow + noise(60, seed)) for seed in range(30)]
    assert min(found) == slow
    assert np.median(found) <= slow + 3


def test_a_late_slow_step_moves_nothing() -> None:
    values = noise(50)
    values[40] = 3000.0
    assert steady_from(values) <= 5


def test_equal_times_leave_nothing_out_and_few_leave_the_first() -> None:
    assert steady_from([7.0] * 30) == 0
    assert [steady_from([1.0] * count) for count in (0, 1, 2, FEWEST - 1)] == [0, 0, 1, 1]


@given(st.lists(st.floats(1e-3, 1e9), max_size=60))
def test_at_most_half_is_left_out_and_the_unit_does_not_matter(values: list[float]) -> None:
    found = steady_from(values)
    assert 0 <= found <= max(1, len(values) // 2)
    assert found < max(len(values), 1)
    assert steady_from([value * 1024 for value in values]) == found


def test_warmup_is_found_where_none_is_given_and_said() -> None:
    run = replace(record(steps(*[900.0] * 4, *noise(40))), warmup_iters=None)
    assert warmup_of(run) == 4
    got = cell_statistics([run])
    assert (got.warmup, got.warmup_found) == (4, True)
    assert got.window == (5, 44)
    assert sum(got.steps_by_run) == 40


def test_warmup_is_found_in_throughput_where_a_log_has_no_times() -> None:
    rates = [10.0, 10.0, *([100.0] * 20)]
    intervals = [Interval(n, 1, None, rate) for n, rate in enumerate(rates, 1)]
    assert warmup_of(replace(record(intervals, batch=None), warmup_iters=None)) == 2


def test_warmup_of_windows_of_many_iterations_ends_with_a_window() -> None:
    intervals = [Interval(10 * n, 10, 500.0 if n == 1 else 100.0) for n in range(1, 21)]
    run = replace(record(intervals), warmup_iters=None)
    assert warmup_of(run) == 10
    assert cell_statistics([run]).window == (11, 200)


def test_given_warmup_is_kept_as_given() -> None:
    got = cell_statistics([record(steps(*[900.0] * 4, *noise(40)), warmup=1)])
    assert (got.warmup, got.warmup_found) == (1, False)


# --- marks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("percent", [-10.0, 5.0, 10.0])
def test_a_run_that_drifts_is_marked_with_its_sign(percent: float) -> None:
    ramp = np.linspace(0, 2 * percent, 60)
    times = (np.array(noise(60)) + ramp).tolist()
    got = cell_statistics([record(steps(*times))])
    assert got.drift is not None
    assert got.drift.percent == pytest.approx(percent, abs=1.5)
    assert got.drift.beyond_noise


def test_steady_runs_are_not_marked_as_drifting() -> None:
    marked = 0
    for seed in range(200):
        found = drift(noise(40, seed, sigma=4.0))
        marked += found is not None and found.beyond_noise
    assert marked <= 4


def test_a_drift_below_the_threshold_is_not_marked_however_sure_it_is() -> None:
    found = drift([100.0] * 20 + [101.0] * 20)
    assert found is not None
    assert found.percent == pytest.approx(1.0, abs=0.01)
    assert not found.beyond_noise


@pytest.mark.parametrize("slow", [0.05, 0.2, 0.5])
def test_steps_of_two_values_are_not_marked_as_drifting(slow: float) -> None:
    """Of medians of two-valued steps 29 to 57 % were called drifting."""
    generator = np.random.default_rng(5)
    marked = 0
    for _ in range(200):
        found = drift(np.where(generator.random(60) < slow, 120.0, 100.0).tolist())
        marked += found is not None and found.beyond_noise
    assert marked <= 4


def test_neighbours_that_are_alike_are_not_taken_for_drift() -> None:
    """Each step 0.8 of the one before: without their correlation 30 % are marked."""
    generator = np.random.default_rng(6)
    marked = 0
    for _ in range(200):
        shocks, steps_ = generator.standard_normal(120), np.zeros(120)
        for place in range(1, 120):
            steps_[place] = 0.8 * steps_[place - 1] + 0.6 * shocks[place]
        found = drift((100 + 4 * steps_).tolist())
        marked += found is not None and found.beyond_noise
    assert marked <= 16
