"""Beliefs over candidates: what measurements, earlier models, knobs and surprises change."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from runner.terms.layout import Layout
from runner.tune.beliefs import Belief, Earlier, Knowledge
from runner.tune.candidates import MachineRates, TuneCandidate
from runner.tune.step_time import PRIOR_MEAN, components, log_times
from tests.runner.tune.machine import grid

GRID = grid()
LAYOUTS = [one.layout for one in GRID if one.layout]


def times(layouts: Sequence[Layout], error: float, seed: int = 0) -> np.ndarray:
    """Times of a machine of which the prior knows little, with an error of each layout's own."""
    random = np.random.default_rng(seed)
    parts = components(layouts, MachineRates())
    logs = log_times(parts, PRIOR_MEAN + 0.4)[0] + random.normal(0, error, len(layouts))
    return np.asarray(np.exp(logs))


def earlier(widths: Sequence[int], depths: Sequence[int], error: float) -> tuple[Earlier, ...]:
    rows = []
    for width in widths:
        for depth in depths:
            layouts = [replace(one, hidden=width, layers=depth) for one in LAYOUTS]
            found = times(layouts, error, seed=width + depth)
            rows += [Earlier(one, float(time)) for one, time in zip(layouts, found, strict=True)]
    return tuple(rows)


def test_earlier_models_sharpen_the_prediction() -> None:
    truth = np.log(times(LAYOUTS, 0.02))
    known = Knowledge(earlier=earlier([1024], [12, 18], 0.02)).over(GRID)
    unknown = Knowledge().over(GRID)
    assert np.abs(known.mean - truth).mean() < 0.05 < np.abs(unknown.mean - truth).mean()
    assert (known.spread < unknown.spread).all()


def test_how_well_earlier_models_predict_each_other_is_how_sure_it_is() -> None:
    good, poor = (Knowledge(earlier=earlier([1024], [12, 18], e)) for e in (0.01, 0.1))
    assert good.own_error(LAYOUTS) <= 0.05 < 0.08 < poor.own_error(LAYOUTS)
    assert good.over(GRID).spread.mean() < poor.over(GRID).spread.mean()


def test_another_width_is_less_sure_than_another_depth() -> None:
    wider = [replace(one, hidden=2048) for one in LAYOUTS]
    one_width = Knowledge(earlier=earlier([1024], [12, 18], 0.01))
    assert one_width.own_error(wider) > one_width.own_error(LAYOUTS)
    assert Knowledge(earlier=earlier([768], [12], 0.01)).own_error(LAYOUTS) > 0.1  # untested


def test_a_measurement_is_believed_and_changes_its_neighbours() -> None:
    prior = Knowledge().over(GRID)
    row = np.array([3])
    after = prior.given(row, prior.mean[row] + 0.5, np.array([1e-4]))
    assert after.mean[3] == pytest.approx(prior.mean[3] + 0.5, abs=0.01)
    assert (after.mean > prior.mean).all()
    fixed = prior.with_fixed(row, prior.mean[row] + 0.5, np.array([1e-4]))
    assert fixed.mean[3] == prior.mean[3] + 0.5
    assert np.delete(fixed.mean, 3) == pytest.approx(np.delete(prior.mean, 3))
    assert prior.given(np.array([], int), np.array([]), np.array([])) is prior


def test_surprises_widen_and_their_absence_narrows() -> None:
    prior = Belief(np.zeros(12), np.eye(12) * 0.01)
    rows, errors = np.arange(10), np.full(10, 1e-6)
    expected = prior.given(rows, np.zeros(10), errors).spread[11]
    surprised = prior.given(rows, np.full(10, 0.5), errors).spread[11]
    assert expected < 0.1 < surprised
    assert expected**2 >= 0.5 * 0.01  # however many


def test_what_the_others_say_of_a_measurement() -> None:
    prior = Belief(np.zeros(3), np.full((3, 3), 1.0) + np.eye(3) * 0.01)
    logs = np.array([1.0, 1.0, 3.0])
    means, spreads = prior.without_itself(np.arange(3), logs, np.full(3, 1e-4))
    assert means[2] == pytest.approx(1.0, abs=0.02)
    assert (logs[2] - means[2]) / spreads[2] > 10


def test_work_and_other_figures() -> None:
    double = [replace(one, work=2.0) for one in GRID]
    single = Knowledge().over(GRID)
    assert Knowledge().over(double).mean == pytest.approx(single.mean - np.log(2))
    assert Knowledge(of_time=False).over(GRID).spread.min() > 5 > single.spread.max()


def test_knobs_with_numbers_are_alike_by_ratio_and_words_by_equality() -> None:
    candidates = [TuneCandidate(str(n), knobs={"a": n, "b": "x"}) for n in (1, 2, 64)]
    cov = Knowledge().over([*candidates, TuneCandidate("y", knobs={"a": 1, "b": "y"})]).covariance
    assert cov[0, 1] > cov[0, 2]
    assert cov[0, 0] > cov[0, 3]
    assert np.linalg.eigvalsh(cov).min() > -1e-9
