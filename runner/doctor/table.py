"""The table in which the odd node stands out, for a terminal and for a log. Pure.

One row an item that is not the same everywhere. Few nodes have a column each; many are grouped by
what they have, so that 64 nodes fit: `61 nodes: 535.1 | node7, node9: 530.2`.
"""

from collections.abc import Iterable, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from node.printable import printable
from runner.base.console import one_line
from runner.base.escapes import TerminalLine
from runner.base.grid import ruled
from runner.doctor.differences import ItemDifference, short
from runner.doctor.items import SPOILS

STYLES = {SPOILS: "bold red"}
ODD = "yellow"
NARROWEST = 14  # letters a node's column needs to be read


def differences_table(
    differences: Sequence[ItemDifference], hosts: Sequence[str], width: int
) -> Table:
    """Lay the rows out as a table: a column a node where they fit, else two of groups."""
    if len(hosts) * NARROWEST + 40 <= width:
        headers = ["item", "means", *hosts]
        rows = [(*_head(row), *(_cell(row, host) for host in hosts)) for row in differences]
        return ruled(headers, rows, whole=2)
    grouped = [(*_head(row), _most(row, hosts), _others(row, hosts)) for row in differences]
    return ruled(["item", "means", "most", "others"], grouped, whole=2)


def _head(row: ItemDifference) -> tuple[Text, Text]:
    return one_line(row.item), one_line(row.severity, STYLES.get(row.severity, ""))


def _cell(row: ItemDifference, host: str) -> Text:
    """Show a node's value; the odd one is marked with a star, for where there is no colour."""
    if host not in row.odd:
        return one_line(row.values[host])
    return one_line(f"{row.values[host]} *", STYLES.get(row.severity, ODD))


def _most(row: ItemDifference, hosts: Sequence[str]) -> Text:
    rest = [host for host in hosts if host not in row.odd]
    if not rest:
        return one_line(row.usual or "no majority")
    return one_line(f"{_count(rest)}: {row.usual or row.values[rest[0]]}")


def _others(row: ItemDifference, hosts: Sequence[str]) -> Text:
    groups: dict[str, list[str]] = {}
    for host in hosts:
        if host in row.odd:
            groups.setdefault(row.values[host], []).append(host)
    lines = [TerminalLine(f"{short(group)}: {value}") for value, group in groups.items()]
    return Text("\n".join(lines), STYLES.get(row.severity, ODD))


def _count(hosts: Sequence[str]) -> str:
    return short(hosts) if len(hosts) <= 2 else f"{len(hosts)} nodes"


def failure_lines(failures: Mapping[str, Iterable[Mapping[str, str]]]) -> list[Text]:
    """Show what the roles' verify entries said, whole: equal words of several nodes once."""
    groups: dict[tuple[str, str], list[str]] = {}
    for host, entries in failures.items():
        for entry in entries:
            groups.setdefault((entry["role"], entry["message"]), []).append(host)
    lines = []
    for (role, message), hosts in groups.items():
        message_lines = [printable(line) for line in message.splitlines() if line.strip()]
        head = one_line(f"{short(hosts)}: {role}: ", STYLES[SPOILS])
        lines.append(head.append("\n    ".join(message_lines), "default"))
    return lines
