"""Name the nearest right word for a wrong one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, right: Iterable[str]) -> str:
    """`; did you mean X?`, or an empty string where nothing is near."""
    found = difflib.get_close_matches(str(word), list(right), n=1, cutoff=0.6)
    return f" (did you mean {found[0]!r}?)" if found else ""
