"""Whether an environment imports modules.

Its spec: modules. Refuses with a line for each that fails.
"""

import importlib

from node.answer import ProgramError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict


def imported(name: str, prefix: str = "import fails") -> "Any":
    """Import a module. Raises ProgramError: whatever it raises is why it cannot be used."""
    try:
        return importlib.import_module(name)
    except Exception as error:
        first_line = (str(error).splitlines() or [""])[0]
        raise ProgramError("%s: %s: %s" % (prefix, type(error).__name__, first_line)) from None


def check(spec: "Dict[str, Any]") -> "Dict[str, Any]":
    """Import each. Raises ProgramError with those that fail."""
    bad = []
    for name in spec["modules"]:
        try:
            imported(name, "import %s fails" % name)
        except ProgramError as error:
            bad.append(str(error))
    if bad:
        raise ProgramError("\n".join(bad))
    return {}
