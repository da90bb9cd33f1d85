"""Doctor's tables, for a terminal and for a log: where the odd node stands out, and how fast. Pure.

Of what differs one row an item that is not the same everywhere. Few nodes have a column each; many
are grouped by what they have, so that 64 nodes fit: `61 nodes: 535.1 | node7, node9: 530.2`.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from node.printable import printable
from runner.base.console import one_line
from runner.base.escapes import TerminalLine
from runner.base.grid import filled, fits, ruled
from runner.doctor.differences import ItemDifference, short
from runner.doctor.items import SPOILS
from runner.doctor.judgement import Judgement
from runner.doctor.probe_tests import TESTS
from runner.doctor.slow_figures import ProbeResult, rounded

STYLES = {SPOILS: "bold red"}
ODD = "yellow"
NARROWEST = 14  # letters a node's column needs to be read

_TITLES = ("measured", "unit", "of", "reference", "lowest", "where", "noise", "")
_NUMBERS = frozenset(_TITLES) - {"measured", "where"}


def differences_table(
    differences: Sequence[ItemDifference], hosts: Sequence[str], width: int
) -> Table:
    """Lay the rows out as a table: a column a node where they fit, else two of groups."""
    if len(hosts) * NARROWEST + 40 <= width:
        headers = ["item", "means", *hosts]
        rows = [(*_head(row), *(_cell(row, host) for host in hosts)) for row in differences]
        return ruled(headers, rows, unbroken=2)
    grouped = [(*_head(row), _most(row, hosts), _deviating(row, hosts)) for row in differences]
    return ruled(["item", "means", "most", "others"], grouped, unbroken=2)


def _head(row: ItemDifference) -> tuple[Text, Text]:
    return one_line(row.item), one_line(row.severity, STYLES.get(row.severity, ""))


def _cell(row: ItemDifference, host: str) -> Text:
    """Show a node's value; the odd one is marked with a star, for where there is no colour."""
    if host not in row.odd:
        return one_line(row.values[host])
    return one_line(f"{row.values[host]} *", STYLES.get(row.severity, ODD))


def _most(row: ItemDifference, hosts: Sequence[str]) -> Text:
    usual_hosts = [host for host in hosts if host not in row.odd]
    if not usual_hosts:
        return one_line(row.usual or "no majority")
    return one_line(f"{_count(usual_hosts)}: {row.usual or row.values[usual_hosts[0]]}")


def _deviating(row: ItemDifference, hosts: Sequence[str]) -> Text:
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


def measured_parts(judgement: Judgement, width: int) -> list[Table | Text | str]:
    """Show one row a test, the slow ones by name, and one line."""
    if judgement.reason:
        return [one_line(f"devices and network: no result: {judgement.reason}", "yellow")]
    rows = [_cells(row) for row in judgement.rows]
    texts = [[str(text) for text in row] for row in rows]
    parts: list[Table | Text | str] = (
        [ruled(_TITLES, rows, unbroken=len(_TITLES), right=_NUMBERS)]
        if fits(_TITLES, texts, width)
        else [filled(_sentence(row), width) for row in texts]
    )
    reasons: dict[str, list[str]] = {}
    for row in judgement.rows:
        if row.reason:
            reasons.setdefault(row.reason, []).append(row.name)
    for reason, names in reasons.items():
        of = "" if len(names) == len(judgement.rows) else f" of {', '.join(names)}"
        parts.append(one_line(f"no result{of}: {reason}", "yellow"))
    parts += [one_line(f"slow: {part.words}", "bold red") for part in judgement.slow]
    parts += [one_line(f"note: {note}") for note in judgement.notes]
    if not any(row.figures for row in judgement.rows):
        parts.append(one_line(f"nothing could be measured with {judgement.torch}", "yellow"))
    elif not judgement.slow:
        result = "nothing slow" if not judgement.unanswered else "nothing slow in what was measured"
        if all(row.reason for row in judgement.rows):
            result = "nothing can be told from it"
        took = f"measured in {judgement.took_s:.0f} s with {judgement.torch}"
        parts.append(one_line(f"{took}: {result}"))
    return parts


def _sentence(row: Sequence[str]) -> str:
    """Write `matrix product bf16: 0.438 TFLOP/s, lowest 0.353 (-19.6%) localhost device 0, ...`."""
    name, unit, of, reference, lowest, where, noise, result = row
    if not reference:
        return f"{name}: {result}"
    parts = [f"{name}: {reference} {unit} of {of}"]
    parts += [f"lowest {lowest} {where}"] if lowest != reference else []
    parts += [f"noise {noise}", result]
    return ", ".join(filter(None, parts))


def _cells(row: ProbeResult) -> list[str | Text]:
    name, unit = TESTS[row.test]
    if not row.figures:
        return [name, unit, "0", "", "", "", "", "no result"]
    lowest = min(row.figures, key=row.value)
    result = "slow" if row.slow else "alike" if len(row.figures) > 1 else ""
    noise = statistics.median(figure.noise for figure in row.figures)
    assert row.reference is not None
    value = row.value(lowest)
    less = f" ({value / row.reference - 1:+.1%})" if len(row.figures) > 1 else ""
    where = lowest.label if row.test != "all" else f"{len(lowest.nodes)} nodes"
    return [
        name,
        unit,
        str(len(row.figures)),
        rounded(row.reference),
        f"{rounded(value)}{less}",
        where,
        f"{noise:.1%}",
        one_line("no result" if row.reason else result, "bold red" if row.slow else ""),
    ]
