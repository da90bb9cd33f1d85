"""Student's t without a library of statistics: what it takes is one quantile, and a tail. Pure."""

import math

_Z = 1.959964  # the normal distribution's 97.5 % quantile, and Student's of so many degrees:
_T = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060)  # of 1 degree on
_Z80 = 0.841621  # the 80 % quantile
_T80 = (1.3764, 1.0607, 0.9785, 0.9410, 0.9195, 0.9057, 0.8960, 0.8889)


def quantile(freedom: float) -> float:
    """Return the 97.5 % quantile for at least 1 degree of freedom, which need not be whole."""
    return _between(freedom, _Z, _T)


def quantile_80(freedom: float) -> float:
    """Return the 80 % quantile, likewise."""
    return _between(freedom, _Z80, _T80)


def quantile_of(freedom: float, comparisons: float) -> float:
    """Return the quantile for that many intervals that are to hold together in 95 of 100 cases.

    The error is divided by their number (Bonferroni). Degrees of freedom are rounded down.
    """
    if comparisons <= 1:
        return quantile(freedom)
    error, degrees = 0.05 / comparisons, max(int(min(freedom, 1e4)), 1)
    low, high = quantile(degrees), 1e6
    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if tail(middle, degrees) > error else (low, middle)
    return high


def _between(freedom: float, normal: float, table: tuple[float, ...]) -> float:
    """Interpolate in 1 / freedom; beyond the table expand (Abramowitz and Stegun, 26.7.5)."""
    freedom = max(freedom, 1.0)
    if freedom < len(table):
        below = int(freedom)
        share = (1 / freedom - 1 / below) / (1 / (below + 1) - 1 / below)
        return table[below - 1] + share * (table[below] - table[below - 1])
    first_term, second = (
        (normal**3 + normal) / 4,
        (5 * normal**5 + 16 * normal**3 + 3 * normal) / 96,
    )
    return normal + first_term / freedom + second / freedom**2


def tail(t: float, freedom: int) -> float:
    """Return the probability beyond +-t of Student's t (Abramowitz and Stegun, 26.7.3 and 4)."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = total = cosine if odd else 1.0
    for number in range(2 + odd, freedom, 2):
        term *= cosine * cosine * (number - 1) / number
        total += term
    if not odd:
        return max(0.0, 1 - sine * total)
    inside = angle + (sine * total if freedom > 1 else 0.0)
    return max(0.0, 1 - inside * 2 / math.pi)
