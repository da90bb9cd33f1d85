"""What the samples of a large run say, kept in this user's cache, so that they are read once.

An entry's name is a checksum of all that it was made of: of each file its path, size, time of the
last change, first and last 4 KiB; the counted steps; the programs that read. So a changed file, or
another version, makes another entry. Entries that were not used for a month are removed.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from node.files import open_plain
from runner.base.exclusive import make_private
from runner.base.files import atomic_file
from runner.folder import names
from runner.load.over_time import Curve, NodeCurves
from runner.terms.record import Energy, FirstStep, Telemetry, Thermals

LARGE_BYTES = 32 << 20  # of samples: 20 nodes for ten minutes, read in half a second
EDGE_BYTES = 4096
RATIO = 6  # of samples, to their archive
KEPT_S = 30 * 86_400.0


@dataclass(frozen=True)
class SamplesSummary:
    """What a run's samples, logs and polls say together; None: nothing."""

    energy: Energy | None = None
    thermals: Thermals | None = None
    telemetry: Telemetry | None = None
    memory_used_mib: float | None = None
    utilisation_percent: float | None = None
    first_step: FirstStep | None = None
    curves: Mapping[int, NodeCurves] = field(default_factory=dict)  # by node rank


def cached_summary(
    files: Iterable[Path], about: Mapping[str, Any], make: Callable[[], SamplesSummary]
) -> SamplesSummary:
    """Return what `make` makes of these files, or made of them before; small ones are always read.

    `about` is what else it depends on, as JSON.
    """
    signatures, size = _signatures(files)
    if size < LARGE_BYTES:
        return make()
    key = json.dumps([_programs(), signatures, about], sort_keys=True, default=repr)
    entry = _folder() / f"{hashlib.sha256(key.encode()).hexdigest()}.npz"
    try:
        with open_plain(entry) as stream:
            summary = _read(stream)
        os.utime(entry)
        return summary
    except (OSError, EOFError, BadZipFile, ValueError, KeyError, TypeError):
        pass  # there is none yet, or it is damaged
    summary = make()
    try:
        make_private(entry.parent)
        with atomic_file(entry, 0o600) as stream:
            _write(stream, summary)
        _forget_old(entry.parent)
    except OSError:
        pass  # the next look reads the samples again
    return summary


def _folder() -> Path:
    cached = os.environ.get("XDG_CACHE_HOME")
    return (Path(cached) if cached else Path.home() / ".cache") / "trainbench" / "samples"


def _signatures(files: Iterable[Path]) -> tuple[list[list[Any]], int]:
    """Return what tells each file from another version of it, and the bytes of all."""
    signatures: list[list[Any]] = []
    total = 0
    for path in files:
        try:
            with open_plain(path) as stream:
                facts = os.fstat(stream.fileno())
                edges = stream.read(EDGE_BYTES)
                if facts.st_size > EDGE_BYTES:
                    stream.seek(-EDGE_BYTES, os.SEEK_END)
                    edges += stream.read(EDGE_BYTES)
        except OSError:
            signatures.append([str(path)])
            continue
        checksum = hashlib.sha256(edges).hexdigest()
        signatures.append([str(path), facts.st_size, facts.st_mtime_ns, checksum])
        total += facts.st_size * (RATIO if path.name == names.PACKED else 1)
    return signatures, total


@cache
def _programs() -> str:
    """Return a checksum of the modules that read samples."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def _write(stream: Any, summary: SamplesSummary) -> None:
    figures = {name: value for name, value in asdict(summary).items() if name != "curves"}
    arrays: dict[str, NDArray[Any]] = {
        "figures": np.frombuffer(json.dumps(figures).encode(), dtype=np.uint8)
    }
    for number, quantity in enumerate(NodeCurves._fields):
        curves_by_rank = [(rank, curves[number]) for rank, curves in sorted(summary.curves.items())]
        arrays[f"{quantity}_ranks"] = np.array(
            [[rank, len(curve)] for rank, curve in curves_by_rank]
        )
        points = [point for _, curve in curves_by_rank for point in curve]
        arrays[quantity] = np.array(points, dtype=np.float64).reshape(-1, 2)
    np.savez(stream, allow_pickle=False, **arrays)


def _read(stream: Any) -> SamplesSummary:
    with np.load(stream, allow_pickle=False) as arrays:
        figures = json.loads(arrays["figures"].tobytes())
        curves: dict[int, dict[str, Curve]] = {}
        for quantity in NodeCurves._fields:
            points, at = arrays[quantity].tolist(), 0
            for rank, count in arrays[f"{quantity}_ranks"].tolist():
                curves.setdefault(rank, {})[quantity] = tuple(map(tuple, points[at : at + count]))
                at += count
    heat = figures["thermals"]
    if heat and heat["throttled"] is not None:
        heat["throttled"] = tuple(heat["throttled"])
    return SamplesSummary(
        Energy(**figures["energy"]) if figures["energy"] else None,
        Thermals(**heat) if heat else None,
        Telemetry(**figures["telemetry"]) if figures["telemetry"] else None,
        figures["memory_used_mib"],
        figures["utilisation_percent"],
        FirstStep(*figures["first_step"]) if figures["first_step"] else None,
        {rank: NodeCurves(**quantities) for rank, quantities in curves.items()},
    )


def _forget_old(folder: Path) -> None:
    for path in folder.glob("*.npz"):
        if path.stat().st_mtime < time.time() - KEPT_S:
            path.unlink(missing_ok=True)
