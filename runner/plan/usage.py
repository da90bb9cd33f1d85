"""How many devices of its nodes a campaign uses, and how many stay idle. Pure."""

from collections.abc import Iterable, Sequence

from runner.terms.cell import Cell
from runner.terms.cluster import Cluster

Usage = tuple[int, int]  # of one node: devices in use, and idle ones


def usage_of(cell: Cell, cluster: Cluster) -> list[Usage]:
    """Return what a cell uses of each of its nodes."""
    used = cell.devices_per_node
    return [(used, node.devices - used) for node in cluster.nodes[: cell.nodes]]


def uses(cells: Iterable[Cell], cluster: Cluster) -> str:
    """Say what a campaign uses of a cluster; see `in_words`."""
    return in_words([usage_of(cell, cluster) for cell in cells], len(cluster.nodes))


def in_words(cells: Sequence[Sequence[Usage]], nodes: int) -> str:
    """Say `uses 1 of 8 devices per node, 7 idle; 1 of 2 nodes, 1 idle`; `nodes` are all there are.

    Where cells or nodes differ it says a range, such as `1 to 8`.
    """
    usages = {usage for cell in cells for usage in cell}
    parts = [_share(usages, "devices per node")]
    if nodes > 1:
        parts.append(_share({(len(cell), nodes - len(cell)) for cell in cells}, "nodes"))
    return f"uses {'; '.join(parts)}"


def _share(usages: Iterable[Usage], unit: str) -> str:
    used = _range(used for used, _ in usages)
    share = f"{used} of {_range(used + idle for used, idle in usages)} {unit}"
    idle = _range(idle for _, idle in usages)
    return share if idle == "0" else f"{share}, {idle} idle"


def _range(numbers: Iterable[int]) -> str:
    ordered = sorted(numbers)
    least, most = ordered[0], ordered[-1]
    return str(most) if least == most else f"{least} to {most}"
