"""How much training a run needs to a loss, and whether two settings learn alike.

The losses of tests/data/learning.json (in thousandths) were measured by benchmarks/learning.py of
7b808eb1: 20 pairs of honest settings with 10 runs each, no seed twice, and 10 runs of the first
setting in which the gradients of all passes but the last are lost.
"""

import itertools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from numpy.typing import NDArray

from runner.figures.cell_figures import cell_figures
from runner.figures.curves import Spans
from runner.figures.flops import Decoder
from runner.figures.measured_cell import measured_cell
from runner.figures.target import (
    LEVEL,
    Arrival,
    arrival,
    compare_learning,
    learn_alike,
    time_to_target,
)
from runner.tables.campaign_table import to_table
from runner.terms.record import Energy, Interval, Measurement, Record
from tests.runner.documents import rows

Losses = NDArray[np.float64]
CURVES = Path(__file__).parents[2] / "data" / "learning.json"
SHAPE = Decoder(12, 768, 12, 1024, 50257)


def run(
    losses: Sequence[float | None], *, seed: int | None = 1, status: str = "ok", every: int = 1
) -> Record:
    """A run of 8 samples an iteration, of half a second each; the target is 3.0."""
    lines = [
        Interval(every * place, every, 500.0, loss=loss, nan=int(loss is None))
        for place, loss in enumerate(losses, 1)
    ]
    return Record(
        *("m", "a", "a", "torch_gpt", status, ""),
        parameters={"seed": seed},
        global_batch_size=8,
        model=SHAPE,
        target_loss=3.0,
        measurement=Measurement(tuple(lines)),
    )


def by_iteration(losses: Sequence[float]) -> Spans:
    """The losses of iterations 1, 2, ..."""
    return {(before, before + 1): loss for before, loss in enumerate(losses)}


def falling(at: int, count: int = 30) -> list[float]:
    """Losses of 4.0, and from iteration `at` on of 2.0: smoothed they are 3.0 there."""
    return [4.0 if place < at else 2.0 for place in range(1, count + 1)]


def ended(*iterations: int | None, first: int = 1, trained: int = 60) -> list[Arrival]:
    """Runs of a seed each that reached the loss there."""
    return [Arrival(at, trained, 1, 8, seed) for seed, at in enumerate(iterations, first)]


# --- where a run reaches the loss -----------------------------------------------------------------


def test_the_loss_is_reached_where_the_smoothed_one_is_at_or_below_it() -> None:
    dip = [4.0] * 10
    dip[4] = 2.0  # one low loss is noise
    assert arrival(by_iteration(dip), 3.0).iteration is None
    assert arrival(by_iteration(falling(11)), 3.0).iteration == 11
    assert arrival(by_iteration([3.0] * 5), 3.0).iteration == 3
    spike = [4.0] * 20
    spike[5] = 1e300  # whose digits a sum over it would not have
    assert arrival(by_iteration(spike), 3.0).iteration is None


FALLS: dict[str, Callable[[Losses], Losses]] = {
    "exponential": lambda t: 2 + 4 * np.exp(-t / 200),
    "steep": lambda t: 2 + 4 * np.exp(-t / 120),
    "power": lambda t: 1.5 + 20 * (t + 20) ** -0.4,
    "line": lambda t: 6 - 0.004 * t,
}


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("fall", FALLS)
@pytest.mark.parametrize("every", [1, 10, 50])
@pytest.mark.parametrize("window", [True, False])
def test_where_the_loss_is_reached_does_not_hang_on_how_often_it_is_logged(
    every: int, fall: str, noise: float, window: bool
) -> None:
    """A mean of the last five said 420 and 550 for 400, of lines of 10 and 50 iterations; of lines
    of one, and much noise, 350."""
    iterations = np.arange(1.0, 1201.0)
    true = FALLS[fall](iterations)
    found = []
    for draw in range(40 if noise else 1):
        losses = true + noise * np.random.default_rng(draw).normal(size=len(iterations))
        lines = losses.reshape(-1, every)
        ends = range(every, 1201, every)
        logged = (lines.mean(axis=1) if window else lines[:, -1]).tolist()
        spans = [(end - (every if window else 1), end) for end in ends]
        at = arrival(dict(zip(spans, logged, strict=True)), float(true[399])).iteration
        assert at is not None
        found.append(at)
    sure = 2.5 * float(np.std(found)) / math.sqrt(len(found))  # of the mean of so many draws
    assert abs(float(np.mean(found)) - 400) <= max(every / 2, 2.0) + sure


