"""Which figure of a test is slow, and what is only noise. Pure.

A figure is the median of its samples; of several tries the best one, since other work on a machine
only ever slows it. It is slow if it is below the reference (the upper quartile of its like) by
more than its tolerance: FLOORS, or what noise explains (runner/doctor/outliers.py). Noise is the
standard error of the median, by the samples' MAD, of the figure itself or of its like, and how far
two tries are apart. Where all devices take their samples at the same time (AT_ONCE), each sample is
compared with those of the same moment, so that noise of the whole cluster does not count.
Where other work had the cores in every try, nothing is slow: it is busy.
"""

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter

from node.probe import reference
from runner.doctor.outliers import (
    best_of_tries,
    is_low,
    jitter,
    low,
    medians,
    relative_to_median,
    slowed,
)
from runner.doctor.probe_tests import AT_ONCE, PAIRS, TESTS, floor_of

NOISY = "too noisy to tell"
BUSY = "busy, not slow"
SHOWN = 4  # nodes of a group that are named
TOO_NOISY = 2.0  # floors of noise, beyond which nothing slow could be told from it


@dataclass(frozen=True)
class Figure:
    """One measured thing: its nodes, its device on the node (None: all of them), its samples.

    `tries` has one list of samples for each try; of a pair, the second is while no other talks.
    """

    nodes: tuple[str, ...]
    device: int | None
    tries: tuple[tuple[float, ...], ...]
    busy: float = 0.0  # share of its time that a thread waited for a core, in its best try

    @property
    def value(self) -> float:
        """The better try's median."""
        return max(statistics.median(samples) for samples in self.tries)

    @property
    def noise(self) -> float:
        """Relative: the larger standard error of the two best tries' medians, and how far these are
        apart.
        """
        return best_of(medians(self.tries))[1]

    @property
    def label(self) -> str:
        """`node3 device 4`, or `node1 with node2`."""
        return location(self.nodes, self.device)


