"""Texts of files and programs as values."""

from __future__ import annotations

import json
import re
from typing import Any

from .machine import Machine


def number(text: str | None) -> int | None:
    """A whole number at the beginning of a text, or None."""
    match = re.match(r"\s*(-?\d+)", text or "")
    return int(match[1]) if match else None


def shared(values: list[str | None]) -> str | None:
    """One value that all have, or all different ones, joined by commas; None without any."""
    there = sorted({value for value in values if value})
    return ", ".join(there) or None


def load(machine: Machine, path: str) -> dict[str, Any] | None:
    """A JSON file's object; None where there is no whole one."""
    try:
        content = json.loads(machine.text(path) or "")
    except ValueError:
        return None
    return content if isinstance(content, dict) else None