def test_a_line_that_is_a_mean_stands_in_its_middle_and_half_of_it_is_said() -> None:
    lines = [Interval(n, 50, 500.0, loss=6 - (n - 24.5) / 100) for n in range(50, 501, 50)]
    logged = replace(run([]), measurement=Measurement(tuple(lines), loss_kind="window"))
    found = time_to_target([logged])
    assert found is not None
    assert (found.figures["iterations"].median, found.within) == (300, 25)
    assert "300 ± 25" in to_table(
        rows([replace(logged, warmup_iters=0)]), 400, wide=True, all_notes=True
    )
    running = replace(logged, measurement=replace(logged.measurement, loss_kind="running"))
    late = time_to_target([running])
    assert late is not None
    assert late.missing["iterations"] == "torch_gpt logs a running mean of the loss, which lags"


def test_nan_never_reaches_it_and_an_iteration_that_was_skipped_says_nothing() -> None:
    lost = time_to_target([run([*[4.0] * 5, *[None] * 10], status="diverged")])
    assert lost is not None
    assert lost.not_reached == "not reached in 15 iterations"
    record = run(falling(11))
    lines = list(record.measurement.intervals)
    lines[11] = replace(lines[11], loss=math.inf, skipped=1)
    skipped = time_to_target([replace(record, measurement=Measurement(tuple(lines)))])
    assert skipped is not None
    assert skipped.arrivals[0].iteration == 11


def test_iterations_and_seconds_to_the_loss() -> None:
    found = time_to_target([run(falling(11))])
    assert found is not None
    assert {name: figure.median for name, figure in found.figures.items()} == {
        "iterations": 11,
        "seconds": pytest.approx(5.5),
    }


def test_a_batch_that_grows_is_counted_line_by_line() -> None:
    """Samples and joules were those of the run's own batch, as it was in the end."""
    first = run(falling(21))
    lines = tuple(
        replace(line, global_batch_size=4 if line.iteration <= 10 else 8, energy_j=2.0)
        for line in first.measurement.intervals
    )
    energy = Energy(220.0, "counter", iterations=20)  # of 11 to 30, a second sample a J
    grown = replace(first, measurement=Measurement(lines, energy=energy))
    found = time_to_target([grown])
    assert found is not None
    assert found.arrivals[0].samples == (10 * 4 + 11 * 8) / 21
    line = Interval(10, 10, 500.0, energy_j=2.0, global_batch_size=4)
    ten = replace(first, warmup_iters=0, measurement=Measurement((line,)))
    power = cell_figures(measured_cell([ten]))[0]
    assert power["energy_per_token_log_j"] == pytest.approx(10 * 2 / (10 * 4 * 1024))
    power = cell_figures(measured_cell([grown]))[0]
    assert power["energy_per_token_j"] == pytest.approx(220 / (20 * 8 * 1024))
    assert power["energy_per_token_log_j"] == pytest.approx(30 * 2 / ((10 * 4 + 20 * 8) * 1024))


def test_what_is_not_known_of_a_run_is_missing_with_its_reason() -> None:
    first = run(falling(11))
    gap = Measurement(first.measurement.intervals[:2] + first.measurement.intervals[3:])
    found = time_to_target([replace(first, measurement=gap, model=None)])
    assert found is not None
    assert set(found.figures) == {"iterations"}
    assert found.missing == {
        "seconds": "the log does not have the time of each iteration up to the loss",
    }
    few = time_to_target([run([4.0] * 4)])
    assert few is not None
    assert set(few.missing.values()) == {"4 losses are logged, 5 are needed"}
    assert time_to_target([replace(first, target_loss=None)]) is None


def test_a_run_that_does_not_get_there_is_censored_and_never_a_number() -> None:
    records = [run(falling(at), seed=at, status=s) for at, s in ((11, "ok"), (40, "diverged"))]
    found = time_to_target(records)
    assert found is not None
    assert not found.figures
    late = {found.missing[name] for name in ("iterations", "seconds")}
    assert late == {"not reached in 30 iterations by 1 of 2 runs"}
    known = time_to_target([*records, run(falling(13), seed=3)])
    assert known is not None
    assert known.figures["iterations"].median == 13  # of 11, 13 and one that is later
    broken = time_to_target([*records, replace(run(falling(13), seed=3), status="failed")])
    assert broken is not None
    assert len(broken.arrivals) == 2


@pytest.mark.parametrize(
    ("count", "low", "high"), [(5, None, None), (6, 1, 6), (9, 2, 8), (10, 2, 9), (20, 6, 15)]
)
def test_the_interval_of_the_median_is_that_of_order_statistics(
    count: int, low: int | None, high: int | None
) -> None:
    records = [run(falling(place + 3, 60), seed=place) for place in range(1, count + 1)]
    found = time_to_target(records)
    assert found is not None
    middle = found.figures["iterations"]
    ends = tuple(None if end is None else end - 3 for end in (middle.low, middle.high))
    assert ends == (low, high)  # the places that binomial tables have, as in Conover 1999, A3


def test_runs_of_one_seed_have_no_interval() -> None:
    found = time_to_target([run(falling(place + 3)) for place in range(1, 11)])
    assert found is not None
    assert found.figures["iterations"].low is None


# --- do two settings learn alike? -----------------------------------------------------------------


