"""What this node is, left in a folder that it shares with the control node: a task of srun."""

from __future__ import annotations

import json
import os
import socket

from node.answer import ProgramError
from node.files import write_text

from .record import read

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any


def leave(spec: dict[str, Any]) -> str:
    """Write <folder>/<host>.json, also where there is nothing to say but why; return the host.

    `spec`: folder, what `facts.record:read` is told as `read`, and what the inventory expects of a
    node as `expected`. The host's name is Slurm's.
    """
    host = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    try:
        facts = read(dict(spec["read"], addresses=[host]))
        content: dict[str, Any] = {"env": facts, "expected": spec["expected"]}
    except (ProgramError, OSError, ValueError) as error:
        content = {"unreachable": str(error)}
    write_text(os.path.join(spec["folder"], host + ".json"), json.dumps(content))
    return host
