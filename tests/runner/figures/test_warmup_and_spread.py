"""Where warm-up ends, how sure a figure is, what is marked as doubtful."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.figures.spread import confidence, difference, drift, variation
from runner.figures.summary import cell_statistics, warmup_of
from runner.figures.warmup import FEWEST, steady_from
from runner.terms.record import Interval
from tests.runner.figures.test_summary import record, steps


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
    assert (got.warmup, got.warmup_found, got.steps_left_out) == (4, True, 4)
    assert got.window == (5, 44)
    assert got.steps_measured == 40


def test_warmup_is_found_in_throughput_where_a_log_has_no_times() -> None:
    rates = [10.0, 10.0, *([100.0] * 20)]
    intervals = [Interval(n, 1, None, rate) for n, rate in enumerate(rates, 1)]
    assert warmup_of(replace(record(intervals, batch=None), warmup_iters=None)) == 2


def test_warmup_of_windows_of_many_iterations_ends_with_a_window() -> None:
    intervals = [Interval(10 * n, 10, 500.0 if n == 1 else 100.0) for n in range(1, 21)]
    run = replace(record(intervals), warmup_iters=None)
    assert warmup_of(run) == 10
    assert cell_statistics([run]).steps_left_out == 10


def test_given_warmup_is_kept_as_given() -> None:
    got = cell_statistics([record(steps(*[900.0] * 4, *noise(40)), warmup=1)])
    assert (got.warmup, got.warmup_found) == (1, False)


# --- means, variation, interval -------------------------------------------------------------------


def test_means_are_over_the_whole_time() -> None:
    run = record([Interval(1, 1, 100.0), Interval(10, 9, 200.0)], batch=10)
    got = cell_statistics([run])
    assert got.step_time_ms is not None
    assert got.samples_per_s is not None
    assert got.step_time_ms.mean == pytest.approx(1900 / 10)
    assert got.samples_per_s.mean == pytest.approx(10 * 10 / 1.9)


def test_coefficient_of_variation_is_of_steps_and_with_repeats_of_their_medians() -> None:
    values = noise(200, sigma=5)
    one = cell_statistics([record(steps(*values))]).step_time_ms
    assert one is not None
    assert one.cv_percent == pytest.approx(np.std(values, ddof=1) / np.mean(values) * 100)
    runs = [record(steps(*[t] * 9), repeat=n) for n, t in enumerate((98.0, 100.0, 102.0), 1)]
    several = cell_statistics(runs).step_time_ms
    assert several is not None
    assert several.cv_percent == pytest.approx(2.0)


def test_the_interval_holds_the_true_median_about_as_often_as_it_says() -> None:
    held = 0
    for seed in range(200):
        low, high = confidence([noise(60, seed)]) or (0.0, 0.0)
        held += low <= 100 <= high
    assert 0.86 <= held / 200 <= 1.0


def test_the_interval_of_steps_that_resemble_each_other_is_wider() -> None:
    shocks = np.array(noise(400, 3, 1.0, 0.0))
    alike = np.zeros(400)
    for place in range(1, 400):
        alike[place] = 0.9 * alike[place - 1] + shocks[place]
    alike = 100 + alike / alike.std()
    shuffled = np.random.default_rng(1).permutation(alike)
    widths = [np.ptp(confidence([values.tolist()]) or (0.0, 0.0)) for values in (alike, shuffled)]
    assert widths[0] > 1.5 * widths[1]


def test_the_interval_covers_the_spread_between_repeats() -> None:
    runs = [noise(40, seed, 0.5, around) for seed, around in enumerate((95.0, 100.0, 105.0))]
    low, high = confidence(runs) or (0.0, 0.0)
    assert low < 96
    assert high > 104


def test_the_same_input_gives_the_same_interval_and_too_little_none() -> None:
    values = noise(50)
    assert confidence([values]) == confidence([values])
    assert confidence([values[:7]]) is None
    assert confidence([values, values[:7]]) is None
    assert confidence([[1.0], [1.1], [1.2]]) is not None
    assert confidence([]) is None


@given(st.lists(st.lists(st.floats(1e-3, 1e9), max_size=20), max_size=4))
def test_the_interval_lies_within_the_values_of_one_run(runs: list[list[float]]) -> None:
    found = confidence(runs)
    if found is not None:
        low, high = found
        assert 0 <= low <= high
        if sum(map(bool, runs)) == 1:
            values = [value for run in runs for value in run]
            assert min(values) <= low <= high <= max(values)


@pytest.mark.parametrize("repeats", [2, 3, 5])
def test_an_interval_over_few_repeats_holds_the_true_median_as_often_as_it_says(
    repeats: int,
) -> None:
    """With three repeats 95 % were 77 %, and of equal cells 10 % were called different."""
    generator = np.random.default_rng(1)

    def runs() -> list[list[float]]:
        medians = 100 * (1 + 0.03 * generator.standard_normal(repeats))
        return [list(median + 0.5 * generator.standard_normal(12)) for median in medians]

    held = alarms = 0
    for _ in range(60):
        interval, between = confidence(runs()), difference(runs(), runs())
        assert interval is not None
        assert between is not None
        held += interval[0] <= 100 <= interval[1]
        alarms += not between[0] <= 0 <= between[1]
    assert held >= 54
    assert alarms <= 6


@given(st.lists(st.floats(1e-300, 1e300), max_size=30))
def test_variation_is_a_number_or_missing(values: list[float]) -> None:
    found = variation(values)
    assert found is None if len(values) < 2 else found is not None and found >= 0


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
