"""How often are our intervals and differences right? Simulated runs of every kind of step.

    python -m benchmarks.coverage [--draws 4000] [--workers 4]

Each cell of the table draws campaigns of 1, 2, 3 or 5 repeats of 16 to 512 logged steps, with and
without a variance between runs (1 % of the mean), and asks runner/figures what `collect` and
`compare` ask it. `covers` is the share of printed intervals that hold the true mean, `printed` the
share of draws that have an interval at all: a run alone has none, and steps that do not allow one
have none. `false` is the share of pairs of equal cells called different, `power` that of cells 5 %
apart that are (both of all pairs, printed or not), `Welch` what Welch's t on the runs' means finds
without anything else. For single runs `steps` is how often the interval of a run's own steps (of
`parse`) holds that run's true mean, and how often there is one. The steps:

    white        independent, normal, 3 %
    ar 0.3 ...   each resembles the one before (autoregressive of order 1), 3 %
    two-valued   40 of 100 steps take 20 % more
    each 10th    that step takes 4.2 times as long again, from a random phase (SOAP); 1 %
    each 50th    the same, less often: runs of fewer steps cannot know it, and `covers` says so
    heavy tail   1 + Pareto of index 1.5 (no variance) times 0.2

The last table is of `repeats: {until: 5 %, most: 10}`: at least 3 repeats, until the half-width is
below 5 % of the mean, for several variances between runs.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate

from runner.figures.between_runs import CellTimes, cell_times, rate_difference, steps_unusable
from runner.figures.run_mean import RunMean, quantile, run_mean

Floats = NDArray[np.float64]
Random = np.random.Generator
STEPS = (16, 32, 64, 128, 256, 512)
REPEATS = (1, 2, 3, 5)
BETWEEN = (0.0, 0.01)
EFFECT = 0.05
LEAST_COVERED, MOST_FALSE = 93.0, 6.0
FEW_PRINTED = 10.0  # percent of draws: fewer intervals than that are a slip, not an answer
UNTIL, FEWEST, MOST = 0.05, 3, 10


def white(random: Random, shape: tuple[int, int]) -> Floats:
    """Draw independent steps."""
    steps: Floats = 1 + 0.03 * random.standard_normal(shape)
    return steps


def resembling(correlation: float) -> Callable[[Random, tuple[int, int]], Floats]:
    """Make the kind of which each step resembles the one before."""

    def draw(random: Random, shape: tuple[int, int]) -> Floats:
        noise = random.standard_normal(shape)
        fresh = math.sqrt(1 - correlation**2)
        for place in range(1, shape[1]):
            noise[:, place] = correlation * noise[:, place - 1] + fresh * noise[:, place]
        return 1 + 0.03 * noise

    return draw


def two_valued(random: Random, shape: tuple[int, int]) -> Floats:
    """Draw steps of two values."""
    steps: Floats = np.where(random.random(shape) < 0.4, 1.2, 1.0)
    return steps


def stalling(period: int) -> Callable[[Random, tuple[int, int]], Floats]:
    """Make the kind of which each step of a period stalls."""

    def draw(random: Random, shape: tuple[int, int]) -> Floats:
        phases = random.integers(period, size=(shape[0], 1))
        stalls = (np.arange(shape[1]) + phases) % period == 0
        steps: Floats = 1 + 0.01 * random.standard_normal(shape) + 4.2 * stalls
        return steps

    return draw


def heavy_tail(random: Random, shape: tuple[int, int]) -> Floats:
    """Draw steps with a tail so heavy that it has no variance."""
    steps: Floats = 1 + 0.2 * random.pareto(1.5, shape)
    return steps


class Kind(NamedTuple):
    """A kind of steps: how they are drawn, their true mean."""

    draw: Callable[[Random, tuple[int, int]], Floats]
    mean: float


KINDS = {
    "white": Kind(white, 1.0),
    "ar 0.3": Kind(resembling(0.3), 1.0),
    "ar 0.7": Kind(resembling(0.7), 1.0),
    "ar 0.9": Kind(resembling(0.9), 1.0),
    "two-valued": Kind(two_valued, 1.08),
    "each 10th": Kind(stalling(10), 1.42),
    "each 50th": Kind(stalling(50), 1.084),
    "heavy tail": Kind(heavy_tail, 1.4),
}


@dataclass(frozen=True)
class Job:
    """One cell of the table."""

    kind: str
    between: float
    steps: int
    repeats: int
    draws: int


class Shares(NamedTuple):
    """What came out, in percent; None of nothing."""

    covers: float | None
    printed: float
    false: float | None
    power: float | None
    welch_false: float | None
    welch: float | None


def _percent(count: int, of: int) -> float | None:
    return 100 * count / of if of else None


def of_runs(random: Random, job: Job) -> list[list[RunMean]]:
    """Draw the campaigns of a cell of the table: the means of each one's runs."""
    count = job.draws * job.repeats
    steps = KINDS[job.kind].draw(random, (count, job.steps))
    steps = steps * (1 + job.between * random.standard_normal((count, 1)))
    runs = [run_mean(times) for times in steps]
    return [runs[at : at + job.repeats] for at in range(0, count, job.repeats)]


