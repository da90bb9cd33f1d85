"""Times for people: UTC everywhere, so that a run has one day for all readers."""

import time

ZONE = "UTC"


def day(at: float) -> str:
    """Write the day of a time (epoch seconds), YYYY-MM-DD."""
    return _written(at, "%Y-%m-%d")


def minute(at: float, since: float | None = None) -> str:
    """Write a time to the minute, without its day where `since` was on the same one."""
    same = since is not None and day(since) == day(at)
    return _written(at, "%H:%M" if same else "%Y-%m-%d %H:%M")


def second(at: float) -> str:
    """Write the time of a day to the second."""
    return _written(at, "%H:%M:%S")


def _written(at: float, form: str) -> str:
    return time.strftime(form, time.gmtime(at))
