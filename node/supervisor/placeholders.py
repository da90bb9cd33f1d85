"""Words of a plan in place of what only a job knows: the addresses of its nodes, and its port.

The runner writes them into argv, values of variables and texts of files; a node's supervisor puts
the values in their place, as data.
"""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any

MASTER_ADDR = "{master_addr}"
MASTER_PORT = "{master_port}"
NODE_SWITCH = "{node_switch}"  # the switches above this node, if Slurm knows them
# Below Linux's ephemeral range (32768 and up), so that no outgoing connection takes one.
PORTS = range(20_000, 30_000)
WORD = re.compile(r"\{(?:master_addr|master_port|node_switch|node_addr_(\d+))\}")


def node_addr(rank: int) -> str:
    """Return the word for the address of the node of that rank."""
    return "{node_addr_%d}" % rank if rank else MASTER_ADDR


def needs_others(job: dict[str, Any]) -> bool:
    """Whether a node has to know of others than node rank 0."""
    fields = [job.get(key) for key in ("argv", "env", "after", "files", "processes")]
    return any(match[1] for match in WORD.finditer(json.dumps(fields)))


def filled(value: Any, placement: dict[str, Any]) -> Any:
    """Return a text, list or mapping with its words replaced; each is a value, and no template."""
    if isinstance(value, str):
        return WORD.sub(lambda match: word(match, placement), value)
    if isinstance(value, list):
        return [filled(item, placement) for item in value]
    return {key: filled(item, placement) for key, item in value.items()}


def word(match: re.Match[str], placement: dict[str, Any]) -> str:
    """Return what stands for one word."""
    if match[0] == MASTER_PORT:
        return str(placement["port"])
    if match[0] == NODE_SWITCH:
        return str(placement.get("switch_here", ""))
    return str(placement["address"][int(match[1] or 0)])
