"""Variables of processes as people write them."""

import json
from typing import Any

from node.schema import UnfitError, value_text
from node.secret_names import SECRET
from node.validated_text import VariableName
from runner.base.errors import UserError

__all__ = ["SECRET", "read_env"]

MOST_VARIABLES = 1_000  # of one mapping


def read_env(value: Any, where: str) -> dict[str, str]:
    """Read variables as text. Raises UserError for what YAML would change: true, 1.10, an empty
    one.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UserError(f"{where} must be a mapping such as {{NCCL_DEBUG: INFO}}")
    if len(value) > MOST_VARIABLES:
        raise UserError(f"{where} has {len(value)} variables, more than {MOST_VARIABLES}")
    for name, text in value.items():
        try:
            VariableName(name)
        except UnfitError:
            raise UserError(f"{where}: {name!r} is not a variable's name") from None
        if isinstance(text, bool) or not isinstance(text, str | int):
            nested = isinstance(text, dict | list)  # which may hold secrets
            value = value_text(text) if nested else json.dumps(text)
            raise UserError(
                f"{where}: {name} is {value}, not text; quote it, so that processes see what you"
                " wrote"
            )
        if "\0" in str(text):
            raise UserError(f"{where}: {name} holds a NUL character, which no variable can")
    return {str(name): str(text) for name, text in value.items()}
