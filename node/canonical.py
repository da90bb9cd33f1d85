"""Names of Python packages."""

from __future__ import annotations

import re


def canonical(name: str) -> str:
    """Return a package's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()
