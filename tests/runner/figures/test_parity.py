"""Losses compared within the curves' noise."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.figures.parity import Curve, compare, curve_of, parity, task_differs
from runner.tables.build import rows
from runner.tables.markdown import to_markdown
from runner.tables.terminal import to_table
from runner.terms.record import Interval, Measurement, Record
from tests.runner.tables.test_tables import cell


def curve(
    seed: int = 0, count: int = 100, sigma: float = 0.05, off: float = 0.0
) -> dict[int, float]:
    """Loss that falls from 10 to about 4, with noise; `off` is added from the middle on."""
    generator = np.random.default_rng(seed)
    steps = np.arange(1, count + 1)
    losses = 4 + 6 * np.exp(-steps / 20) + generator.normal(0, sigma, count)
    losses[count // 2 :] += off
    return dict(zip(steps.tolist(), losses.tolist(), strict=True))


def test_other_orders_of_the_data_are_within_noise() -> None:
    differ = [seed for seed in range(50) if not compare([curve(seed)], [curve(seed + 100)]).same]
    assert len(differ) <= 2


def test_the_same_data_in_another_precision_is_the_same() -> None:
    ours = {step: loss * (1 + 1e-3 * math.sin(step)) for step, loss in curve().items()}
    found = compare([ours], [curve()])
    assert found.same
    assert found.points == 100


def test_an_iteration_skipped_for_an_overflow_is_no_divergence() -> None:
    lines = tuple(Interval(step, 1, loss=loss) for step, loss in curve().items())
    skipped = (Interval(1, 1, loss=math.inf, skipped=1), *lines[1:])
    ours, theirs = (replace(cell("a"), measurement=Measurement(each)) for each in (skipped, lines))
    assert parity([ours], [theirs]).same


@pytest.mark.parametrize("off", [-0.4, 0.3, 2.0])
def test_a_divergence_is_found_where_it_begins_with_its_size(off: float) -> None:
    found = compare([curve(1, off=off)], [curve(2)])
    assert found.same is False
    assert found.at == pytest.approx(51, abs=6)
    assert found.by == pytest.approx(off, abs=0.12)
    assert f"at iteration {found.at} by {found.by:+.4g}" in found.words


def test_one_bad_batch_is_no_divergence() -> None:
    ours = curve(1)
    ours[50] += 0.5
    assert compare([ours], [curve(2)]).same


def test_repeats_widen_the_tolerance() -> None:
    repeats = [curve(1, off=0.3), curve(2), curve(3, off=0.15)]
    assert compare(repeats, [curve(4)]).same
    assert compare([curve(1, off=0.3)], [curve(4)]).same is False


def test_not_a_number_in_ours_alone_diverges_there() -> None:
    ours = curve(1)
    ours[70] = math.nan
    found = compare([ours], [curve(2)])
    assert (found.same, found.at, found.by) == (False, 70, None)
    assert "iteration 70: it is not a number" in found.words
    assert compare([curve(2)], [ours]).why_not == "the baseline's loss is not a number"


def test_curves_logged_at_other_intervals_meet_where_both_are() -> None:
    rare = {step: loss for step, loss in curve(1).items() if step % 10 == 0}
    assert compare([curve(1)], [rare]).points == 10
    rarer = {step: loss for step, loss in curve(1).items() if step % 50 == 0}
    assert "2 iterations are logged by both" in compare([curve(1)], [rarer]).why_not


def trained(name: str, off: float = 0.0, draw: int = 0, seed: int = 1) -> Record:
    losses = curve(draw, off=off)
    intervals = tuple(Interval(n, 1, 100.0, 10.0, loss) for n, loss in losses.items())
    base = cell(name, 10.0, axes={"zero_stage": name})
    measured = Measurement(intervals)
    return replace(base, measurement=measured, parameters={"seed": seed}, warmup_iters=2)


def test_another_task_is_not_compared_and_why() -> None:
    one, other = trained("0"), trained("1", draw=5)
    assert task_differs(one, other) == ""
    assert "seed differs (1 and 2)" in task_differs(one, trained("1", seed=2))
    assert "global_batch_size" in task_differs(one, replace(other, global_batch_size=7))
    assert parity([one], []).why_not == "one of the two has no finished run"


def test_tensorboards_curve_counts_where_the_log_has_none() -> None:
    run = trained("0")
    silent = replace(
        run, measurement=Measurement((Interval(1, 1, 9.0),), curve=tuple(curve().items()))
    )
    assert curve_of(silent) == curve()
    assert curve_of(run) == curve()


def test_a_fast_wrong_run_is_marked_beside_its_speed() -> None:
    table = rows(
        [trained("0"), trained("1", off=1.0, draw=3), trained("2", draw=4)], "zero_stage=0"
    )
    text = to_table(table, 300)
    assert "10.00≠" in text
    assert "≠ loss_parity: loss diverges from baseline at iteration" in text
    assert "Its speed is not comparable" in text
    assert text.count("10.00≠") == 1
    assert "loss_parity" in to_markdown(table)


losses = st.one_of(st.floats(0, 20), st.just(math.nan), st.just(math.inf))
curves = st.lists(st.dictionaries(st.integers(1, 40), losses, max_size=40), min_size=1, max_size=3)


@given(curves, curves)
def test_any_curves_are_compared_or_refused(ours: list[Curve], theirs: list[Curve]) -> None:
    found = compare(ours, theirs)
    assert found.words
    assert (found.same is None) == bool(found.why_not)
    assert (found.at is not None) == (found.same is False)


@given(curves)
def test_a_curve_is_the_same_as_itself(ours: list[Curve]) -> None:
    assert compare(ours, ours).same is not False
