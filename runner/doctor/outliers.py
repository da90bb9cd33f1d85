"""Which of many like figures is too low to be chance, however many there are. Pure.

A figure is low where it is below the reference (the upper quartile, which nothing slow can raise)
by more than a floor, which is what healthy ones may differ by, and by more than noise explains.
The more figures, the farther the lowest of healthy ones lies: of the normal distribution's tail,
each figure gets its part of ALPHA (Bonferroni), so that all of a healthy cluster pass.
"""

import functools
import itertools
import math
import statistics
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from node.probe import reference

ALPHA = 0.001  # that any healthy figure of one test is called low
OFFSET = 1.0  # standard deviations that the reference lies above the middle, of few figures
MANY = 8  # figures, of which the spread between them can be told
LEAST = 3.0
FEWEST = 3  # figures, of which samples of one moment are compared


@functools.cache
def critical(count: int) -> float:
    """Return how many standard deviations below the reference are not chance among `count` figures.

    >>> [round(critical(count), 1) for count in (1, 4, 64, 1024)]
    [4.1, 4.5, 5.2, 5.8]
    """
    return max(LEAST, OFFSET - statistics.NormalDist().inv_cdf(ALPHA / max(count, 1)))


def sigma(samples: Sequence[float]) -> float:
    """Return the MAD as a standard deviation, which a few far samples do not move."""
    middle = statistics.median(samples)
    return 1.4826 * statistics.median(abs(sample - middle) for sample in samples)


