"""`repeats: {until: 5 %, most: 10}`: repeat each cell until samples/s is known to 5 %. Pure."""

import re
from collections.abc import Mapping
from typing import Any

from runner.base.errors import UserError
from runner.terms.cell import FEWEST_REPEATS, MOST_REPEATS

_FORM = "write repeats: {until: 5 %, most: 10}"


def until_of(content: Mapping[str, Any], where: str) -> tuple[float | None, dict[str, Any]]:
    """Return `until` in percent, and the content with the most repeats as its `repeats`.

    None, and the content as it is, where `repeats` is a number. Raises UserError.
    """
    value = content.get("repeats")
    if not isinstance(value, dict):
        return None, dict(content)
    for key in value:
        if key not in ("until", "most"):
            raise UserError(f"{where}: repeats has an unknown key {key!r}; {_FORM}")
    most = value.get("most")
    if type(most) is not int or not FEWEST_REPEATS <= most <= MOST_REPEATS:
        raise UserError(
            f"{where}: most of repeats is {str(most)[:80]}, and must be a whole number of"
            f" {FEWEST_REPEATS} to {MOST_REPEATS}; {_FORM}"
        )
    if content.get("seeds") is not None:
        raise UserError(f"{where}: each of `seeds` is one repeat; drop repeats")
    return _percent(value.get("until"), where), {**content, "repeats": most}


def _percent(value: Any, where: str) -> float:
    text = re.fullmatch(r"(\d{1,3}(?:\.\d{1,6})?)\s*%?", str(value).strip())
    number = float(text[1]) if text and not isinstance(value, bool) else 0.0
    if not 0 < number < 100:
        raise UserError(
            f"{where}: until of repeats is {str(value)[:80]}, and must be above 0 and below 100 %;"
            f" {_FORM}"
        )
    return number
