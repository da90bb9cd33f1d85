"""Node ranks by switch: nodes of one leaf switch have ranks in a row, so that rings stay within it.

Slurm counts a job's nodes by their names. Each node of a run works out the same order by itself, of
the job's list of nodes and of what bench wrote down about the cluster's switches.
"""

from __future__ import annotations

import os
import re
from itertools import product

from node.visibility import fresh

from .files import read_json

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any, Sequence

NODE_LISTS = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")
_PART = re.compile(r"\[([0-9,-]{1,100000})\]|([^\[\],]+)")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
MOST = 100_000  # hosts of a list


def expand(nodes: str) -> list[str]:
    """Return the hosts of Slurm's list, such as `a[1-3,07],b` or `rack[0-1]n[1-4]`, in its order.

    Raises ValueError for any other text.
    """
    hosts: list[str] = []
    host_ranges = re.findall(r"(?:\[[^\]]*\]|[^,\[])+", nodes)
    if ",".join(host_ranges) != nodes:
        raise ValueError("%r is not a list of nodes" % nodes[:100])
    for word in host_ranges:
        parts = []
        at = 0
        for match in _PART.finditer(word):
            if match.start() != at:
                break
            at = match.end()
            parts.append([match[2]] if match[2] else _numbers(match[1]))
        if at != len(word):
            raise ValueError("%r is not a list of nodes" % nodes[:100])
        hosts += ["".join(combination) for combination in product(*parts)]
        if len(hosts) > MOST:
            raise ValueError("%r has more than %d nodes" % (nodes[:100], MOST))
    return hosts


def _numbers(text: str) -> list[str]:
    numbers: list[str] = []
    for word in text.split(","):
        match = _RANGE.fullmatch(word)
        if match is None:
            raise ValueError("%r is not a range of nodes" % text[:100])
        low, high = match[1], match[2] or match[1]
        if int(high) - int(low) > MOST:
            raise ValueError("%r has more than %d nodes" % (text[:100], MOST))
        width = len(low)
        numbers += ["%0*d" % (width, number) for number in range(int(low), int(high) + 1)]
    return numbers


def by_switch(hosts: Sequence[str], leaves: Sequence[Sequence[str]]) -> list[str]:
    """Order hosts by their leaf switch, each switch's as they are; unknown ones come last."""
    leaf_of = {host: number for number, leaf in enumerate(leaves) for host in leaf}
    return sorted(hosts, key=lambda host: leaf_of.get(host, len(leaves)))


def rank_of(host: str, nodeid: int, file: str, nodes: int) -> int:
    """Return the rank of this node, `host`, which Slurm counts as `nodeid` of so many.

    `file` has the hosts of each leaf switch; "" or one without several: Slurm's own order holds.
    """
    written: Any = read_json(file) if file and fresh(file) else None
    leaves = written.get("leaves") if isinstance(written, dict) else None
    listed = next((os.environ[name] for name in NODE_LISTS if name in os.environ), "")
    if not isinstance(leaves, list) or len(leaves) < 2:
        return nodeid
    try:
        hosts = expand(listed)
    except ValueError:
        return nodeid  # on all nodes of the run alike
    if len(hosts) != nodes or host not in hosts:
        return nodeid
    return by_switch(hosts, leaves).index(host)


def switch_here() -> str:
    """Return the switches above this node, as Slurm has them (`top.leaf0`); "" where it has none.

    SLURM_TOPOLOGY_ADDR ends in the node's own name.
    """
    return os.environ.get("SLURM_TOPOLOGY_ADDR", "").rpartition(".")[0]
