"""How much of what could go on for ever is tried: all at night, a tenth by day.

TRAINBENCH_NIGHTLY=1 is the night; TRAINBENCH_DAY=N repeats the tenth of the day with that number.
"""

import os
from collections.abc import Iterable
from datetime import date
from typing import TypeVar

NIGHT = os.environ.get("TRAINBENCH_NIGHTLY") == "1"
DAY = int(os.environ.setdefault("TRAINBENCH_DAY", str(date.today().toordinal())))
T = TypeVar("T")


def examples(count: int) -> int:
    """How many of a property's examples."""
    return count if NIGHT else max(count // 10, 5)


def some(cases: Iterable[T]) -> list[T]:
    """Which of a table's cases: by day each tenth, another one each day."""
    every = list(cases)
    return every if NIGHT else every[DAY % min(10, len(every)) :: 10]
