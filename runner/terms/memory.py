"""The four figures of memory: what each is of. They differ by a quarter, and are never mixed."""

from collections.abc import Mapping
from typing import NamedTuple


class MemoryFigure(NamedTuple):
    """A figure of memory: its short name in tables, and what it is the peak of."""

    title: str
    meaning: str


# By machine name, the best known first. All are in MiB, of the fullest device or process.
MEMORY: Mapping[str, MemoryFigure] = {
    "memory_allocated_mib": MemoryFigure(
        "allocated", "what tensors had of the framework's allocator, on the fullest device"
    ),
    "memory_reserved_mib": MemoryFigure(
        "reserved", "what the framework's allocator had taken of the fullest device"
    ),
    "memory_used_mib": MemoryFigure(
        "used", "what all processes had in use on the fullest device, by samples or the log"
    ),
    "memory_rss_mib": MemoryFigure(
        "RSS", "the main memory of the largest process (resident set size), on a CPU"
    ),
}
