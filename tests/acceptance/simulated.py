"""Healthy clusters of any size, of the noise that clean acceptances recorded, judged. Pure.

A figure's tries are drawn from all that were recorded of its test, as (relative to the run's middle
figure, relative spread of the samples). Half of a drawn deviation stays with the node over its
tries, the other half is drawn again for each. Of tests whose samples are taken at the same time
(AT_ONCE), levels and spreads are those of samples relative to the median of all nodes. What fails
is measured again, as `accept` does; of pairs the slowest alone, and as many others.
"""

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from node.probe_deep import PARTS
from runner.accept.scope import EVERY_PAIR, group_sizes, rounds_of_pairs
from runner.doctor.outliers import medians, relative_to_median
from runner.doctor.probe_tests import AT_ONCE, PAIRS
from runner.doctor.slow_figures import Figure, judge_figures, slowing

RECORDED = Path(__file__).parents[1] / "data/acceptance-noise.json"
SIZES = (4, 64, 1024)
TRIES, ALONE = 3, 3
DEVICE = "cpu"  # what the recorded nodes train on
LEAST_RATE = 0.01
MOST = 0.01  # share of healthy clusters that may fail
Array = NDArray[np.float64]
Noise = Mapping[str, Sequence[Sequence[float]]]


def noise_of(cleans: Iterable[Sequence[Mapping[str, Any]]]) -> dict[str, list[list[float]]]:
    """Return the noise of clean acceptances: of each test its tries, each (level, spread)."""
    noise: dict[str, list[list[float]]] = {}
    for tests in cleans:
        for test in tests:
            tries = [one["tries"] for one in test["figures"]]
            if len(tries) < 2:
                continue
            if test["test"] in AT_ONCE:
                tries = relative_to_median(tries) or tries
            best = [max(statistics.median(samples) for samples in one) for one in tries]
            middle = statistics.median(best)
            for level, wide in medians([samples for one in tries for samples in one]):
                pair = [round(level / middle, 4), round(wide / level, 4)]
                noise.setdefault(test["test"], []).append(pair)
    return noise


def figures_of(test: str, nodes: int) -> list[int]:
    """Return how many figures a test has; of training on groups once for each size."""
    if test in PAIRS:
        every = nodes * (nodes - 1) // 2
        return [every if nodes <= EVERY_PAIR else rounds_of_pairs(nodes) * (nodes // 2)]
    if test == "train_groups":
        return [nodes // size for size in group_sizes(nodes) if 1 < size <= nodes // 2]
    return [nodes]


def failing(noise: Noise, clusters: int, nodes: int, test: str) -> list[int]:
    """Return the numbers of the healthy clusters that fail by a test; always the same ones."""
    recorded = np.array(noise[test])
    rng = np.random.default_rng([nodes, [*noise].index(test)])
    counts = figures_of(test, nodes)
    return [
        number
        for number in range(clusters)
        if any(fails(test, recorded, count, rng) for count in counts)
    ]


def fails(test: str, recorded: Array, count: int, rng: np.random.Generator) -> bool:
    """Whether a fault of a healthy cluster is found in a test of so many figures."""
    stays = 1 + (recorded[rng.integers(len(recorded), size=count), 0] - 1) / 2
    tries: list[list[tuple[float, ...]]] = [[] for _ in range(count)]
    again: Iterable[int] = range(count)
    for _ in range(2 if test in PAIRS else TRIES):
        drawn = recorded[rng.integers(len(recorded), size=count)]
        levels = stays * (1 + (drawn[:, 0] - 1) / 2)
        taken = samples(test, levels, drawn[:, 1], rng)
        for at in again:
            tries[at].append(tuple(taken[at]))
        figures = [Figure((f"n{at}",), 0, tuple(each)) for at, each in enumerate(tries)]
        row = judge_figures(test, figures, DEVICE)
        found = bool(row.slow or (test in AT_ONCE and slowing(row, DEVICE)))
        if not (found or row.suspected or row.contended):
            return False
        if test in PAIRS:
            order = np.argsort(levels).tolist()
            again = {*order[:ALONE], *order[count // 2 :][:ALONE]}
    return found


def samples(
    test: str, levels: Array, spreads: Array, rng: np.random.Generator
) -> list[list[float]]:
    """Return samples of about these medians, and with these relative standard errors of them."""
    if test in AT_ONCE:
        normal = rng.standard_normal((len(levels), PARTS))
        noise = spreads[:, None] / math.sqrt(math.pi / 2 / PARTS) * normal
        rates = np.maximum(levels[:, None] * (1 + noise), LEAST_RATE)
    else:
        apart = levels * spreads / 1.4826 / (math.pi / 2 / 3) ** 0.5
        rates = np.stack([levels - apart, levels, levels + apart], axis=1)
    taken: list[list[float]] = rates.tolist()
    return taken


def simulated(
    cleans: Sequence[Sequence[Mapping[str, Any]]], clusters: int, sizes: Sequence[int] = SIZES
) -> tuple[list[list[str]], bool]:
    """Return the table's rows, and whether few enough fail; a test without noise: as recorded."""
    # Quick acceptances train on no group of a part of the nodes: of these, what was recorded.
    noise: Noise = {**json.loads(RECORDED.read_text()), **noise_of(cleans)}
    rows, fine = [], True
    parts = [(nodes, test) for nodes in sorted(sizes, reverse=True) for test in noise]
    with ProcessPoolExecutor() as processes:
        numbers = processes.map(partial(failing, noise, clusters), *zip(*parts, strict=True))
        of_part = dict(zip(parts, numbers, strict=True))
    for nodes in sizes:
        tests = {test: of_part[nodes, test] for test in sorted(noise)}
        failed = len({number for numbers in tests.values() for number in numbers})
        words = ", ".join(f"{test} {len(numbers)}" for test, numbers in tests.items() if numbers)
        rows.append([f"{clusters:,}", f"{nodes:,}", f"{len(noise)}", f"{failed}" + (f" ({words})"
                     if words else ""), f"{failed / clusters:.2%}"])  # fmt: skip
        fine = fine and failed <= MOST * clusters
    return rows, fine
