"""What the runs ran on: what all nodes and cells share, and what differs between them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from node.printable import printable
from runner.base.text import listing
from runner.figures.measured_cell import MeasuredCell
from runner.tables.formatting import MISSING, value_text
from runner.terms.record import Record


def environment_section(records: Iterable[Record]) -> dict[str, Any]:
    """Sum up what the runs ran on, from the records' `environment` (any nesting of mappings).

    A mapping `nodes` or `hosts` ({host: facts}, or a list of facts with a `host`) is divided
    into what all nodes share and what differs between them; everything else into what all cells
    share and what differs between cells. Keys of nested mappings are joined with " / ".
    """
    cells: dict[str, dict[str, str]] = {}
    nodes: dict[str, dict[str, str]] = {}
    for record in records:
        run_facts, by_host = _facts(record)
        for host, facts in by_host.items():
            nodes.setdefault(host, {}).update(facts)
        if run_facts:
            cells.setdefault(record.cell, {}).update(run_facts)
    same, differs = _told_apart(cells, missing_differs=False)
    node_same, node_differs = _told_apart(nodes, missing_differs=True)
    return {
        "nodes": list(nodes),
        "same": same,
        "differs": differs,
        "node_same": node_same,
        "node_differs": node_differs,
    }


def own_facts(table: Iterable[MeasuredCell]) -> list[list[tuple[str, str]]]:
    """Return, a row at a time, what of its environment not all rows share.

    Of its nodes, behind their names, what is not as on most of all nodes.
    """
    rows = list(table)
    cells: list[dict[str, str]] = []
    nodes: dict[str, dict[str, str]] = {}
    for row in rows:
        facts, by_host = _facts(row.record)
        cells.append(facts)
        nodes |= by_host
    by_row = {str(at): facts for at, facts in enumerate(cells)}
    differs = {key for key, _ in _told_apart(by_row, missing_differs=False)[1]}
    usual = {
        key: value
        for key in dict.fromkeys(key for facts in nodes.values() for key in facts)
        if (value := _usual([facts.get(key, MISSING) for facts in nodes.values()])) is not None
    }
    return [
        [
            *((key, value) for key, value in facts.items() if key in differs),
            *(
                (f"{printable(host)}: {key}", value)
                for host in row.record.hosts
                for key, value in nodes.get(host, {}).items()
                if usual.get(key) != value
            ),
        ]
        for row, facts in zip(rows, cells, strict=True)
    ]


def _usual(values: Sequence[str]) -> str | None:
    """Return what most have; None where as many have something else."""
    (most_common, count), *runners_up = Counter(values).most_common(2)
    return None if runners_up and runners_up[0][1] == count else most_common


def _facts(record: Record) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Return a record's environment as flat facts: of the run, and of each host."""
    run_facts: dict[str, str] = {}
    nodes: dict[str, dict[str, str]] = {}
    for name, value in record.environment.items():
        if name in ("nodes", "hosts") and (by_host := _by_host(value)):
            for host, facts in by_host.items():
                flat = {key: fact for key, fact in _flat(facts).items() if fact != host}
                nodes.setdefault(host, {}).update(flat)
        else:
            run_facts |= _flat({name: value})
    return run_facts, nodes


def _by_host(value: Any) -> dict[str, Mapping[str, Any]]:
    if isinstance(value, Mapping):
        if all(isinstance(facts, Mapping) for facts in value.values()):
            return {str(host): facts for host, facts in value.items()}
        return {}
    if isinstance(value, list | tuple) and all(isinstance(facts, Mapping) for facts in value):
        names = [str(f.get("host") or f.get("hostname") or "") for f in value]
        return dict(zip(names, value, strict=True)) if all(names) else {}
    return {}


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Flatten {"a": {"b": 1}} to {"a / b": "1"}; None and empty values are left out."""
    flat: dict[str, str] = {}
    for key, item in value.items():
        name = f"{prefix}{key}"
        if isinstance(item, Mapping):
            flat |= _flat(item, f"{name} / ")
        elif item is not None and (text := value_text(item)) not in ("", "[]"):
            flat[name] = text
    return flat


def _told_apart(
    owners: Mapping[str, Mapping[str, str]], *, missing_differs: bool
) -> tuple[list[tuple[str, str]], list[tuple[str, list[tuple[str, str]]]]]:
    """Return ([(key, value)] that all share, [(key, [(value, the owners)])] that differs)."""
    same, differs = [], []
    for key in dict.fromkeys(key for facts in owners.values() for key in facts):
        by_value: dict[str, list[str]] = {}
        for owner, facts in owners.items():
            if key in facts or missing_differs:
                by_value.setdefault(facts.get(key, MISSING), []).append(owner)
        if len(by_value) == 1:
            same.append((key, next(iter(by_value))))
        else:
            whose = {value: printable(listing(names, 6)) for value, names in by_value.items()}
            differs.append((key, list(whose.items())))
    return same, differs


def facts_as_text(section: Mapping[str, Any]) -> dict[str, str]:
    """Write an environment section as key to text; what differs is told with whose it is."""
    texts = {"nodes": ", ".join(map(printable, section["nodes"]))} if section["nodes"] else {}
    for prefix, same, differs in (
        ("", section["same"], section["differs"]),
        ("node ", section["node_same"], section["node_differs"]),
    ):
        texts |= {f"{prefix}{key}": value for key, value in same}
        for key, values in differs:
            texts[f"{prefix}{key}"] = "; ".join(f"{value} ({owners})" for value, owners in values)
    return texts
