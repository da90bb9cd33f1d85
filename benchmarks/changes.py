"""How well changes of a cell are found: planted regressions found, planted noise not.

    python -m benchmarks.changes [--series 400]

Series of samples/s of 5 to 60 campaigns are made from a seed: noise alone, or with one step down.
A step counts as found where a change of the same direction is reported within two campaigns of it;
`false` is the share of series in which a change is reported although nothing changed. The noise
of each kind has the given standard deviation, in percent:

    gaussian     independent
    heavy        Student's t of 2 degrees of freedom, whose quartiles are those of a gaussian
    outliers     gaussian, and every tenth campaign is 5 to 20 % slower
    resembling   each campaign resembles the one before (autoregressive, 0.6)
    wandering    the sum of small steps, of a tenth of the noise each, and the noise
    sloping      gaussian on a line that falls by 8 % from the first campaign to the last
    two nodes    gaussian; each campaign has a node drawn from two, of which one is 4 % slower

Beside ours (runner/figures/changes.py), where they are installed: PELT as `ruptures` has it, and
E-divisive with Student's t as Apache Otava has it, each as its documents use it, and with the same
least step.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate

from runner.figures.changes import change_points

Floats = NDArray[np.float64]
Random = np.random.Generator
LENGTHS = (5, 8, 12, 20, 30, 60)
STEPS = (-4.0, -6.0, -10.0, -20.0)
NEAR = 2  # campaigns beside the step that count as the step
THRESHOLD = 3.0
Found = Sequence[tuple[int, float]]  # first campaign of the new level, the step in percent
Finder = Callable[[Floats, float], Found]


def gaussian(random: Random, count: int, sigma: float) -> Floats:
    """Draw independent noise."""
    return random.normal(0, sigma, count)


def heavy(random: Random, count: int, sigma: float) -> Floats:
    """Draw noise with heavy tails."""
    noise: Floats = random.standard_t(2, count) * sigma * 0.6745 / 0.8165
    return noise


def outliers(random: Random, count: int, sigma: float) -> Floats:
    """Draw noise of which every tenth is far off."""
    odd = random.random(count) < 0.1
    return random.normal(0, sigma, count) - odd * random.uniform(5, 20, count)


def resembling(random: Random, count: int, sigma: float) -> Floats:
    """Draw noise that remembers."""
    noise = random.normal(0, sigma, count)
    for place in range(1, count):
        noise[place] = 0.6 * noise[place - 1] + 0.8 * noise[place]
    return noise


def wandering(random: Random, count: int, sigma: float) -> Floats:
    """Draw noise on a level that wanders."""
    level: Floats = np.cumsum(random.normal(0, sigma / 10, count))
    return random.normal(0, sigma, count) + level


def sloping(random: Random, count: int, sigma: float) -> Floats:
    """Draw noise on a line that falls."""
    return random.normal(0, sigma, count) - np.linspace(0, 8, count)


def two_nodes(random: Random, count: int, sigma: float) -> Floats:
    """Draw noise of two nodes, one of them slower."""
    return random.normal(0, sigma, count) - 4.0 * random.integers(0, 2, count)


NOISES = {
    "gaussian": gaussian,
    "heavy": heavy,
    "outliers": outliers,
    "resembling": resembling,
    "wandering": wandering,
    "sloping": sloping,
    "two nodes": two_nodes,
}


def ours(values: Floats, sigma: float) -> Found:
    """Find with runner/figures/changes.py; the points' own intervals say nothing here."""
    found = change_points(list(values), [0.0] * len(values), THRESHOLD)
    return [(change.at, change.percent) for change in found]


def by_ruptures(values: Floats, sigma: float) -> Found:
    """Find with PELT of ruptures; the noise is given, which ours has to estimate."""
    import ruptures

    scaled = (values / np.median(values) * 100 / sigma).reshape(-1, 1)
    fitted = ruptures.Pelt(model="l2", min_size=2, jump=1).fit(scaled)
    return steps_of(values, fitted.predict(pen=2 * np.log(len(values)))[:-1])


