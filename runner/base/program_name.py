"""How this process was called: texts name commands as people can call them again."""

import sys
from pathlib import Path

MODULE = "python -m runner"
CALLED = "trainbench" if Path(sys.argv[0]).name == "trainbench" else MODULE


def as_called(text: str) -> str:
    """Return our text with the commands named as this process was called."""
    return text.replace(MODULE, CALLED)
