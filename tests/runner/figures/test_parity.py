"""Losses compared within the curves' noise."""

import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.figures.curves import Curve, curve_of, read_alike, spans_of
from runner.figures.parity import compare, parity, start_differs, task_differs
from runner.tables.campaign_table import to_markdown, to_table
from runner.terms.record import Interval, LossKind, Measurement, Record
from tests.runner.documents import rows
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


def test_repeats_of_other_cells_widen_it_too() -> None:
    ours, theirs = [curve(1, off=0.3)], [curve(4)]
    others = [curve(5, off=0.4), curve(6), curve(7, off=0.2)]
    assert compare(ours, theirs, [others]).same
    assert compare(ours, theirs, [[curve(5), curve(6), curve(7)]]).same is False
    shorter = [{step: loss for step, loss in each.items() if step < 80} for each in others]
    assert compare(ours, theirs, [shorter]).same is False
    unknown = [dict.fromkeys(each, math.nan) for each in others]
    assert compare(ours, theirs, [unknown]).same is False


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


def trained_as(losses: Sequence[int], seed: int) -> Record:
    """A run of tests/data/learning.json."""
    lines = tuple(Interval(n, 1, loss=loss / 1000) for n, loss in enumerate(losses, 1))
    return replace(
        cell("a"), measurement=Measurement(lines, loss_kind="window"), parameters={"seed": seed}
    )


def test_another_task_is_not_compared_and_why() -> None:
    one, other = trained("0"), trained("1", draw=5)
    assert task_differs(one, other) == ""
    assert "global_batch_size" in task_differs(one, replace(other, global_batch_size=7))
    assert parity([one], []).why_not == "one of the two has no finished run"


LEARNING = json.loads((Path(__file__).parents[2] / "data" / "learning.json").read_text())
SEEDS = {
    name: [trained_as(losses, int(seed)) for seed, losses in runs.items()]
    for name, runs in LEARNING.items()
}


def called_different(runs: int, of: tuple[str, str]) -> tuple[float, float]:
    """Return what share of pairs of cells of so many runs each is called different, and refused."""
    draw, found = random.Random(1), []
    for _ in range(300):
        one = draw.sample(SEEDS[of[0]], runs)
        other = draw.sample([run for run in SEEDS[of[1]] if run not in one], runs)
        found.append(parity(one, other).same)
    return found.count(False) / len(found), found.count(None) / len(found)


def test_single_runs_of_other_weights_are_not_compared() -> None:
    """Of pairs that learn alike (tests/data/learning.json) 33 % were called different."""
    single = [
        compare([curve_of(one)], [curve_of(other)]).same
        for one, other in zip(SEEDS["reference"], SEEDS["other"], strict=True)
    ]
    assert single.count(False) / len(single) > 0.25
    assert called_different(1, ("reference", "other")) == (0, 1)
    found = parity(SEEDS["reference"][:1], SEEDS["other"][:1])
    assert found.why_not == (
        "seeds differ (1000 and 2000); add repeats with `seeds` (at least 4 runs of the two cells)"
    )
    assert "loss not compared: seeds differ" in found.words


@pytest.mark.parametrize("runs", [2, 3, 4, 5])
def test_repeats_of_a_seed_each_say_how_far_seeds_differ(runs: int) -> None:
    """By the range of the repeats 19 % were called different with two each, and 6 with three."""
    for of in (("reference", "other"), ("reference", "reference")):
        wrong, refused = called_different(runs, of)
        assert (wrong <= 0.05, refused) == (True, 0)
    assert called_different(runs, ("fault", "other"))[0] >= (0.7 if runs == 2 else 0.99)


@pytest.mark.parametrize(
    ("ours", "theirs", "quantile"), [(2, 2, 9.925), (3, 5, 3.707), (10, 10, 2.878), (1, 9, 3.355)]
)
def test_cells_of_seeds_differ_beyond_99_percent_of_students_t(
    ours: int, theirs: int, quantile: float
) -> None:
    draw = np.random.default_rng(ours)
    offsets = [draw.normal(0, 0.2, count) for count in (ours, theirs)]
    squares = sum(((each - each.mean()) ** 2).sum() for each in offsets)
    error = math.sqrt(squares / (ours + theirs - 2) * (1 / ours + 1 / theirs))
    for share, same in ((0.97, True), (1.03, False)):
        shift = share * quantile * error
        one, other = (
            [dict.fromkeys(range(1, 41), 3 + by + offset - each.mean()) for offset in each]
            for each, by in zip(offsets, (shift, 0.0), strict=True)
        )
        assert compare(one, other, seeds=True).same is same


