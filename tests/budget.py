"""How much of what could go on for ever is tried: all at night, a tenth by day.

`make nightly SUITE=properties` takes the files that ask here.
"""

import os
from collections.abc import Iterable
from typing import TypeVar

NIGHT = os.environ.get("TRAINBENCH_NIGHTLY") == "properties"
DAY = int(os.environ["TRAINBENCH_DAY"])
T = TypeVar("T")


def examples(count: int) -> int:
    """How many of a property's examples."""
    return count if NIGHT else max(count // 10, 5)


def some(cases: Iterable[T]) -> list[T]:
    """Which of a table's cases: by day each tenth, another one each day."""
    every = list(cases)
    return every if NIGHT else every[DAY % min(10, len(every) or 1) :: 10]
