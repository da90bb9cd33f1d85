"""Results of acceptances, a JSON line for each: what ended stays, and the same command goes on."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.conftest import ROOT

PATH = ROOT / "build/acceptance/results.jsonl"
CLEAN = "clean"


@dataclass(frozen=True)
class Result:
    """How one acceptance ended, with its figures."""

    kind: str
    repeat: int
    found: bool
    named: bool
    code: int
    took_s: float
    words: tuple[str, ...] = ()
    stages: Mapping[str, float] = field(default_factory=dict)
    tests: tuple[Any, ...] = ()


def load(path: Path = PATH) -> dict[tuple[str, int], Result]:
    """Return what is there, by kind and repeat; a line that was cut off is left out."""
    results = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            result = Result(**json.loads(line))
        except ValueError:
            continue
        results[result.kind, result.repeat] = result
    return results


def add(result: Result, path: Path = PATH) -> None:
    """Keep a result."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        stream.write(json.dumps(asdict(result)) + "\n")
