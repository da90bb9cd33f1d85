"""What a cell's checkpoints will take, beside the disk that was free when the nodes were asked.

Pure: bench hands over what the last inspection had (env.json, which verify writes). Before the
first one, and where checkpoints lie elsewhere than it looked, the bytes stand alone.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from runner.systems.common.checkpoint_keys import INTERVAL, KEEP, KEPT
from runner.systems.common.registry import load_system
from runner.terms.cell import Cell
from runner.terms.inspected import ENV, Inspected
from runner.terms.run import Run

UNKNOWN = "nobody knows the size of this trainer's"
NOT_ASKED = "no node was asked yet how much disk is free"
ELSEWHERE = "how much is free there was not asked"


def checkpoint_room(run: Run, inspected: Mapping[str, Inspected]) -> dict[str, Any] | None:
    """Estimate a run's checkpoints, and find what is free for them: by host, in MiB.

    `bytes` is one's, over all nodes, `at_once` how many there are before the oldest is removed.
    None for a cell that saves none.
    """
    cell = run.cell
    if run.chain is None or not cell.parameters.get(INTERVAL.name):
        return None
    size = load_system(cell.system).checkpoint_bytes
    free = dict(_free(run, inspected))
    why = NOT_ASKED if not inspected else "" if free else ELSEWHERE
    return {
        "bytes": None if size is None else round(size(cell.parameters)),
        "at_once": _at_once(cell),
        "free_mib": free,
        "missing": why if size else UNKNOWN,
    }


def _at_once(cell: Cell) -> int:
    """Return how many are there at once: those that stay and the one that is being written.

    A trainer without `checkpoint_keep` keeps all.
    """
    values = cell.parameters
    iterations, interval = values.get("train_iters"), values[INTERVAL.name]
    most = (values[KEEP.name] or KEPT) + 1 if KEEP.name in values else math.inf
    saves = max((iterations - 1) // interval, 1) if iterations else KEPT + 1
    return int(min(saves, most))


def _free(run: Run, inspected: Mapping[str, Inspected]) -> Iterator[tuple[str, int]]:
    """Yield each host's free MiB by its env.json, where that looked at the checkpoints' disk."""
    assert run.chain is not None
    folder = PurePosixPath(run.chain.folder)
    for node in run.nodes:
        facts = inspected[node.host].files.get(ENV) if node.host in inspected else None
        disk = facts.get("disk") if isinstance(facts, dict) else None
        if not isinstance(disk, dict) or not isinstance(disk.get("free_mib"), int):
            continue
        if folder.is_relative_to(str(disk.get("path") or "-")):
            yield node.host, disk["free_mib"]


def in_words(room: Mapping[str, Any]) -> Iterator[str]:
    """Say it in a line, and in another where it will not fit."""
    if room["bytes"] is None:
        yield f"  size of a checkpoint: {room['missing']}"
        return
    size, count = room["bytes"] / 2**20, room["at_once"]
    need = size * count
    text = f"  a checkpoint takes about {_mib(size)}, {count} at once {_mib(need)}"
    if not room["free_mib"]:
        yield f"{text}; {room['missing']}"
        return
    host, free = min(room["free_mib"].items(), key=lambda item: item[1])
    yield f"{text}; {_mib(free)} were free on {host} when it was last asked"
    if need > free:
        yield (
            f"  warning: {_mib(need)} of checkpoints do not fit on {host}; lower checkpoint_keep,"
            " or name a folder on a larger disk as cluster_checkpoints"
        )


def _mib(value: float) -> str:
    return f"{value:.1f} MiB" if value < 100 else f"{value:,.0f} MiB"
