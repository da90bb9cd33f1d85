"""What a row of the results opens to: verdict, runs, differences, commands, logs. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from node.printable import printable
from runner.base.clock import ZONE, day, second
from runner.base.escapes import ShellWord
from runner.base.text import listing
from runner.figures.measured_cell import MeasuredCell
from runner.figures.publishable import CODES
from runner.report.links import href
from runner.tables.environment_facts import own_facts
from runner.tables.formatting import MISSING, number_text
from runner.tables.row import Row
from runner.terms.record import Record
from runner.terms.run_evidence import Evidence, Evidences, NodeEvidence, NodeLog

TAILS_LETTERS = 130_000  # of all logs' ends that stand in a page as they are
MOST_TAIL, LEAST_TAIL = 9_000, 600  # letters of one of them
MOST_LINKS = 64  # logs of a run that are named
KEPT = ("HOME", "USER", "LANG")  # of the node's own variables; launch.sh has all that are kept
MOST_WRITTEN_OUT = 2  # nodes of a run whose commands are
_NEXT = " \\\n  "
_UNITS = ("bytes", "KiB", "MiB", "GiB")


def details(
    cells: Sequence[MeasuredCell],
    table: Sequence[Row],
    evidence: Evidences,
    inside: Mapping[str, int],
) -> list[dict[str, Any]]:
    """Return the details of each row, in their order.

    `inside` has the logs that are in the page, by their links, to the number of each.
    """
    runs = max(1, sum(len(cell.records) for cell in cells))
    letters = max(LEAST_TAIL, min(MOST_TAIL, TAILS_LETTERS // runs))
    variables = _own_variables(cells, evidence)
    facts = own_facts(cells)
    ids = anchors(table)
    return [
        {
            "id": ids[at],
            "cell": printable(row["cell"]),
            "verdict": _verdict(row),
            "runs": _runs(cell, evidence, inside),
            "differs": [*variables[at], *facts[at]],
            "alone": len(table) == 1,
            **_commands(cell, evidence),
            "tails": _tails(cell, evidence, letters),
        }
        for at, (cell, row) in enumerate(zip(cells, table, strict=True))
    ]


def anchors(table: Sequence[Row]) -> list[str]:
    """Return what each row is called in an address: `cell-` and its cell's id, each once."""
    names: list[str] = []
    for row in table:
        name = anchor(row["cell_id"])
        names.append(f"{name}.{len(names)}" if name in names else name)
    return names


def anchor(cell_id: str) -> str:
    """Return what the row of a cell is called in an address."""
    return "cell-" + re.sub(r"[^A-Za-z0-9._=+,-]", "_", cell_id)


def _verdict(row: Row) -> list[dict[str, str]]:
    return [
        {"code": word, "why": printable(why), "cure": CODES[word].cure}
        for word, why in row["verdict_reasons"].items()
    ]


def _of(record: Record, evidence: Evidences) -> Evidence | None:
    return evidence.get((record.cell_id, record.repeat))


