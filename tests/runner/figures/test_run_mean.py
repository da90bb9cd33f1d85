"""How sure one run's mean is by its own steps, and its median."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.figures.run_mean import FEWEST, quantile, quantile_80, run_mean

RANDOM = np.random.default_rng


def alike(generator: np.random.Generator, count: int, correlation: float) -> list[float]:
    """Steps of which each resembles the one before (autoregressive of order 1), around 100."""
    noise = generator.standard_normal(count)
    for place in range(1, count):
        fresh = (1 - correlation**2) ** 0.5 * noise[place]
        noise[place] = correlation * noise[place - 1] + fresh
    return [float(step) for step in 100 + 3 * noise]


def test_a_mean_is_the_whole_time_over_the_whole_work() -> None:
    assert run_mean([100.0, 200.0], [1, 9]).mean == pytest.approx(1900 / 10)
    assert run_mean([100.0, 200.0]).mean == pytest.approx(150)
    assert run_mean([1e300, 1e-300]).mean == pytest.approx(5e299)


def test_a_tenth_step_that_is_slow_is_in_the_mean() -> None:
    """SOAP's log: each tenth step 1,327 ms, the others 255."""
    run = run_mean([1327.0 if step % 10 == 0 else 255.0 for step in range(1, 101)])
    assert run.mean == pytest.approx(362.2)
    assert (run.slow.count, round(run.slow.time, 2)) == (10, 29.6)


def test_slow_steps_at_equal_distances_are_surer_than_as_many_at_random() -> None:
    generator = RANDOM(4)
    steps = 1 + 0.01 * generator.standard_normal(200)
    place = np.arange(200)
    each_tenth = run_mean((steps + 4 * (place % 10 == 3)).tolist())
    chance = run_mean((steps + 4 * (generator.permutation(200) < 20)).tolist())
    assert each_tenth.slow.count == chance.slow.count == 20
    assert chance.error > 6 * each_tenth.error
    assert each_tenth.error == pytest.approx(4 / 1.4 / 2 / 200, rel=0.05)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.7])
def test_the_half_width_by_steps_holds_the_true_mean_as_often_as_it_says(
    correlation: float,
) -> None:
    generator, held, known = RANDOM(7), 0, 0
    for _ in range(300):
        run = run_mean(alike(generator, 256, correlation))
        if run.half is not None:
            known += 1
            held += abs(run.mean / 100 - 1) <= run.half
    assert known > 250
    assert 0.93 * known <= held


def test_the_half_width_is_that_of_95_percent() -> None:
    """Neither of a lower level, nor as wide as 99 %."""
    halves = [run_mean(alike(RANDOM(seed), 512, 0.0)).half or 0 for seed in range(40)]
    error = 0.03 / 512**0.5
    assert 1.9 * error < np.median(halves) < 2.9 * error


def test_steps_that_hardly_differ_from_their_neighbours_and_few_steps_have_none() -> None:
    run = run_mean(alike(RANDOM(1), 64, 0.9))
    assert run.half is None
    assert "neighbouring steps" in run.missing
    few = run_mean([100.0, 101.0] * (FEWEST // 2 - 1))
    assert few.half is None
    assert f"{FEWEST} are needed" in few.missing
    assert few.error > 0


def test_batches_widen_what_neighbours_do_not_show() -> None:
    """A slow second quarter: neighbours' correlation is that of one step, batches see it."""
    steps = 100 + RANDOM(3).normal(0, 3, 256)
    slow = np.where(np.arange(256) // 64 == 1, 1.0, 0.0)
    plain, uneven = (run_mean(times.tolist()).half or 0 for times in (steps, steps + 4 * slow))
    assert uneven > 3 * plain


@pytest.mark.parametrize(
    ("freedom", "at_975", "at_80"),
    [
        (1, 12.706, 1.376),
        (2, 4.303, 1.061),
        (4, 2.776, 0.941),
        (9, 2.262, 0.883),
        (30, 2.042, 0.854),
    ],
)
def test_quantiles_are_those_of_the_tables(freedom: int, at_975: float, at_80: float) -> None:
    assert quantile(freedom) == pytest.approx(at_975, rel=2e-3)
    assert quantile_80(freedom) == pytest.approx(at_80, rel=2e-3)


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=60))
def test_any_steps_have_a_mean_within_them(times: list[float]) -> None:
    run = run_mean(times)
    assert min(times) * 0.999 <= run.mean <= max(times) * 1.001
    assert run.half is None or run.half >= 0