def test_other_systems_and_layouts_begin_with_other_weights() -> None:
    one = trained("0")
    assert start_differs([one], [trained("1")]) == ""
    assert "start from different weights" in start_differs([one], [replace(one, system="libai")])
    split = replace(one, parallel={**one.parallel, "tensor_parallel": 2, "data_parallel": 4})
    assert (
        start_differs([one], [split]) == "the initial weights depend on tensor_parallel (1 and 2)"
    )
    assert start_differs([replace(one, layout_free=True)], [split]) == ""
    seeds = [trained("0", seed=seed) for seed in (1, 2)]
    assert start_differs(seeds, seeds[::-1]) == ""
    assert "seeds differ" in parity(seeds[:1] * 3, seeds[1:] * 3).why_not  # of one seed, repeated


def logged(losses: Curve, every: int, kind: LossKind) -> Record:
    """A run whose lines of `every` iterations have the last one's loss, or the mean of all."""
    lines = []
    for last in range(every, max(losses) + 1, every):
        own = [losses[iteration] for iteration in range(last - every + 1, last + 1)]
        loss = math.fsum(own) / every if kind == "window" else own[-1]
        lines.append(Interval(last, every, loss=loss))
    return replace(trained("0"), measurement=Measurement(tuple(lines), loss_kind=kind))


def with_lines(run: Record, lines: Sequence[Interval]) -> Record:
    return replace(run, measurement=replace(run.measurement, intervals=tuple(lines)))


def test_a_mean_of_lines_is_read_as_the_mean_of_another_logs_iterations() -> None:
    """A loss of one iteration is not the mean of ten, which lags where the loss falls."""
    losses = {step: 10 * math.exp(-step / 60) for step in range(1, 201)}
    means, each, rare = logged(losses, 10, "window"), logged(losses, 1, "iteration"), 10
    ends = logged(losses, rare, "iteration")
    assert compare([curve_of(means)], [curve_of(each)]).same is False
    found = parity([means], [each])
    assert (found.same, found.points) == (True, 20)
    assert parity([logged(losses, 20, "window")], [means]).points == 10
    first, *rest = logged(losses, 10, "window").measurement.intervals
    own = [losses[iteration] for iteration in range(1, 11)]
    uneven = (Interval(1, 1, loss=own[0]), Interval(10, 9, loss=math.fsum(own[1:]) / 9), *rest)
    alike = read_alike([spans_of(means), spans_of(with_lines(means, uneven))])
    assert alike[1][10] == pytest.approx(first.loss)
    assert (parity([ends], [each]).same, parity([ends], [each]).points) == (True, 20)
    assert "the other the mean of each line" in parity([ends], [means]).why_not
    lost = parity([logged({**losses, 115: math.nan}, 1, "iteration")], [means])
    assert (lost.same, lost.at) == (False, 120)


def test_a_running_mean_is_not_compared() -> None:
    """Each run of tests/data/learning.json was called different from itself, smoothed as nanochat
    does.
    """
    run = SEEDS["reference"][0]
    smooth, mean = {}, 0.0
    for iteration, loss in curve_of(run).items():
        mean = 0.9 * mean + 0.1 * loss
        smooth[iteration] = mean / (1 - 0.9 ** (iteration + 1))
    assert compare([smooth], [curve_of(run)]).same is False
    assert "running mean" in parity([logged(smooth, 1, "running")], [run]).why_not
    runs = [logged(curve(draw), 1, "running") for draw in (1, 2)]
    why = "oneflow_gpt logs a running mean of the loss"
    assert parity(runs[:1], runs[1:]).why_not == why
    assert parity(runs[:1], [logged(curve(2), 1, "iteration")]).why_not == why
    unknown = logged(curve(3), 1, "")
    assert "it is not known" in parity([unknown], [logged(curve(2), 1, "iteration")]).why_not
    assert parity([unknown], [logged(curve(4), 1, "")]).same


def test_a_note_says_what_was_compared() -> None:
    one, other = logged(curve(1), 5, "window"), logged(curve(1), 5, "window")
    assert parity([one], [other]).of == "line means (same initial weights)"
    silent = [replace(run, parameters={}) for run in (one, other)]
    words = parity(silent[:1], silent[1:]).words
    assert words.endswith("over 20 line means (seeds not recorded)")
    table = rows([trained("0"), trained("1", draw=4)], "zero_stage=0")
    assert "noise over at least 100 losses (same initial weights), docs" in to_table(
        table, 300, all_notes=True
    )


def test_a_fast_wrong_run_is_marked_beside_its_speed() -> None:
    table = rows(
        [trained("0"), trained("1", off=1.0, draw=3), trained("2", draw=4)], "zero_stage=0"
    )
    text = to_table(table, 300, wide=True, all_notes=True)
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