def best_of(tries: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return a figure's value and noise, of its tries' medians and these medians' errors."""
    best = sorted(tries, key=itemgetter(0))[-2:]
    value = best[-1][0]
    return value, (max(wide for _, wide in best) + value - best[0][0]) / value


def location(nodes: Sequence[str], device: int | None) -> str:
    """Name where a figure was measured, by few of many nodes.

    >>> location(["node3"], 4), location(["a", "b", "c", "d", "e", "f"], None)
    ('node3 device 4', 'a with b with c with d and 2 more')
    """
    where = " with ".join(nodes[:SHOWN])
    where += f" and {len(nodes) - SHOWN} more" if len(nodes) > SHOWN else ""
    return where if device is None else f"{where} device {device}"


@dataclass(frozen=True)
class ProbeResult:
    """One test over all its figures."""

    test: str
    figures: tuple[Figure, ...]
    reference: float | None = None
    slow: tuple[Figure, ...] = ()
    contended: tuple[Figure, ...] = ()
    reason: str = ""
    suspected: bool = False  # a figure is low, and more samples show whether it is slow

    @property
    def noisy(self) -> bool:
        """Whether noise hid what was to be seen: another try may show it."""
        return self.reason.startswith((NOISY, BUSY))

    @property
    def name(self) -> str:
        """For people."""
        return TESTS[self.test][0]

    def value(self, figure: Figure) -> float:
        """Return what is shown of a figure: of a pair, as it was beside all others."""
        return statistics.median(figure.tries[0]) if self.test in PAIRS else figure.value


@dataclass(frozen=True)
class SlowPart:
    """What is slow, in one line, and the nodes that it is on."""

    test: str
    nodes: tuple[str, ...]
    words: str


def judge_figures(
    test: str, figures: Sequence[Figure], device: str, reason: str = ""
) -> ProbeResult:
    """Find the slow ones among all figures of a test."""
    if not figures:
        return ProbeResult(test, (), reason=reason)
    floor = floor_of(test, device)
    every = iter(medians([samples for figure in figures for samples in figure.tries]))
    tries = [list(islice(every, len(figure.tries))) for figure in figures]
    usual = reference([middles[0][0] if test in PAIRS else max(middles)[0] for middles in tries])
    values, noises = compared(test, figures, tries)
    common = statistics.median(noises)
    slow: list[Figure] = []
    contended: list[Figure] = []
    if test in PAIRS:
        slow, contended = _slow_pairs(figures, tries, usual, floor)
    elif len(figures) > 1:
        slow = [figures[number] for number in low(values, noises, floor)]
    waited = [figure for figure in slow if figure.busy]
    slow = [figure for figure in slow if not figure.busy]
    if waited and not reason:
        where = ", ".join(dict.fromkeys(host for figure in waited for host in figure.nodes))
        share = max(figure.busy for figure in waited)
        reason = (
            f"{BUSY}: {where}, where other work had the cores and threads waited {share:.0%} of"
            " their time; stop it and measure again"
        )
    if not slow and not reason and common > TOO_NOISY * floor:
        reason = (
            f"{NOISY} ({common:.0%} of noise): stop what else runs on the nodes and measure again"
        )
    is_below = test in AT_ONCE and min(values) < reference(values) * (1 - floor)
    return ProbeResult(
        test,
        tuple(figures),
        usual,
        tuple(slow),
        tuple(contended),
        reason,
        suspected=is_below and not slow and not reason,
    )


def compared(
    test: str, figures: Sequence[Figure], tries: Sequence[Sequence[tuple[float, float]]]
) -> tuple[list[float], list[float]]:
    """Return what figures of a test are compared by, and the noise of each, relative to it.

    `tries` has each figure's medians and their errors. Of samples that all take at once, what is
    slow in its best try is slow in each: it does not matter how far tries are apart, and the
    samples of all tries show the noise.
    """
    at_once = test in AT_ONCE
    relative = relative_to_median([figure.tries for figure in figures]) if at_once else []
    if relative:
        return best_of_tries(relative)
    best = [best_of(each) for each in tries]
    return [value for value, _ in best], [noise for _, noise in best]


def _slow_pairs(
    figures: Sequence[Figure],
    tries: Sequence[Sequence[tuple[float, float]]],
    usual: float,
    floor: float,
) -> tuple[list[Figure], list[Figure]]:
    """Find the pairs slow in their round and alone; and those that are slow only while others talk.

    What was measured alone is compared with what else was measured alone.
    """
    noises = [max(wide / middle for middle, wide in each) for each in tries]
    common, count = statistics.median(noises), len(figures)
    best = max((each[1][0] for each in tries if len(each) > 1), default=0.0)
    slow: list[Figure] = []
    contended: list[Figure] = []
    once: list[Figure] = []
    for figure, each, noise in zip(figures, tries, noises, strict=True):
        if is_low(each[0][0], usual, noise, common, floor, count):
            if len(each) == 1:
                once.append(figure)
            elif is_low(each[1][0], best, noise, common, floor, count):
                slow.append(figure)
            else:
                contended.append(figure)
    # More were slow than are measured again: they are as those that were.
    (contended if contended and not slow else slow).extend(once)
    return slow, contended


def slowing(row: ProbeResult, device: str) -> list[SlowPart]:
    """Find devices that slow down while they compute: heat, or a power limit.

    By their own samples, and beside the median of all devices by half as much, unless most devices
    slow down; or beside that median alone, without noise that all have, where their own samples
    fall, too. One that is fast again in a later try did not slow down.
    """
    floor, count = 2 * floor_of(row.test, device), len(row.figures)
    relative = relative_to_median([figure.tries for figure in row.figures])
    common = statistics.median(map(jitter, relative)) if relative else 0.0
    falls = [slowed(figure.tries, floor, count) for figure in row.figures]
    most_fall = 2 * sum(map(bool, falls)) > count
    slow = []
    for number, figure in enumerate(row.figures):
        if figure.busy:
            continue
        if (rates := falls[number]) and (
            most_fall or not relative or slowed(relative[number], floor / 2, count, 0.0)
        ):
            change = f"from {rounded(rates[0])} to {rounded(rates[1])} {TESTS[row.test][1]}"
        elif relative and slowed(figure.tries, floor, count, 0.0):
            tries = relative[number]
            # By one try alone it is only measured again.
            noise = common if len(tries) == 1 else max(common, jitter(tries))
            shares = slowed(tries, floor, count, noise)
            if not shares:
                continue
            change = f"from {shares[0]:.0%} to {shares[1]:.0%} of the median of all devices"
        else:
            continue
        description = f"{figure.label}: it slows down {change} while it computes"
        slow.append(SlowPart(row.test, figure.nodes, description))
    return slow


def slow_parts(row: ProbeResult, hosts: Sequence[str]) -> list[SlowPart]:
    """Name the slow ones: a node instead of its devices or pairs.

    That is a node of which all are slow; and of pairs, one that is in more slow ones than any other
    node and in most of its own.
    """
    if not row.slow or row.reference is None:
        return []
    pairs = row.test in PAIRS
    shares = Counter(host for figure in row.figures for host in figure.nodes)
    remaining, verdicts = list(row.slow), []
    while True:
        counts = Counter(host for figure in remaining for host in figure.nodes)
        every = [host for host in hosts if 2 <= counts[host] == shares[host]]
        worst, runner_up = ([*counts.most_common(2), ("", 0), ("", 0)])[:2]
        if pairs and not every and worst[1] > max(runner_up[1], shares[worst[0]] / 2, 1):
            every = [worst[0]]
        every = [host for host in every if not pairs or counts[host] < len(row.figures)]
        if not every:
            break
        host = every[0]
        mine = [figure for figure in remaining if host in figure.nodes]
        share = f"{len(mine)} of its {shares[host]} {'pairs' if pairs else 'devices'}"
        lowest = min(mine, key=row.value)
        verdicts.append(SlowPart(row.test, (host,), f"{host}: {_below(row, lowest)}, {share}"))
        # A pair of two nodes that are both slow is slow for each of them.
        remaining = [figure for figure in remaining if figure not in mine]
        shares.subtract(
            host_of_figure
            for figure in mine
            for host_of_figure in figure.nodes
            if host_of_figure != host
        )
    for figure in remaining:
        verdicts.append(SlowPart(row.test, figure.nodes, f"{figure.label}: {_below(row, figure)}"))
    return verdicts


def _below(row: ProbeResult, figure: Figure) -> str:
    assert row.reference is not None
    name, unit = TESTS[row.test]
    value = row.value(figure)
    return (
        f"{name} {rounded(value)} {unit}, {1 - value / row.reference:.0%} below"
        f" {rounded(row.reference)}"
    )


def rounded(value: float) -> str:
    """Write a figure with the digits that it is good for."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
