"""Standard output and the one who reads it."""

import os
import sys


def nobody_reads() -> None:
    """Send what is left of our output nowhere, since whoever read it has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