def several(job: Job) -> Shares:
    """Measure intervals over runs, and differences of pairs."""
    campaigns = of_runs(_random(job), job)
    truth, cells = KINDS[job.kind].mean, [cell_times(runs) for runs in campaigns]
    intervals = [cell.interval for cell in cells if cell.interval]
    held = sum(low <= truth <= high for low, high in intervals)
    pairs = list(pairwise(cells))
    quicker = [
        (CellTimes(tuple(m / (1 + EFFECT) for m in a.means), a.open_by_steps, a.missing), b)
        for a, b in pairs
    ]
    return Shares(
        _percent(held, len(intervals)),
        100 * len(intervals) / len(cells),
        *(
            _percent(sum(rate_difference(*pair).real for pair in some), len(some))
            for some in (pairs, quicker)
        ),
        *(_percent(sum(_welch(*pair) for pair in some), len(some)) for some in (pairs, quicker)),
    )


def _welch(a: CellTimes, b: CellTimes) -> bool:
    """Whether Welch's t on the runs' means calls two cells different."""
    errors = [cell.error**2 for cell in (a, b)]
    if not sum(errors):
        return a.mean != b.mean
    freedom = sum(errors) ** 2 / sum(e**2 / (len(a.means) - 1) for e in errors)
    return abs(math.log(a.mean / b.mean)) > quantile(freedom) * math.sqrt(sum(errors))


def single(job: Job) -> tuple[float | None, float]:
    """Measure the intervals of the mean of one run's steps."""
    random, kind = _random(job), KINDS[job.kind]
    held = known = 0
    for times in kind.draw(random, (job.draws, job.steps)):
        run = run_mean(times)
        if run.half is not None and not steps_unusable([run]):
            known += 1
            held += abs(run.mean - kind.mean) <= run.half * run.mean
    return _percent(held, known), 100 * known / job.draws


def _random(job: Job) -> Random:
    seed = [*KINDS].index(job.kind), round(job.between * 1000), job.steps, job.repeats
    return np.random.default_rng(seed)


def until(between: float, draws: int) -> tuple[float, float, float]:
    """Measure the stopping rule: how often the last interval covers, is below it, and repeats."""
    random = np.random.default_rng(round(between * 1000))
    held = below = made = 0
    for _ in range(draws):
        factors = 1 + between * random.standard_normal((MOST, 1))
        runs = [run_mean(times) for times in white(random, (MOST, 50)) * factors]
        for count in range(FEWEST, MOST + 1):
            cell = cell_times(runs[:count], stopped=True)
            low, high = cell.interval or (0.0, math.inf)
            if high - cell.mean <= UNTIL * cell.mean:
                below += 1
                break
        held += low <= 1 <= high
        made += count
    return 100 * held / draws, 100 * below / draws, made / draws


