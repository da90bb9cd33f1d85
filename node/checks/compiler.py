"""Whether torch.compile finds a compiler and headers where an environment's own Python runs.

Its spec: device, and variables (those of every run that name a compiler).
"""

from node.answer import ProgramError
from node.toolchain import lacking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict


def check(spec: "Dict[str, Any]") -> "Dict[str, Any]":
    """Look for both. Raises ProgramError with what is not there."""
    words = lacking(spec["device"], spec["variables"])
    if words:
        raise ProgramError(words)
    return {}
