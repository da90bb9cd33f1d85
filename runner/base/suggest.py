"""Words that people type: which right one they mean, and which they probably meant."""

import math
from collections.abc import Iterable
from typing import Any


def comparable(value: Any) -> str | float:
    """Return what is equal for all ways to write a value: 1 and 1.0, off and Off."""
    text = str(value).casefold()
    number = _number(text)
    return text if number is None or math.isnan(number) else number


def alike(value: Any, candidate: Any) -> bool:
    """Return whether the two are the same word, in any case, or the same number."""
    return comparable(value) == comparable(candidate)


def nearest(word: str, right: Iterable[str], cutoff: float = 0.6) -> str:
    """Return ` (did you mean X?)`, or an empty string; a number has none near."""
    if _number(word) is not None:
        return ""
    suggestion = match(word, right, cutoff)
    return f" (did you mean {suggestion!r}?)" if suggestion is not None else ""


def match(word: str, right: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the right word that is nearest, or None where nothing is near."""
    import difflib  # what is never mistyped should not wait for it

    matches = difflib.get_close_matches(str(word), list(right), n=1, cutoff=cutoff)
    return matches[0] if matches else None


def _number(text: object) -> float | None:
    try:
        return float(str(text))
    except ValueError:
        return None
