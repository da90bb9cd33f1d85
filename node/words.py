"""What files and programs of a node say, as values."""

from __future__ import annotations


def pairs(text: str | None, separator: str) -> dict[str, str]:
    """The first value of each key of `key<separator>value` lines."""
    found: dict[str, str] = {}
    for line in (text or "").splitlines():
        key, there, value = line.partition(separator)
        if there:
            found.setdefault(key.strip(), value.strip().strip('"'))
    return found


def last_line(text: str) -> str:
    """A failing tool's last words."""
    return last_lines(text, 1).strip()[:300] or "it said nothing"


def last_lines(output: str, most: int) -> str:
    """The last lines of what a program printed, without the empty ones."""
    return "\n".join([line.rstrip() for line in output.splitlines() if line.strip()][-most:])


def found_a_full_disk(output: str) -> bool:
    """Whether a program says that the disk is full."""
    return "no space left on device" in output.lower()
