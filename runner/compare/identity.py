"""Which cells of several campaigns are the same one: what a series is made of. Pure.

`compare` is told by a person that two campaigns belong together; so it pairs what has the same
parameters, then what is only named alike. Of many campaigns nobody says that, so the second is
narrower here. Two cells are the same one when these are:

- system, nodes, devices_per_node, and every parameter as it was resolved, the dataset's name with
  them, except the pin and the environment variables: those may change over time, and are shown
  where they did. A key whose values tell cells of the same campaign apart (an axis) does not;
- the kind of machine: the devices' name, or of nodes without devices their processors; of a run
  that never began, that of its campaign's others.

An import says of its parameters only whose log it is: its cells' names distinguish them, too.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from runner.base.escapes import plain
from runner.figures.measured_cell import MeasuredCell
from runner.tables.environment_facts import environment_section, facts_as_text
from runner.terms.record import Record

MAY_CHANGE = ("pin", "env")
UNKNOWN_MACHINE = "unknown machine"
MOST_LETTERS = 60  # of a name in a file's name, before its digest
_OF_ALL = ("campaign", "inventory")  # names that people give: no facts of a machine


def _cell_key(cell: MeasuredCell, machine: str, *, with_name: bool = False) -> str:
    """Return what tells a cell on a machine from others, as JSON; with its name or not."""
    record = cell.record
    parameters = {
        name: value
        for name, value in record.parameters.items()
        if name not in MAY_CHANGE or name in ("system", *record.axes)
    }
    identity = {
        "system": record.system,
        "machine": machine,
        "nodes": record.nodes,
        "devices_per_node": record.devices_per_node,
        "parameters": parameters,
        **({"cell": record.cell} if with_name else {}),
    }
    return json.dumps(plain(identity), sort_keys=True)


def _machine_of(record: Record) -> str:
    """Return the kind of machine that a run was on."""
    if record.device:
        return record.device
    nodes = _own_nodes(record)
    kinds = {
        f"{facts['cpu']}, {facts.get('cpu_count')} processors"
        for facts in nodes.values()
        if facts.get("cpu")
    }
    return "; ".join(sorted(kinds)) or UNKNOWN_MACHINE


def machines_of(cells: Sequence[MeasuredCell]) -> list[str]:
    """Return each cell's kind of machine. What never began has none of its own: where all others of
    the campaign have the same, it would have been that.
    """
    machines = [_machine_of(cell.record) for cell in cells]
    known_machines = {machine for machine in machines if machine != UNKNOWN_MACHINE}
    fallback = known_machines.pop() if len(known_machines) == 1 else UNKNOWN_MACHINE
    return [fallback if machine == UNKNOWN_MACHINE else machine for machine in machines]


def keys_of(cells: Sequence[MeasuredCell], machines: Sequence[str]) -> list[str]:
    """Return each cell's key; equal ones get their cells' names."""
    cells_on = list(zip(cells, machines, strict=True))
    count = Counter(_cell_key(*each) for each in cells_on)
    return [
        _cell_key(*each, with_name=each[0].record.imported or count[_cell_key(*each)] > 1)
        for each in cells_on
    ]


def facts_of(cell: MeasuredCell, *, names: bool = True) -> dict[str, str]:
    """Return what a cell's runs were made of and ran on, as text: its own nodes, pin and dataset.

    Without `names` no node is told from another.
    """
    records = [_of_own_run(record) for record in cell.records]
    facts = facts_as_text(environment_section(records))
    if not names:
        facts.pop("nodes", None)
    parameters = {key: cell.record.parameters.get(key) for key in MAY_CHANGE}
    env = parameters.pop("env") or {}
    more = {key: str(value) for key, value in parameters.items() if value is not None}
    if isinstance(env, Mapping):
        more |= {f"env / {name}": str(value) for name, value in env.items()}
    return {**more, **facts}


def safe_name(text: str, *told_by: str) -> str:
    """Return a name for files and addresses: safe letters, and a digest of what tells it apart."""
    digest = hashlib.sha256("\0".join(told_by).encode("utf-8", "replace")).hexdigest()[:8]
    letters = re.sub(r"[^A-Za-z0-9_=+,-]+", "_", text)[:MOST_LETTERS].strip("_-")
    return f"{letters}-{digest}" if letters else digest


def _own_nodes(record: Record) -> dict[str, Mapping[str, Any]]:
    nodes = record.environment.get("nodes") or {}
    used = {host: nodes[host] for host in record.hosts if host in nodes}
    return used or dict(nodes)


def _of_own_run(record: Record) -> Record:
    """Return the record with what its own run hangs on of what its campaign's runs do."""
    environment = {k: v for k, v in record.environment.items() if k not in _OF_ALL}
    if "nodes" in environment:
        environment["nodes"] = _own_nodes(record)
    prints = environment.get("fingerprints")
    if isinstance(prints, Mapping):
        prints_used = {name: prints[name] for name in record.fingerprinted if name in prints}
        kinds = [name.split(" ")[0] for name in prints_used]
        environment["fingerprints"] = {
            kind if kinds.count(kind) == 1 else name: value
            for kind, (name, value) in zip(kinds, prints_used.items(), strict=True)
        }
    return replace(record, environment=environment)
