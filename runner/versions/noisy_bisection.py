"""Which of many versions changed a figure, by pairs of noisy runs: a posterior, and what to run
next. Pure.

Versions are numbered from 0 to n in their order. A pair (a, b), a before b, measures the logarithm
of b's figure over a's. At most one version k changed the figure, by the factor e^d:

    measured = d + noise if a < k <= b, else noise

*Posterior.* "No change" has a prior of one half, each k the same share of the rest. The size |d| is
uniform in its logarithm from the smallest change that counts to MOST_CHANGE, of either sign, the
noise's scale uniform in its logarithm from LEAST_NOISE to MOST_NOISE. Noise is Student's t of
FREEDOM degrees of freedom, so that a run that was disturbed decides nothing. Both are summed out
over a grid, so that nothing is estimated first and then believed.

*What to run next* is noisy binary search by the posterior's median (Horstein 1963, IEEE
Transactions on Information Theory 9, 136; Waeber, Frazier and Henderson 2013, SIAM Journal on
Control and Optimization 51, 2261): the version that halves what is known, here the one that tells
most per second, since a version that is not built yet costs its build, too. First the two ends are
compared until a change is sure.

*The end.* One version (or several that cannot be distinguished, as those between cannot be built)
has at least the asked probability, and was compared with the one before it in CONFIRMING pairs; or
"no change" has that probability.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FREEDOM = 4.0
LEAST_NOISE, MOST_NOISE, NOISES = 2e-4, 0.5, 32
MOST_CHANGE, SIZES = 2.0, 40  # as a logarithm: a factor of 7
FEWEST_OF_ENDS = 3
CONFIRMING = 2  # pairs of the version that changed it and the one before
OF_A_BUILD = 3.0  # pairs that a new version is likely to be used for


class PairReading(NamedTuple):
    """A pair of runs: the numbers of two versions, the earlier first, and log(later / earlier)."""

    a: int
    b: int
    change: float


class PairGroup(NamedTuple):
    """Versions that cannot be distinguished, and the probability that one of them changed it.

    `before` is the last version before them that can run, `final` the last of them, which can, too.
    """

    before: int
    final: int
    probability: float

    @property
    def earliest(self) -> int:
        """The first of them."""
        return self.before + 1


class BisectStep(NamedTuple):
    """The next pair to run, and why: ends, halves, confirms."""

    a: int
    b: int
    why: str


class BisectEnd(NamedTuple):
    """How it ended: the versions, one of which changed the figure, or None: no change."""

    group: PairGroup | None


class Costs(NamedTuple):
    """Seconds of a pair of runs and of a build, and which versions are built."""

    pair_s: float = 1.0
    build_s: float = 1.0
    built: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Posterior:
    """What is known of n changes after some pairs, and when that is enough."""

    count: int  # n: the number of the last version
    readings: Sequence[PairReading]
    usable: Sequence[int]  # the versions that can run, in order, 0 and n among them
    smallest: float  # the smallest change that counts, as a logarithm
    confidence: float = 0.99

    @cached_property
    def groups(self) -> list[PairGroup]:
        """The versions that can be distinguished, with their probabilities."""
        bounds = list(zip(self.usable, self.usable[1:], strict=False))
        logs = {bound: self._log_evidence(*bound) for bound in bounds}
        prior = math.log(0.5 / self.count)
        weights = [logs[bound] + prior + math.log(bound[1] - bound[0]) for bound in bounds]
        largest = max(*weights, self._none) if weights else self._none
        total = math.fsum(math.exp(w - largest) for w in (*weights, self._none))
        return [
            PairGroup(before, final, math.exp(weight - largest) / total)
            for (before, final), weight in zip(bounds, weights, strict=True)
        ]

    @cached_property
    def no_change(self) -> float:
        """The probability that nothing changed."""
        return max(0.0, 1 - math.fsum(item.probability for item in self.groups))

    def before_or_at(self, version: int) -> float:
        """Return the probability that the figure changed by that version, if it changed at all."""
        changed = math.fsum(item.probability for item in self.groups)
        by_then = math.fsum(item.probability for item in self.groups if item.final <= version)
        return by_then / changed if changed > 0 else 0.5

    @cached_property
    def _none(self) -> float:
        return math.log(0.5) + self._sum_out(
            np.zeros((2 * SIZES, NOISES)) + self._quiet(self.readings)
        )

    def _log_evidence(self, before: int, final: int) -> float:
        """Return the logarithm of how likely the readings are if a version of these changed it."""
        across = [item for item in self.readings if item.a <= before and final <= item.b]
        unrelated = [item for item in self.readings if not (item.a <= before and final <= item.b)]
        grid = np.zeros((2 * SIZES, NOISES)) + self._quiet(unrelated)
        if across:
            changes = np.array([item.change for item in across])
            away = changes[:, None, None] - self._sizes[None, :, None]
            grid = grid + _log_t(away, _SCALES[None, None, :]).sum(axis=0)
        return self._sum_out(grid)

    def _quiet(self, readings: Sequence[PairReading]) -> Floats:
        """Return the logarithm of how likely they are by noise alone, for each scale of it."""
        if not readings:
            return np.zeros(NOISES)
        changes = np.array([item.change for item in readings])
        quiet: Floats = _log_t(changes[:, None], _SCALES[None, :]).sum(axis=0)
        return quiet

    def _sum_out(self, grid: Floats) -> float:
        largest = float(grid.max())
        return largest + math.log(float(np.exp(grid - largest).mean()))

    @cached_property
    def _sizes(self) -> Floats:
        sizes = np.geomspace(self.smallest, max(MOST_CHANGE, 2 * self.smallest), SIZES)
        return np.concatenate((-sizes[::-1], sizes))


_SCALES = np.geomspace(LEAST_NOISE, MOST_NOISE, NOISES)
_LOG_NORM = (
    math.lgamma((FREEDOM + 1) / 2) - math.lgamma(FREEDOM / 2) - 0.5 * math.log(FREEDOM * math.pi)
)


def _log_t(distance: Floats, scale: Floats) -> Floats:
    """Return the logarithm of Student's t density at a distance, of noise of that scale."""
    share = distance / scale
    density: Floats = (
        _LOG_NORM - np.log(scale) - (FREEDOM + 1) / 2 * np.log1p(share * share / FREEDOM)
    )
    return density


