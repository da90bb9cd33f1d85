"""The pin sets that an inventory declares for system command: the runner needs their names."""

from typing import Any

from node.validated_text import FileName
from runner.base.errors import UserError


def declared_pins(value: Any, where: str) -> tuple[str, ...]:
    """Return the names in `command_pins`. Raises UserError, or UnfitError for a name."""
    if value is not None and not isinstance(value, dict):
        raise UserError(f"{where}: command_pins must map names of pin sets to what they are")
    return tuple(FileName(name, f"{where}: a name in command_pins") for name in value or {})
