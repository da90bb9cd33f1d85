"""Columns of which cell it is, how it ended, and what was asked for."""

from collections.abc import Sequence

from node.printable import printable
from runner.base.text import listing
from runner.tables.catalogue.column import Column
from runner.tables.formatting import MISSING, axis_text, initials
from runner.tables.judged import verdict_codes, verdict_text
from runner.tables.row import Row, axis_names, sizes_named
from runner.terms.record import DATA_PARALLEL

_BASIS = {"ok": "ok runs", "incomplete": "steps before the run ended", "none": None}
# Axes that already have a column of their own, as the parallel sizes have.
_SHOWN = {"system", "nodes", "devices_per_node", "micro_batch_size", "global_batch_size"}
_AXES_PLACE = 60


def _nodes(row: Row) -> str:
    return f"{row.record.nodes}x{row.record.devices_per_node}"


_ALWAYS = (DATA_PARALLEL, "tensor_parallel", "pipeline_parallel")


def _parallel(row: Row) -> str:
    """Show sizes behind the initials of their names: `dp4 tp2 pp1`, others where they split."""
    sizes = [
        f"{initials(name)}{size}"
        for name, size in row.record.parallel.items()
        if size > 1 or name in _ALWAYS
    ]
    return " ".join(sizes) or MISSING


def _batch(row: Row) -> str:
    sizes = (row.record.micro_batch_size, row.record.global_batch_size)
    return "/".join(MISSING if size is None else str(size) for size in sizes)


OUTCOME = (
    Column(
        "campaign",
        lambda r: r.record.campaign,
        "string",
        always=True,
        title="campaign",
        kind="setting",
        place=30,
        shown=lambda r: printable(r.record.campaign),
    ),
    Column(
        "cell",
        lambda r: r.cell,
        "string",
        always=True,
        title="cell",
        kind="name",
        place=10,
        shown=lambda r: printable(r.cell),
    ),
    Column("cell_id", lambda r: r.record.cell_id, "string", always=True),
    Column(
        "status",
        lambda r: r.status,
        "string",
        always=True,
        title="status",
        kind="name",
        place=20,
        worth=600,
        shown=lambda r: r.status,
    ),
    Column("reason", lambda r: r.reason or None, "string"),
    Column(
        "numbers_from",
        lambda r: _BASIS[r.statistics.basis],
        tuple(filter(None, _BASIS.values())),
    ),
    Column(
        "verdict",
        verdict_codes,
        "string",
        always=True,
        title="verdict",
        kind="setting",
        place=50,
        shown=verdict_text,
        logged=True,
    ),
)
# What was asked for; between the two stand the parallel sizes that a table's systems name.
DEVICES = (
    Column(
        "system",
        lambda r: r.record.system,
        "string",
        always=True,
        title="system",
        kind="setting",
        place=40,
        worth=260,
        shown=lambda r: printable(r.record.system),
    ),
    Column("nodes", lambda r: r.record.nodes, "integer", always=True),
    Column("devices_per_node", lambda r: r.record.devices_per_node, "integer", always=True),
    Column("devices", lambda r: r.record.world_size, "integer", always=True),
)
BATCH = (
    Column("micro_batch_size", lambda r: r.record.micro_batch_size, "integer"),
    Column("global_batch_size", lambda r: r.record.global_batch_size, "integer"),
    Column("activation_checkpointing", lambda r: r.record.activation_checkpointing, "boolean"),
)
# Several settings in one column, for people.
SHORT = (
    Column("nodes_x_devices", title="nodes x\ndevices", kind="setting", place=70, shown=_nodes),
    Column("parallel", title="parallel", kind="setting", place=90, worth=240, shown=_parallel),
    Column(
        "batch",
        title="batch\nmicro/\nglobal",
        kind="setting",
        place=110,
        worth=250,
        shown=_batch,
    ),
)


def sizes(table: Sequence[Row]) -> list[Column]:
    """Make a column of each parallel size that a system of the table names; others are 1."""
    return [size(name) for name in sizes_named(table)]


def size(name: str) -> Column:
    """Make the column of a parallel size."""
    return Column(name, lambda r: r.record.parallel_size(name), "integer", always=True)


def axes(table: Sequence[Row]) -> list[Column]:
    """Make a column of each axis that has none yet."""
    visible = _SHOWN | set(sizes_named(table))
    return [_axis(name) for name in axis_names(table) if name not in visible]


def _axis(name: str) -> Column:
    return Column(
        f"axis_{name}",
        title=printable(name).replace("_", "\n"),
        kind="setting",
        place=_AXES_PLACE,
        shown=lambda r: axis_text(r, name) or MISSING,
    )


def _nested(table: Sequence[Row]) -> bool:
    """Whether all runs had the nodes of the largest one, or some of them: nobody asks which."""
    host_sets = [set(hosts) for row in table for hosts in row.hosts]
    largest = max(host_sets, key=len, default=set())
    return all(hosts <= largest for hosts in host_sets)


def _hosts(row: Row) -> str:
    """Name the nodes; behind a semicolon those that another repeat had."""
    return "; ".join(printable(listing(hosts)) for hosts in row.hosts) or MISSING


def _ran_other(table: Sequence[Row]) -> bool:
    """Whether any row has an attention kernel other than its axis asks for."""
    rows = [row for row in table if row.record.attention]
    return any(row.axes.get("attention_backend") != row.record.attention for row in rows)


DEVICE = (
    Column(
        "device",
        lambda r: r.device or None,
        "string",
        title="device",
        kind="setting",
        place=800,
        worth=110,
        shown=lambda r: printable(r.device) or MISSING,
    ),
    Column(
        "hosts",
        lambda r: "; ".join(map(" ".join, r.hosts)) or None,
        "string",
        title="on",
        kind="setting",
        place=80,
        worth=75,
        shown=_hosts,
        people_if=lambda table: not _nested(table),
    ),
)
ATTENTION = (
    Column(
        "attention",
        lambda r: r.record.attention,
        "string",
        title="attention",
        kind="setting",
        place=100,
        worth=105,
        shown=lambda r: printable(r.record.attention or "") or MISSING,
        people_if=_ran_other,
    ),
)
