"""stub"""

from dataclasses import dataclass
from collections.abc import Sequence
from pathlib import Path


@dataclass(frozen=True)
class Verdict:
    status: str
    sentence: str


def diagnose(paths: Sequence[Path], kind: str | None, *, steps: int) -> Verdict:
    return Verdict("ok" if steps else "no_step", "" if steps else "the log has no step")
