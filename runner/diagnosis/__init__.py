"""Why a run failed: the first cause, from all nodes' logs together, with its evidence.

A word such as `error` proves nothing: many logs print it and train on. Evidence is an uncaught
exception, a signal, or a launcher's, scheduler's or library's own line about the end, and it counts
only where no step and no success follow in that log. docs/parsers.md lists the statuses.
"""

import hashlib
from functools import cache
from pathlib import Path

from runner.diagnosis.causes import STATUSES
from runner.diagnosis.verdict import Verdict, diagnose

__all__ = ["STATUSES", "Verdict", "diagnose", "rules"]


@cache
def rules() -> str:
    """What identifies the rules of this version: a verdict by the same rules need not be redone."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