def next_step(posterior: Posterior, costs: Costs) -> BisectStep | BisectEnd:
    """Return the next pair, or how it ended."""
    final, confidence = posterior.count, posterior.confidence
    ends = sum((item.a, item.b) == (0, final) for item in posterior.readings)
    if ends >= FEWEST_OF_ENDS and posterior.no_change >= confidence:
        return BisectEnd(None)
    if ends < FEWEST_OF_ENDS or posterior.no_change > 1 - confidence:
        return BisectStep(0, final, "ends")
    best = max(posterior.groups, key=lambda item: item.probability)
    if best.probability >= confidence or len(posterior.usable) == 2:
        direct = sum((item.a, item.b) == (best.before, best.final) for item in posterior.readings)
        if direct >= CONFIRMING:
            return BisectEnd(best)
        return BisectStep(best.before, best.final, "confirms")
    middle = _most_telling(posterior, costs)
    runs = [sum(end in (item.a, item.b) for item in posterior.readings) for end in (0, final)]
    return (
        BisectStep(0, middle, "halves")
        if runs[0] <= runs[1]
        else BisectStep(middle, final, "halves")
    )


def _most_telling(posterior: Posterior, costs: Costs) -> int:
    """Return the version between the ends whose side of the change tells most per second."""

    def rate(version: int) -> float:
        share = posterior.before_or_at(version)
        build_s = 0.0 if version in costs.built else costs.build_s / OF_A_BUILD
        return _entropy(share) / (costs.pair_s + build_s)

    return max(posterior.usable[1:-1], key=rate)


def _entropy(share: float) -> float:
    """Return the bits that a yes or no of that probability tells."""
    return -sum(p * math.log2(p) for p in (share, 1 - share) if p > 0)