def _text(value: float | None, limit: float | None = None, *, most: bool = False) -> str:
    if value is None:
        return "–"
    missed = limit is not None and (value > limit if most else value < limit)
    return f"{value:.1f}{' !' if missed else ''}"


def _several_tables(draws: int, pool: ProcessPoolExecutor) -> tuple[str, int]:
    jobs = [
        Job(kind, between, steps, repeats, draws)
        for kind in KINDS
        for between in BETWEEN
        for steps in STEPS
        for repeats in REPEATS[1:]
    ]
    order = sorted(range(len(jobs)), key=lambda at: -jobs[at].steps * jobs[at].repeats)
    came = dict(zip(order, pool.map(several, [jobs[at] for at in order]), strict=True))
    shares = {job: came[at] for at, job in enumerate(jobs)}
    lines, missed = [], 0
    for job in (job for job in jobs if job.repeats == REPEATS[1]):
        line = [job.kind, f"{100 * job.between:g} %", job.steps]
        for repeats in REPEATS[1:]:
            one = shares[Job(job.kind, job.between, job.steps, repeats, draws)]
            judged = one.printed >= FEW_PRINTED and not _unknowable(job)
            line += [_text(one.covers, LEAST_COVERED if judged else None), f"{one.printed:.0f}"]
            missed += judged and one.covers is not None and one.covers < LEAST_COVERED
            if repeats > REPEATS[1]:
                line += [
                    _text(one.false, MOST_FALSE, most=True),
                    _text(one.power),
                    _text(one.welch),
                ]
                missed += one.false is not None and one.false > MOST_FALSE
        lines.append(line)
    headers = ["steps of", "between", "n", "2: covers", "printed"]
    for repeats in REPEATS[2:]:
        headers += [f"{repeats}: covers", "printed", "false", "power", "Welch"]
    return tabulate(lines, headers, "github", disable_numparse=True), missed


def _unknowable(job: Job) -> bool:
    return job.kind == "each 50th" and job.steps < 50


def _single_table(draws: int, pool: ProcessPoolExecutor) -> str:
    jobs = [Job(kind, 0.0, steps, 1, draws) for kind in KINDS for steps in STEPS]
    lines = [
        [job.kind, job.steps, _text(mean, LEAST_COVERED), f"{known:.0f}"]
        for job, (mean, known) in zip(jobs, pool.map(single, jobs), strict=True)
    ]
    headers = ["steps of", "n", "1: steps", "printed"]
    return tabulate(lines, headers, "github", disable_numparse=True)


def _until_table(draws: int, pool: ProcessPoolExecutor) -> str:
    spreads = (0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12)
    came = pool.map(until, spreads, [draws] * len(spreads))
    lines = [
        [f"{100 * between:g} %", _text(covers, LEAST_COVERED), f"{below:.0f}", f"{made:.1f}"]
        for between, (covers, below, made) in zip(spreads, came, strict=True)
    ]
    headers = ["between runs", "covers", f"below {100 * UNTIL:g} %", "repeats made"]
    return tabulate(lines, headers, "github", disable_numparse=True)


def main(words: Sequence[str]) -> int:
    """Print the tables; 1 where an interval covers too little, or false differences are many."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--workers", type=int, default=4)
    chosen = parser.parse_args(words)
    began = time.monotonic()
    with ProcessPoolExecutor(chosen.workers) as pool:
        table, missed = _several_tables(chosen.draws, pool)
        print(
            f"{table}\n\n{_single_table(chosen.draws, pool)}\n\n{_until_table(chosen.draws, pool)}"
        )
    took = time.monotonic() - began
    print(f"\n{chosen.draws} draws a cell, {took:.0f} s on {chosen.workers} processes;", end=" ")
    print(f"percent; !: below {LEAST_COVERED:g} covered, or more than {MOST_FALSE:g} false")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
