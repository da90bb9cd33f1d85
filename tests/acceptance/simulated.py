"""Healthy clusters of any size, made of the noise that clean acceptances recorded. Pure.

A figure's tries are drawn from all that were recorded of its test, as (relative to the run's middle
figure, relative spread of the samples). Half of a drawn deviation stays with the node over its
tries, the other half is drawn again for each. What numpy calls low for many clusters at once is
then judged by the real code: only its word counts. Of tests whose samples are taken at the same
time (AT_ONCE), levels and spreads are those of samples relative to the median of all nodes; samples
are drawn one by one, and what fails is measured again, as `accept` does.
"""

import json
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from node.probe_deep import PARTS
from runner.accept.scope import EVERY_PAIR, group_sizes, rounds_of_pairs
from runner.doctor.probe_tests import AT_ONCE, PAIRS, floor_of
from runner.doctor.slow_figures import Figure, judge_figures, slowing
from runner.figures.outliers import MANY, critical, error, relative_to_median

RECORDED = Path(__file__).parents[1] / "data/acceptance-noise.json"
SIZES = (4, 64, 1024)
TRIES, ALONE = 3, 3
FIGURES = 1 << 21  # that are drawn at once
DEVICE = "cpu"  # what the recorded nodes train on
NEAR = 0.8  # of the way to a fault: below it, nothing is judged
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
            for samples in (samples for one in tries for samples in one):
                level = statistics.median(samples)
                pair = [round(level / middle, 4), round(error(samples) / level, 4)]
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
    failing_of = unsteady_clusters if test in AT_ONCE else low_clusters
    numbers: list[int] = []
    for count in figures_of(test, nodes):
        batch = max(1, FIGURES // count)
        for first in range(0, clusters, batch):
            size = min(batch, clusters - first)
            of_batch = failing_of(test, recorded, (size, count), rng)
            numbers += [first + number for number in of_batch]
    return numbers


def low_clusters(
    test: str, recorded: Array, shape: tuple[int, int], rng: np.random.Generator
) -> Iterator[int]:
    """Yield the clusters of which the real code calls a figure of the test slow."""
    stays = 1 + (recorded[rng.integers(len(recorded), size=shape), 0] - 1) / 2
    drawn = [recorded[rng.integers(len(recorded), size=shape)] for _ in range(TRIES)]
    levels = np.stack([stays * (1 + (one[..., 0] - 1) / 2) for one in drawn])
    spreads = np.stack([one[..., 1] for one in drawn]) * levels
    pairs = test in PAIRS
    values, noises = (levels[0], spreads[0] / levels[0]) if pairs else best_of(levels, spreads)
    for number in np.flatnonzero(low(values, noises, floor_of(test, DEVICE), not pairs).any(1)):
        tries = [np.stack([levels[:, number, at], spreads[:, number, at]], 1) for at in
                 range(shape[1])]  # fmt: skip
        if pairs:
            order = np.argsort(values[number])
            measured_alone = {*order[:ALONE], *order[len(order) // 2 :][:ALONE]}
            tries = [one[: 1 + (at in measured_alone)] for at, one in enumerate(tries)]
        figures = [
            Figure((f"n{at}",), None, tuple(samples(*pair) for pair in one))
            for at, one in enumerate(tries)
        ]
        if judge_figures(test, figures, DEVICE).slow:
            yield int(number)


def samples(level: float, spread: float) -> tuple[float, ...]:
    """Return samples of that median, and with that standard error of it."""
    apart = spread / 1.4826 / (math.pi / 2 / 3) ** 0.5
    return (level - apart, level, level + apart)


def unsteady_clusters(
    test: str, recorded: Array, shape: tuple[int, int], rng: np.random.Generator
) -> Iterator[int]:
    """Yield the clusters of which the real code calls a device slow, or slowing down, in each try.

    Judged are those of which a device comes near it in its first try, and in all of them together.
    """
    stays = 1 + (recorded[rng.integers(len(recorded), size=shape), 0] - 1) / 2

    def measured(levels: Array) -> Array:
        drawn = recorded[rng.integers(len(recorded), size=levels.shape)]
        deviations = drawn[..., 1, None] / math.sqrt(math.pi / 2 / PARTS)
        noise = deviations * rng.standard_normal((*levels.shape, PARTS))
        rates: Array = (levels * (1 + (drawn[..., 0] - 1) / 2))[..., None] * (1 + noise)
        return np.maximum(rates, LEAST_RATE)

    floor = floor_of(test, DEVICE)
    apart, chance = np.median(recorded[:, 1]), critical(shape[1])
    fall = 1 - NEAR * max(2 * floor, chance * apart / math.sqrt(math.pi / 2 / PARTS))

    def shares(rates: Array) -> Array:
        middles = np.median(rates, axis=-1)
        relative: Array = middles / np.quantile(middles, 0.75, axis=-1, keepdims=True)
        return relative

    def falls(rates: Array, *later: Array) -> NDArray[np.bool_]:
        third = rates.shape[-1] // 3
        ends = [rates[..., -third:], *later]
        end = np.max([np.median(one, -1) for one in ends], 0)
        lower: NDArray[np.bool_] = end < fall * np.median(rates[..., :third], -1)
        return lower

    least = 1 - NEAR * floor
    tries = [measured(stays) for _ in range(TRIES)]
    share_of_tries = [shares(one) for one in tries]
    far = (share_of_tries[0] < least) | falls(tries[0])
    low = np.max(share_of_tries, 0) < least  # in each try, as what is slow is
    for at in range(TRIES - 1):
        low |= falls(tries[at], *tries[at + 1 :])
    low |= falls(np.concatenate(tries, -1)) | (falls(tries[-2]) & falls(tries[-1]))
    for number in np.flatnonzero(far.any(1) & low.any(1)):
        of_cluster = np.stack([one[number] for one in tries], 1)
        for count in range(1, TRIES + 1):
            found, suspected = judged(test, of_cluster[:, :count])
            if not (found or suspected):
                break
        if found:
            yield int(number)


def judged(test: str, tries: Array) -> tuple[bool, bool]:
    """Whether the real code finds a fault, or suspects one; `tries`: devices x tries x samples."""
    figures = [
        Figure((f"n{at}",), 0, tuple(map(tuple, device.tolist())))
        for at, device in enumerate(tries)
    ]
    row = judge_figures(test, figures, DEVICE)
    return bool(row.slow or slowing(row, DEVICE)), row.suspected


def best_of(levels: Array, spreads: Array) -> tuple[Array, Array]:
    """Return Figure.value and Figure.noise of all figures."""
    order = np.argsort(levels, axis=0)[-2:]
    best, widest = np.take_along_axis(levels, order, 0), np.take_along_axis(spreads, order, 0)
    return best[1], (widest.max(0) + best[1] - best[0]) / best[1]


def low(values: Array, noises: Array, floor: float, compared: bool) -> NDArray[np.bool_]:
    """Return what `judge_figures` calls slow, of many clusters: rows are clusters.

    `compared`: the spread between figures counts, too, as it does not for pairs.
    """
    count = values.shape[1]
    place = math.ceil(0.75 * (count - 1))
    usual = np.partition(values, place, axis=1)[:, place, None]
    middle = np.median(values, axis=1, keepdims=True)
    between = np.zeros_like(middle)
    if compared and count >= MANY:
        between = 1.4826 * np.median(abs(values - middle), axis=1, keepdims=True) / middle
    common = np.maximum(np.median(noises, axis=1, keepdims=True), between)
    noise = np.maximum(noises * values / usual, common)
    chance = critical(count) * noise
    share = np.minimum(1 - floor, np.maximum(1 - chance, np.exp(-1.25 * chance)))  # healthy_share
    lower = values < usual * share
    return lower if count > 1 else np.zeros_like(lower)


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