def test_the_test_is_the_exact_one_of_all_orders_ties_and_late_runs_included() -> None:
    ours, theirs = ended(20, 25, None, 31, None), ended(19, 20, 24, 25, 30, first=6)
    values = [run.iteration or 1000 for run in (*ours, *theirs)]
    ranks = [sum(v < w for v in values) + sum(v <= w for v in values) for w in values]
    sums = [sum(each) for each in itertools.combinations(ranks, 5)]
    exact = sum(one >= sum(ranks[:5]) for one in sums) / len(sums)
    found = learn_alike(ours, theirs)
    assert found.verdict == "alike"
    assert found.p == pytest.approx(exact)
    assert learn_alike(theirs, ours).p == pytest.approx(exact)


def test_slower_faster_and_alike() -> None:
    reference = ended(30, 31, 32, 33, 34, 35)
    assert learn_alike(ended(40, 41, 42, 43, None, 45, first=7), reference).verdict == "slower"
    assert learn_alike(ended(20, 21, 22, 23, 24, 25, first=7), reference).verdict == "faster"
    assert learn_alike(ended(30, 31, 32, 33, 34, 36, first=7), reference).verdict == "alike"
    late = learn_alike(ended(*[None] * 6, first=7), reference)
    assert late.sentence("the first") == "learns slower than the first (one-sided p 0.0011)"


def test_many_runs_are_compared_by_the_normal_approximation() -> None:
    ours, theirs = ended(*range(20, 60)), ended(*range(10, 50), first=100)
    found = learn_alike(ours, theirs)
    values = [run.iteration or 0 for run in (*ours, *theirs)]
    wins = sum((a > b) + (a == b) / 2 for a in values[:40] for b in values[40:])
    z = (wins - 800) / math.sqrt(40 * 40 * 81 / 12)
    assert found.verdict == "slower"
    assert found.p == pytest.approx(1 - NormalDist().cdf(z), rel=0.05)


def test_as_many_runs_as_a_campaign_can_have_are_compared() -> None:
    ours, theirs = ended(*range(20, 1020)), ended(*range(10, 1010), first=2000)
    assert learn_alike(ours, theirs).verdict == "alike"


def test_what_was_trained_longer_counts_as_far_as_the_other() -> None:
    """A run that arrives after the others' last iteration may be no later than they."""
    short, long = ended(*[None] * 5, 30), ended(70, 71, 72, 73, 74, 31, first=7, trained=100)
    assert learn_alike(long, short).verdict == "alike"


@pytest.mark.parametrize(
    ("ours", "why"),
    [
        (ended(30, 31, 32, first=7), "4 seeds of each are needed"),
        ([replace(run, seed=1) for run in ended(30, 31, 32, 33)], "the runs of a cell are not of"),
        ([replace(run, seed=None) for run in ended(30, 31)], "the runs of a cell are not of a"),
        ([replace(run, every=10.0) for run in ended(30, 40, 50, 60)], "not logged equally often"),
    ],
)
def test_what_cannot_be_told_is_not_tested(ours: Sequence[Arrival], why: str) -> None:
    found = learn_alike(ours, ended(30, 31, 32, 33, first=20))
    assert found.verdict is None
    assert why in found.why_not


def test_where_no_run_reached_it_or_the_data_differ_nothing_is_tested() -> None:
    assert learn_alike(ended(*[None] * 6), ended(*[None] * 6)).why_not == (
        "no run of either reached the loss"
    )
    one = time_to_target([run(falling(11), seed=seed) for seed in range(4)])
    found = compare_learning(one, one, "dataset differs (a and b)")
    assert found is not None
    assert found.why_not == "dataset differs (a and b)"
    assert compare_learning(one, None, "") is None


# --- seen on a CPU --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def arrived() -> dict[str, list[list[Arrival]]]:
    """Of each setting: its groups of ten runs, and where each run reached a loss of 3.7."""
    groups = {}
    for setting, runs in json.loads(CURVES.read_text()).items():
        found = [
            arrival(by_iteration([loss / 1000 for loss in losses]), 3.7, 8, int(seed))
            for seed, losses in runs.items()
        ]
        groups[setting] = [found[first : first + 10] for first in range(0, len(found), 10)]
    return groups


def test_of_20_honest_pairs_at_most_3_alarm_and_a_planted_fault_is_caught(
    arrived: dict[str, list[list[Arrival]]],
) -> None:
    pairs = zip(arrived["other"], arrived["reference"], strict=True)
    honest = [learn_alike(other, reference) for other, reference in pairs]
    (fault,) = arrived["fault"]
    faulty = [learn_alike(fault, reference) for reference in arrived["reference"]]
    assert (len(honest), len(faulty)) == (20, 20)
    # Chance exceeds this once in 60 times.
    assert sum(each.verdict != "alike" for each in honest) <= 3
    assert [each.verdict for each in faulty] == ["slower"] * 20
    assert max(each.p or 0 for each in faulty) < LEVEL / 2