def _runs(
    cell: MeasuredCell, evidence: Evidences, inside: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return each repeat: how it ended, its own rate, when and where it ran, its logs."""
    counted = cell.statistics.runs
    summary = cell.statistics.samples_per_s
    rates = dict(zip(map(id, counted), summary.runs if summary else (), strict=False))
    runs = []
    for record in cell.records:
        run_evidence, rate = _of(record, evidence), rates.get(id(record))
        runs.append(
            {
                "repeat": record.repeat,
                "attempt": record.attempt,
                "status": record.status,
                "reason": printable(record.reason),
                "rate": number_text(rate),
                "counted": record in counted,
                "began": _clock(record.began),
                "took": f"{record.wall_s:.0f} s" if record.wall_s else MISSING,
                "hosts": printable(listing(record.hosts, 8)),
                "logs": _logs(record, run_evidence, inside),
                "traces": _traces(run_evidence) if run_evidence else [],
                "script": href(run_evidence.href(run_evidence.script))
                if run_evidence and run_evidence.script
                else None,
            }
        )
    return runs


def _clock(at: float | None) -> str:
    return f"{day(at)} {second(at)} {ZONE}" if at else MISSING


def _logs(
    record: Record, evidence: Evidence | None, inside: Mapping[str, int]
) -> list[dict[str, Any]]:
    if evidence is None:
        return [_log_link("log", record.log, None, inside)] if record.log else []
    return [
        _log_link(node.host, evidence.href(node.log.path), node.log, inside)
        for node in evidence.nodes[:MOST_LINKS]
    ]


def _traces(evidence: Evidence) -> list[dict[str, str | None]]:
    """Return the links to the traces of a profiler."""
    paths = [path for node in evidence.nodes for path in node.traces]
    return [
        {"href": href(evidence.href(path)), "name": printable(path)} for path in paths[:MOST_LINKS]
    ]


def _log_link(
    host: str, path: str, log: NodeLog | None, inside: Mapping[str, int]
) -> dict[str, Any]:
    return {
        "host": printable(host),
        "href": None if log and log.missing else href(path),
        "size": "" if log is None or log.bytes is None else bytes_text(log.bytes),
        "missing": log.missing if log else "",
        "inside": inside.get(path),
    }


def bytes_text(count: int) -> str:
    """Write `312 bytes`, `12 KiB`, `3.4 MiB`."""
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.{0 if unit == 0 or size >= 10 else 1}f} {_UNITS[unit]}"


def _commands(cell: MeasuredCell, evidence: Evidences) -> dict[str, Any]:
    """Return the commands of the run that describes the cell, and why it is missing."""
    run_evidence = _of(cell.record, evidence)
    several = len(cell.records) > 1
    if run_evidence is None:
        return {"commands": [], "command_of": "", "no_command": "it has not run"}
    return {
        "commands": [] if run_evidence.missing else commands(run_evidence),
        "command_of": f" of repeat {run_evidence.repeat}" if several else "",
        "no_command": run_evidence.missing,
    }


def commands(evidence: Evidence) -> list[dict[str, object]]:
    """Return each node's part: its title, its text, a note; of many nodes the first has a text."""
    first = next((node for node in evidence.nodes if node.commands), None)
    many = len(evidence.nodes) > MOST_WRITTEN_OUT
    parts: list[dict[str, object]] = []
    for node in evidence.nodes:
        as_first = many and first is not None and node is not first and bool(node.commands)
        parts.append(
            {
                "title": f"{node.host} (node rank {node.rank})",
                "text": "" if as_first else shell_text(node, evidence.secrets),
                "files": node.files,
                "step": " ".join(map(ShellWord, node.step)),
                "note": f"like {first.host}'s, for its own rank"
                if as_first and first
                else node.note,
            }
        )
    return parts


def shell_text(node: NodeEvidence, secrets: Sequence[str]) -> str:
    """Write a node's commands with their folder and variables; empty where it starts nothing.

    Names in `secrets` stand for values that the shell is to have: no file holds them.
    """
    if not node.commands:
        return ""
    inherited = [f'{name}="${name}"' for name in (*KEPT, *secrets)]
    variables = [ShellWord(f"{name}={value}") for name, value in node.env.items()]
    begin = f"cd {ShellWord(node.cwd)} &&{_NEXT}env -i {' '.join(inherited)}"
    several = " &" if len(node.commands) > 1 else ""
    return "\n".join(
        _NEXT.join([begin, *variables, *_lines(argv)]) + several for argv in node.commands
    )


def _lines(argv: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command, each option with its values on a line of its own."""
    line: list[str] = []
    for word in argv:
        if word.startswith("-") and line:
            yield " ".join(line)
            line = []
        line.append(ShellWord(word))
    yield " ".join(line)


def _tails(cell: MeasuredCell, evidence: Evidences, letters: int) -> list[dict[str, str]]:
    """Return the end of the log that tells most of each repeat, of `letters` at most."""
    tails = []
    for record in cell.records:
        run_evidence = _of(record, evidence)
        node = _telling(record, run_evidence) if run_evidence else None
        if node is None or not node.log.tail:
            continue
        lines = _last_lines(node.log.tail, letters)
        whose = f"repeat {record.repeat}, {node.host}" if len(cell.records) > 1 else node.host
        tails.append({"title": printable(whose), "text": "\n".join(lines)})
    return tails


def _telling(record: Record, evidence: Evidence) -> NodeEvidence | None:
    """Return the node whose log the record names, else the first with a log."""
    nodes = (node for node in evidence.nodes if evidence.href(node.log.path) == record.log)
    return next(nodes, None) or next((node for node in evidence.nodes if node.log.tail), None)


def _last_lines(lines: Sequence[str], letters: int) -> list[str]:
    tail: list[str] = []
    for line in reversed(lines):
        letters -= len(line) + 1
        if letters < 0 and tail:
            break
        tail.append(line)
    return tail[::-1]


def _own_variables(
    cells: Sequence[MeasuredCell], evidence: Evidences
) -> list[list[tuple[str, str]]]:
    """Return each row's variables that not all cells with a command set to the same value."""
    node_variables: list[dict[str, str]] = []
    for cell in cells:
        run_evidence = _of(cell.record, evidence)
        nodes = [node for node in (run_evidence.nodes if run_evidence else ()) if node.commands]
        values: dict[str, dict[str, None]] = {}
        for node in nodes:
            for name, value in node.env.items():
                values.setdefault(name, {})[value] = None
        node_variables.append({name: " | ".join(several) for name, several in values.items()})
    non_empty = [variables for variables in node_variables if variables]
    shared = set(non_empty[0].items()) if non_empty else set()
    for variables in non_empty[1:]:
        shared &= variables.items()
    return [
        [(name, value) for name, value in variables.items() if (name, value) not in shared]
        for variables in node_variables
    ]
