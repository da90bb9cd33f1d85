"""Where a quantity of one cell changed, over campaigns: change points and their evidence. Pure.

1. *Outliers*: a point further than OUTLIER_SIGMAS from the median of the five around it counts as
   that far (Hampel 1974, JASA 69(346)): one odd campaign is not a change, and hides none.
2. *Change points*: those of least cost by PELT (Killick, Fearnhead, Eckley 2012, JASA 107(500)):
   squared distances from a segment's mean, in units of the noise, and PENALTY * log(n) a change; a
   segment has two points or more, so that the next campaign confirms a change. The noise is robust
   (of the differences of neighbours, MAD), and no less than what the intervals of the points say.
3. *Evidence*: a change is kept where its step is larger than the threshold; where Student's t of
   the step, over the noise of all segments, has a probability below CHANCE_PERCENT after a change
   may have been at any point (Bonferroni); where a step describes the two segments better than a
   line through both does, by DRIFT_MARGIN of the likelihoods' logarithms, for that is drift; and
   where neither segment is a brief one between two others. Points that follow each other resemble
   each other: they count as fewer by the correlation of neighbours. The weakest goes first, and its
   segments are one from then on.

docs/measures.md has the rates of detection and false alarms.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from runner.figures.run_mean import Floats, tail
from runner.figures.warmup import MAD_TO_SIGMA

FEWEST_POINTS = 5
FEWEST_SIDE = 2  # points of a segment
FEWEST_INSIDE = 3  # of one between two others: two odd campaigns that follow each other are none
OUTLIER_SIGMAS = 3.0
PENALTY = 2.0
DRIFT_MARGIN = 6.0  # twice the difference of the logarithms
CHANCE_PERCENT = 1.0
_REACH = 2  # points on each side of one, among which it may be an outlier
_LEAST_NOISE = 0.05  # percent: identical figures are no proof that the next is the same


@dataclass(frozen=True)
class Change:
    """A step at point number `at`, the first of its new level, from `before` to `after`.

    The levels are medians; `p` is the probability that noise makes such a step anywhere.
    """

    at: int
    before: float
    after: float
    p: float

    @property
    def percent(self) -> float:
        """The new level against the old one."""
        return (self.after / self.before - 1) * 100


def change_points(
    values: Sequence[float], noise_percent: Sequence[float], threshold_percent: float
) -> list[Change]:
    """Find the changes of positive values in the order of their campaigns; none of too few.

    `noise_percent` is each value's standard error, 0 where nobody knows it.
    """
    count = len(values)
    if count < FEWEST_POINTS:
        return []
    series = np.log(np.asarray(values, np.float64)) * 100
    least = max(float(np.median(noise_percent)), _LEAST_NOISE)
    calm = _without_outliers(series, least)
    sigma = _sigma(calm, least)
    at = pelt(calm / sigma, PENALTY * math.log(count))
    strong = _strong_changes(calm, at, least, threshold_percent)
    edges = [0, *strong, count]
    levels = [float(np.median(values[a:b])) for a, b in pairwise(edges)]
    return [
        Change(position, levels[number], levels[number + 1], p)
        for number, (position, p) in enumerate(strong.items())
    ]


def _sigma(series: Floats, least: float) -> float:
    """Estimate the noise of points, whatever their level: of the differences of neighbours."""
    steps = np.diff(series)
    return max(MAD_TO_SIGMA * float(np.median(np.abs(steps))) / math.sqrt(2), least)


def _without_outliers(series: Floats, least: float) -> Floats:
    far = OUTLIER_SIGMAS * _sigma(series, least)
    level = np.asarray([float(np.median(points)) for points in _around(series)])
    result: Floats = np.clip(series, level - far, level + far)
    return result


def _around(series: Floats) -> list[Floats]:
    """Return the points around each: two on each side, near the ends as many as there are, but no
    fewer than three in all, so that two points of a new level are not outliers.
    """
    last_index = len(series) - 1
    parts = []
    for index in range(last_index + 1):
        middle = min(max(index, 1), last_index - 1)
        reach = min(_REACH, middle, last_index - middle)
        parts.append(series[middle - reach : middle + reach + 1])
    return parts


def pelt(series: Floats, penalty: float) -> list[int]:
    """Return the first points of new segments, of least cost."""
    count = len(series)
    sums = np.concatenate([[0.0], np.cumsum(series)])
    squares = np.concatenate([[0.0], np.cumsum(series * series)])
    best = np.full(count + 1, np.inf)
    best[0], begin_of = -penalty, np.zeros(count + 1, np.int64)
    begins = np.array([0])
    for end in range(FEWEST_SIDE, count + 1):
        if end >= 2 * FEWEST_SIDE:
            begins = np.append(begins, end - FEWEST_SIDE)
        size = end - begins
        spread = squares[end] - squares[begins] - (sums[end] - sums[begins]) ** 2 / size
        cost = best[begins] + spread
        least = int(np.argmin(cost))
        best[end], begin_of[end] = cost[least] + penalty, begins[least]
        begins = begins[cost <= best[end]]  # no later point begins its segment at one of the others
    places, end = [], int(begin_of[count])
    while end > 0:
        places.append(end)
        end = int(begin_of[end])
    return places[::-1]


def _strong_changes(
    series: Floats, at: Sequence[int], least: float, threshold: float
) -> dict[int, float]:
    """Drop the weakest change, until the evidence of all is good enough; place to probability."""
    at = list(at)
    while at:
        weakest, worst = at[0], -1.0
        changes = {}
        for position, p in zip(at, _chances(series, at, least, threshold), strict=True):
            changes[position] = p
            if p > worst:
                weakest, worst = position, p
        if worst < CHANCE_PERCENT / 100:
            return changes
        at.remove(weakest)
    return {}


def _chances(series: Floats, at: Sequence[int], least: float, threshold: float) -> list[float]:
    """Return each change's p-value; 1 for a small one, or drift."""
    count, edges = len(series), [0, *at, len(series)]
    parts = [series[a:b] for a, b in pairwise(edges)]
    residuals = np.concatenate([segment - segment.mean() for segment in parts])
    power = float(residuals @ residuals)
    freedom = count - len(parts)
    alike = min(max(float(residuals[1:] @ residuals[:-1]) / power, 0.0), 0.9) if power else 0.0
    fewer = (1 - alike) / (1 + alike)
    variance = max(power / freedom, least**2)
    chances = []
    short = [
        len(segment) < FEWEST_INSIDE and 0 < n < len(parts) - 1 for n, segment in enumerate(parts)
    ]
    for number, (before, after) in enumerate(pairwise(parts)):
        step = float(after.mean() - before.mean())
        doubtful = short[number] or short[number + 1] or _is_drift(before, after)
        if doubtful or abs(step) <= threshold:
            chances.append(1.0 + 1 / (1 + abs(step)))  # the smallest step goes first
            continue
        error = math.sqrt(variance * (1 / len(before) + 1 / len(after)) / fewer)
        p = tail(abs(step) / error, freedom)
        chances.append(min(1.0, p * (count - 1)))
    return chances


def _is_drift(before: Floats, after: Floats) -> bool:
    """Whether a line describes two segments about as well as a step between them."""
    both = np.concatenate([before, after])
    if len(both) < FEWEST_POINTS:
        return False
    positions = np.arange(len(both), dtype=np.float64)
    positions -= positions.mean()
    centred = both - both.mean()
    line = centred - positions * float(centred @ positions) / float(positions @ positions)
    step = np.concatenate([before - before.mean(), after - after.mean()])
    lines, steps = float(line @ line), float(step @ step)
    return steps > 0 and (lines <= 0 or len(both) * math.log(lines / steps) < DRIFT_MARGIN)
