"""A length of time in words: the one form of node, runner and plugins."""


def lasts(seconds: float) -> str:
    """Write `4.5 s`, `45 s`, `12 min`, `3.5 h` or `2.5 days`: two of a unit at least."""
    for unit, size, places in (("days", 86400, 1), ("h", 3600, 1), ("min", 60, 0)):
        if round(seconds) >= 2 * size:
            return f"{round(seconds / size, places):g} {unit}"
    return f"{round(seconds, 0 if seconds >= 10 else 1):g} s"
