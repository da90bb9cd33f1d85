"""Planted steps are found, planted noise is not: figures of many series from seeds."""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from runner.figures import changes
from runner.figures.changes import FEWEST_POINTS, FEWEST_SIDE, change_points
from runner.figures.run_mean import tail

Floats = NDArray[np.float64]
MANY = 100  # series of each kind and length
THRESHOLD = 3.0
KINDS = ("gaussian", "heavy", "outliers", "resembling", "wandering", "sloping", "two nodes")


def noise(kind: str, random: np.random.Generator, count: int) -> Floats:
    """Draw noise of 1 %."""
    if kind == "heavy":  # Student's t of 2 degrees of freedom, with the quartiles of a gaussian
        return np.asarray(random.standard_t(2, count) * 0.6745 / 0.8165)
    odd = random.random(count) < 0.1 if kind == "outliers" else np.zeros(count)
    wandering = np.cumsum(random.normal(0, 0.1, count)) if kind == "wandering" else odd
    drawn = random.normal(0, 1, count)
    if kind == "outliers":
        drawn -= odd * random.uniform(5, 20, count)
    elif kind == "resembling":
        for place in range(1, count):
            drawn[place] = 0.6 * drawn[place - 1] + 0.8 * drawn[place]
    elif kind == "wandering":
        drawn += wandering
    elif kind == "sloping":
        drawn -= np.linspace(0, 8, count)
    elif kind == "two nodes":  # one of which is 4 % slower
        drawn -= 4.0 * random.integers(0, 2, count)
    return drawn


def series(kind: str, count: int, step: float = 0.0) -> Iterator[tuple[Floats, int]]:
    """Samples/s of `count` campaigns, and where the step is: no side has less than two."""
    random = np.random.default_rng([count, 10, KINDS.index(kind), *([1] if step else [])])
    for _ in range(MANY):
        values = 100 + noise(kind, random, count)
        at = int(random.integers(2, count - 1))
        values[at:] *= 1 + step / 100
        yield np.maximum(values, 1.0), at


def found(values: Sequence[float], threshold: float = THRESHOLD) -> list[int]:
    return [change.at for change in change_points(values, [0.0] * len(values), threshold)]


def test_a_step_down_has_its_place_levels_and_percent() -> None:
    values = [100.0, 100.4, 99.7, 100.1, 99.9, 90.1, 89.8, 90.0, 90.3]
    (change,) = change_points(values, [0.1] * 9, 3.0)
    assert change.at == 5
    assert change.before == pytest.approx(100.0)
    assert change.after == pytest.approx(90.05)
    assert change.percent == pytest.approx(-9.95)
    assert change.p < 1e-4


def test_two_steps_are_two_changes() -> None:
    assert found([100, 100.3, 99.8, 100.1, 90, 90.2, 89.9, 90.1, 100.2, 99.9, 100, 100.1]) == [4, 8]


def test_few_points_and_identical_points_have_no_change() -> None:
    assert found([100, 100, 50, 50][: FEWEST_POINTS - 1]) == []
    assert found([100.0] * 30) == []
    assert found([]) == []


def test_the_newest_point_alone_is_no_change_and_two_are() -> None:
    calm = [100.0, 100.2, 99.9, 100.1, 99.8, 100.0, 100.1]
    assert found([*calm, 80.0]) == []
    assert found([*calm, 80.0, 80.2]) == [7]


def test_odd_campaigns_are_no_change_and_hide_none() -> None:
    calm = [100.0, 100.2, 99.9, 100.1, 99.8, 100.0, 100.1, 99.9]
    assert found([*calm, 60.0, *calm]) == []
    assert found([*calm, 60.0, 61.0, *calm]) == []
    slower = [value * 0.9 for value in calm]
    assert found([*calm, *slower[:3], 140.0, *slower[3:]]) == [8]


def test_a_step_below_the_threshold_or_within_the_points_own_noise_is_none() -> None:
    calm = [100.0, 100.1, 99.9, 100.0, 100.05, 99.95]
    slower = [value * 0.98 for value in calm]
    assert found([*calm, *slower]) == []
    assert found([*calm, *slower], threshold=1.0) == [6]
    assert change_points([*calm, *slower], [3.0] * 12, 1.0) == []


def test_a_slope_is_drift_and_no_change() -> None:
    assert found([100 - 0.4 * at + 0.05 * (at % 3) for at in range(30)]) == []


def cost(series: np.ndarray, at: Sequence[int], penalty: float) -> float:
    parts = np.split(series, at)
    return sum(float(((part - part.mean()) ** 2).sum()) for part in parts) + penalty * len(at)


@pytest.mark.parametrize("seed", range(40))
def test_change_points_have_the_least_cost_of_all(seed: int) -> None:
    """Against every choice of change points there is."""
    random = np.random.default_rng(seed)
    series = random.normal(size=11)
    series[int(random.integers(2, 9)) :] += random.normal() * 4
    penalty = 2 * math.log(len(series))
    best = min(
        (
            at
            for count in range(5)
            for at in itertools.combinations(range(2, 10), count)
            if all(b - a >= FEWEST_SIDE for a, b in itertools.pairwise((0, *at, 11)))
        ),
        key=lambda at: cost(series, at, penalty),
    )
    assert changes.pelt(series, penalty) == list(best)


@pytest.mark.parametrize(
    ("t", "freedom", "p"),
    [
        (12.7062, 1, 0.05),
        (4.3027, 2, 0.05),
        (3.1824, 3, 0.05),
        (2.2281, 10, 0.05),
        (2.66, 60, 0.01),
    ],
)
def test_the_tail_of_students_t_is_that_of_its_tables(t: float, freedom: int, p: float) -> None:
    assert tail(t, freedom) == pytest.approx(p, rel=2e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_planted_noise_of_one_percent_is_seldom_a_change(kind: str) -> None:
    """docs/measures.md has the figures of 400 series each."""
    most = {"outliers": 0.15}.get(kind, 0.05)
    for count in (5, 8, 20, 60):
        changed = [bool(found(list(values))) for values, _ in series(kind, count)]
        assert sum(changed) / MANY <= most


@pytest.mark.parametrize("kind", KINDS)
def test_planted_regressions_of_ten_percent_are_found(kind: str) -> None:
    """A change down within two campaigns of the step."""
    least = {"outliers": 0.8, "sloping": 0.7}.get(kind, 0.95)
    for count in (20, 60):
        hits = [
            any(
                abs(change.at - at) <= 2 and change.percent < 0
                for change in change_points(list(values), [0.0] * count, THRESHOLD)
            )
            for values, at in series(kind, count, -10.0)
        ]
        assert sum(hits) / MANY >= least
