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
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it said nothing"
