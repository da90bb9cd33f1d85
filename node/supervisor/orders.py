"""The orders of a run on a shared folder, so that a node of thousands reads its own part alone.

run.json is some kilobytes for each node: read whole by every node, that would grow with the square
of their number. The file `orders` has the same, once more: a line that says how long the others
are, a line of what holds for all nodes, and a line for each node.
"""

from __future__ import annotations

import json
import os

from node.files import write_bytes

from .files import read_json
from .names import ORDERS, RUN

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any

SIZES = 100  # bytes of the first line


def leave(folder: str) -> None:
    """Write the orders of the run.json in a folder, where there is one."""
    run = read_json(os.path.join(folder, RUN))
    if run is None:
        return
    nodes = run.pop("nodes")
    common = _line(run)
    lines = [_line(node) for node in nodes]
    width = max(map(len, lines))
    sizes = _line({"common": len(common), "width": width, "nodes": len(nodes)})
    text = b"".join([_wide(sizes, SIZES), common, *(_wide(line, width) for line in lines)])
    write_bytes(os.path.join(folder, ORDERS), text, mode=0o600)


def read(folder: str, rank: int) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Return what holds for all nodes, one node's part, and how many nodes there are.

    Raises OSError, ValueError where that cannot be read.
    """
    try:
        stream = open(os.path.join(folder, ORDERS), "rb")
    except FileNotFoundError:  # of a version without it
        run = read_json(os.path.join(folder, RUN))
        return run, run["nodes"][rank], len(run["nodes"])
    with stream:
        sizes = json.loads(stream.read(SIZES))
        common = json.loads(stream.read(sizes["common"]))
        stream.seek(rank * sizes["width"], os.SEEK_CUR)
        return common, json.loads(stream.read(sizes["width"])), sizes["nodes"]


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode() + b"\n"


def _wide(line: bytes, width: int) -> bytes:
    return line[:-1].ljust(width - 1) + b"\n"