def medians(series: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """Return each series' median and its standard error, by their MAD: of many series at once.

    >>> [(middle, round(wide, 2)) for middle, wide in medians([[9.0, 10.0, 11.0, 10.0], [7.0]])]
    [(10.0, 0.46), (7.0, 0.0)]
    """

    def middle(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        ordered, size = np.sort(rows, axis=1), rows.shape[1]
        return (ordered[:, (size - 1) // 2] + ordered[:, size // 2]) / 2

    of_size = {}
    for size in {len(samples) for samples in series}:
        rows = np.array([samples for samples in series if len(samples) == size], np.float64)
        found = middle(rows)
        apart = 1.4826 * middle(abs(rows - found[:, None]))
        errors = math.sqrt(math.pi / 2 / size) * apart
        of_size[size] = zip(found.tolist(), errors.tolist(), strict=True)
    return [next(of_size[len(samples)]) for samples in series]


def jitter(tries: Sequence[Sequence[float]]) -> float:
    """Return the standard deviation from one sample to the next, which no drift and no step moves.

    >>> step = [10.0, 10.1, 9.9, 5.0, 5.1, 4.9]
    >>> jitter([step]) < 0.3 < sigma(step)
    True
    """
    pairs = [pair for samples in tries for pair in itertools.pairwise(samples)]
    apart = [abs(sample - following) for sample, following in pairs]
    return 1.4826 * statistics.median(apart) / 2**0.5 if apart else 0.0


def slowed(
    tries: Sequence[Sequence[float]], floor: float, count: int, deviation: float | None = None
) -> tuple[float, float] | None:
    """Return the medians before and after a series became slower, in a try or over all of them.

    It did in a try whose last third is lower than its first, by more than the floor and more than
    chance, and after which no try is faster again. Of several tries the last has none after it: it
    counts where the try before it fell, too. `count` is of how many series the lowest is looked
    for; `deviation` is their jitter, where it is known better than by one series.

    >>> fell, stays, recovers = [10.0, 10.1, 9.9, 5.0, 5.1, 4.9], [5.0] * 6, [10.0] * 6
    >>> slowed([fell, stays], 0.1, 4), slowed([fell, recovers], 0.1, 4)
    ((10.05, 5.0), None)
    >>> slowed([recovers, recovers, fell], 0.4, 4), slowed([recovers, fell, fell], 0.4, 4)
    (None, (10.05, 5.0))
    """

    def fall(samples: Sequence[float], *later: Sequence[float]) -> tuple[float, float] | None:
        third = max(1, len(samples) // 3)
        begin = statistics.median(samples[:third])
        end = max(statistics.median(rates) for rates in (samples[-third:], *later))
        if end >= begin * (1 - floor):
            return None
        noise = (jitter(tries) if deviation is None else deviation) / begin
        return (begin, end) if end < begin * (1 - critical(count) * noise) else None

    for number, samples in enumerate(tries[:-1]):
        if rates := fall(samples, *tries[number + 1 :]):
            return rates
    if len(tries) > 1 and fall(tries[-2]) and (rates := fall(tries[-1])):
        return rates
    return fall([sample for samples in tries for sample in samples])


def relative_to_median(figures: Sequence[Sequence[Sequence[float]]]) -> list[list[list[float]]]:
    """Return samples divided by the median of all figures' samples of the same moment.

    A figure has tries, a try has samples. What slows all figures at once then shows in none. Empty
    where moments cannot be compared: fewer than three figures, or not all with the same samples.

    >>> relative_to_median([[[10.0, 5.0]], [[10.0, 5.0]], [[8.0, 4.0]]])
    [[[1.0, 1.0]], [[1.0, 1.0]], [[0.8, 0.8]]]
    """
    sizes = {tuple(map(len, tries)) for tries in figures}
    if len(figures) < FEWEST or len(sizes) != 1:
        return []
    moments = [list(zip(*samples, strict=True)) for samples in zip(*figures, strict=True)]
    medians = [[statistics.median(samples) for samples in one_try] for one_try in moments]
    if not all(median for one_try in medians for median in one_try):
        return []
    return [
        [
            [sample / median for sample, median in zip(samples, one_try, strict=True)]
            for samples, one_try in zip(tries, medians, strict=True)
        ]
        for tries in figures
    ]


def best_of_tries(
    relative: Sequence[Sequence[Sequence[float]]],
) -> tuple[list[float], list[float]]:
    """Return each figure's median in its best try, and the error of its tries' mean, relative.

    `relative` is relative_to_median's. Medians are relative to the reference of their try, so that
    a try in which others were busy is no better for those that were not. Each figure is a part of
    the median of its moment, so that errors are larger than the samples show. With more tries the
    error falls, and the best of them is only higher: a healthy figure is not called low more often.
    """
    count = len(relative)
    of_tries = [medians(one_try) for one_try in zip(*relative, strict=True)]
    references = [reference([middle for middle, _ in one_try]) for one_try in of_tries]
    values, errors = [], []
    for tries in zip(*of_tries, strict=True):
        values.append(max(one[0] / usual for one, usual in zip(tries, references, strict=True)))
        parts = [wide / middle for middle, wide in tries]
        errors.append(math.hypot(*parts) / len(parts) * math.sqrt(count / (count - 1)))
    return values, errors


def spread(values: Sequence[float]) -> float:
    """Return how far figures lie apart, relative; 0 of few, which cannot say."""
    middle = statistics.median(values)
    return sigma(values) / middle if len(values) >= MANY and middle > 0 else 0.0


def is_low(
    value: float,
    usual: float,
    noise: float,
    common: float,
    floor: float,
    count: int,
    between: float = 0.0,
) -> bool:
    """Return whether a figure is too low to be chance among `count` of its like.

    `noise` is relative to the value: a slow figure that is unsteady as well stays slow. `common`,
    the noise of its like, and `between`, how far these lie apart, are relative to the usual.
    """
    if value >= usual * (1 - floor):
        return False
    chance = critical(count) * max(noise * value / usual, common, between)
    return value < usual * healthy_share(floor, chance)


def healthy_share(floor: float, chance: float) -> float:
    """Return the share of the usual figure that a healthy one reaches, above 0 whatever the noise.

    `chance` is how far below the usual noise explains, relative to it. Where it is all of it, noise
    is a factor, and no difference: the share shrinks, but a figure that is far lower stays low.

    >>> [round(healthy_share(0.1, chance), 2) for chance in (0.05, 0.3, 0.9, 1.5)]
    [0.9, 0.7, 0.32, 0.15]
    """
    return min(1 - floor, max(1 - chance, math.exp(-1.25 * chance)))


def low(values: Sequence[float], noises: Sequence[float], floor: float) -> list[int]:
    """Return which figures of one test are too low, by number."""
    usual, between = reference(values), spread(values)
    common = statistics.median(noises)
    return [
        number
        for number, (value, noise) in enumerate(zip(values, noises, strict=True))
        if is_low(value, usual, noise, common, floor, len(values), between)
    ]