def by_otava(values: Floats, sigma: float) -> Found:
    """Find with E-divisive and Student's t of Apache Otava."""
    from otava.analysis import compute_change_points

    try:
        found, _ = compute_change_points(
            values, window_len=200, max_pvalue=0.001, min_magnitude=THRESHOLD / 100
        )
    except ValueError:  # of few points
        return []
    return steps_of(values, [point.index for point in found])


def steps_of(values: Floats, at: Sequence[int]) -> Found:
    """Return the steps between the means of segments that are beyond the threshold."""
    edges = [0, *at, len(values)]
    means = [values[a:b].mean() for a, b in pairwise(edges)]
    steps = [(b / a - 1) * 100 for a, b in pairwise(means)]
    return [(p, s) for p, s in zip(at, steps, strict=True) if abs(s) > THRESHOLD]


FINDERS: dict[str, Finder] = {"ours": ours, "ruptures": by_ruptures, "otava": by_otava}


def series(
    random: Random, kind: str, count: int, sigma: float, step: float = 0.0
) -> tuple[Floats, int]:
    """Draw samples/s of `count` campaigns, and where the step is: no side has less than two."""
    noise = NOISES[kind](random, count, sigma)
    at = int(random.integers(2, count - 1))
    values = 100 + noise
    values[at:] *= 1 + step / 100
    return np.maximum(values, 1.0), at


def false_share(find: Finder, kind: str, count: int, sigma: float, many: int) -> float:
    """Return in what part of series of noise alone a change is reported."""
    random = np.random.default_rng([count, int(sigma * 10), list(NOISES).index(kind)])
    drawn = (series(random, kind, count, sigma)[0] for _ in range(many))
    return sum(bool(find(values, sigma)) for values in drawn) / many


def found_share(
    find: Finder, kind: str, count: int, sigma: float, step: float, many: int
) -> tuple[float, float]:
    """Return in what part of series the step is found, and in what part something else is."""
    random = np.random.default_rng([count, int(sigma * 10), list(NOISES).index(kind), 1])
    hits = extra = 0
    for _ in range(many):
        values, at = series(random, kind, count, sigma, step)
        near = [abs(place - at) <= NEAR and s * step > 0 for place, s in find(values, sigma)]
        hits += any(near)
        extra += not all(near) or sum(near) > 1
    return hits / many, extra / many


def available() -> dict[str, Finder]:
    """Return the finders that this Python has."""
    there: dict[str, Finder] = {"ours": ours}
    for name, module in (("ruptures", "ruptures"), ("otava", "otava.analysis")):
        try:
            __import__(module)
            there[name] = FINDERS[name]
        except ImportError:
            pass
    return there


def main() -> int:
    """Measure and print two tables for each finder."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--series", type=int, default=400, help="of each kind and length")
    options.add_argument("--only", choices=FINDERS, help="this one alone")
    chosen = options.parse_args()
    many = chosen.series
    for name, find in available().items():
        if chosen.only not in (None, name):
            continue
        began = time.perf_counter()
        print(f"\n{name}: % of {many} series of noise alone with a change in it")
        rows = [
            [kind, f"{sigma:g}"]
            + [f"{100 * false_share(find, kind, count, sigma, many):.1f}" for count in LENGTHS]
            for kind in NOISES
            for sigma in (1.0, 3.0)
        ]
        print(tabulate(rows, ["noise", "%", *map(str, LENGTHS)], disable_numparse=True))
        print(f"\n{name}: % of {many} steps found (and % of series with another change)")
        rows = []
        for kind in NOISES:
            for step in STEPS:
                shares = [found_share(find, kind, n, 1.0, step, many) for n in LENGTHS]
                rows.append(
                    [kind, f"{step:g}", *(f"{100 * a:.0f} ({100 * b:.0f})" for a, b in shares)]
                )
        print(tabulate(rows, ["noise 1 %", "step %", *map(str, LENGTHS)], disable_numparse=True))
        print(f"{time.perf_counter() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
