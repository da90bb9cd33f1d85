"""Tables as documents print them (docs/documents.md): 003's (osdi), 004's (ascend). Pure."""

from collections.abc import Iterator, Sequence

from node.printable import printable
from runner.matrix.published import PublishedRow, base_of
from runner.matrix.table_shape import TableShape
from runner.tables.columns import DOUBTFUL, signs
from runner.tables.entries import (
    PRINTED_OTHERWISE,
    Entry,
    deviation,
    difference_of,
    document_number,
    entries,
    split_by,
    title,
    with_difference,
)
from runner.tables.formatting import MISSING, value_text
from runner.tables.notes import of_losses, of_verdicts, of_warmup, problems
from runner.tables.row import Row, RowDifference, data_parallel
from runner.tables.sheet import Head, Line, Sheet, SheetCell

_STATUS = Head("status", "status", number=False)
_STEPS = Head("steps_measured", "steps measured")
_OSDI = (
    Head("date", "date", number=False),
    Head("test_num", "test_num", number=False),
    Head("test_desc", "test_desc", number=False),
    Head("layout", "xn_xg_xdp_xmp_xbs", number=False),
    Head("memory_used_mib", "gpu_mem (MiB)"),
    Head("utilisation_percent", "gpu_util (%)"),
    Head("samples_per_s", "throughput (samples/s)"),
    _STEPS,
    _STATUS,
)
_ASCEND = (
    Head("name", "NAME", number=False),
    Head("params", "params", number=False),
    Head("perplexity", "PPL"),
    Head("samples_per_s", "samples/s"),
    Head("seq_len", "seq_len"),
    Head("steps", "Steps"),
    _STEPS,
    _STATUS,
)
_SIZES = frozenset({"nodes", "devices_per_node", "micro_batch_size", "global_batch_size", "system"})


def osdi(
    table: Sequence[Row], published: Sequence[PublishedRow], layout: TableShape
) -> list[Sheet]:
    """Lay out document 003's tables: one a scale, memory and throughput with their differences."""
    listed = entries(table, published, layout.labels)
    keys = layout.split or ("nodes", "devices_per_node")
    return [
        _sheet(title(name, "all scales"), _OSDI, group, [_osdi(e, published) for e in group])
        for name, group in split_by(listed, keys).items()
    ]


def ascend(
    table: Sequence[Row], published: Sequence[PublishedRow], layout: TableShape
) -> list[Sheet]:
    """Lay out document 004's tables: models by name, ours and the competitors'."""
    listed = entries(table, published, layout.labels)
    return [
        _sheet(title(name, "all models"), _ASCEND, group, [_ascend(e) for e in group])
        for name, group in split_by(listed, layout.split or ("table",)).items()
    ]


def _osdi(entry: Entry, published: Sequence[PublishedRow]) -> Line:
    row = entry.row
    return _line(
        entry,
        {
            "date": _label(entry, "date", (row["figures"]["date"] or "") if row else ""),
            "test_num": _label(entry, "test_num", str(entry.number) if row else ""),
            "test_desc": _label(entry, "test_desc", _axes(row) if row else ""),
            "layout": _label(entry, "layout", _size(row) if row else ""),
            "memory_used_mib": _compared(entry, "memory_used_mib", published, 0),
            "utilisation_percent": _number(entry, "utilisation_percent", 0),
            "samples_per_s": _compared(entry, "samples_per_s", published, None),
        },
    )


def _ascend(entry: Entry) -> Line:
    row = entry.row
    model = row["model"] if row else None
    iterations = entry.value("train_iters") if row else entry.figure("steps")
    steps = float(iterations) if isinstance(iterations, int | float) else None
    length = _label(entry, "seq_len", str(model["shape"]["seq_length"]) if model else "")
    return _line(
        entry,
        {
            "name": _label(entry, "name", printable(row["cell"]) if row else ""),
            "params": _label(entry, "params", value_text(entry.value("model") or "")),
            "perplexity": _number(entry, "perplexity", None),
            "samples_per_s": _number(entry, "samples_per_s", None),
            "seq_len": length,
            "steps": SheetCell(document_number(steps, 0), steps),
        },
    )


def _line(entry: Entry, cells: dict[str, SheetCell]) -> Line:
    """Build a line with what every shape has: the steps measured and how it ended."""
    steps = entry.figure("steps_measured")
    count = SheetCell(document_number(steps, 0), None if steps is None else int(steps))
    more = {"steps_measured": count, "status": SheetCell(entry.status, entry.status)}
    return Line(
        "ours" if entry.row else "published",
        entry.status,
        {**cells, **more},
        entry.row["cell"] if entry.row else None,
        entry.source,
    )


def _label(entry: Entry, name: str, otherwise: str) -> SheetCell:
    text = entry.text(name) or otherwise
    return SheetCell(text or MISSING, text or None)


def _number(entry: Entry, key: str, places: int | None) -> SheetCell:
    value = entry.figure(key)
    text = _plain_or_ours(entry, value, places)
    return SheetCell(text + _marks(entry, key), value)


def _plain_or_ours(entry: Entry, value: float | None, places: int | None) -> str:
    """Write a document's number as it prints it; ours with four digits."""
    if entry.published is not None and value is not None:
        return f"{value:.10g}"
    return with_difference(value, None, places)


def _compared(
    entry: Entry, key: str, published: Sequence[PublishedRow], places: int | None
) -> SheetCell:
    value = entry.figure(key)
    if entry.row is not None:
        compared = entry.row["comparison"]
        change = compared["differences"].get(key) if compared and value is not None else None
        text = with_difference(value, change, places) + _marks(entry, key)
        return SheetCell(
            text + (DOUBTFUL if change and compared and compared["note"] else ""), value, change
        )
    assert entry.published is not None
    base = base_of(entry.published, published)
    change = difference_of(value, base.figures.get(key) if base else None)
    printed = entry.published.printed.get(key)
    if value is None or change is None:
        return SheetCell(_plain_or_ours(entry, value, places), value, change, printed)
    text = f"{value:.10g}({_as_printed(change)})"
    wrong = PRINTED_OTHERWISE if printed and deviation(printed, change) else ""
    return SheetCell(text + wrong, value, change, printed)


def _as_printed(change: RowDifference) -> str:
    percent = change["percent"]
    arrow = "↑" if percent > 0 else "↓" if percent < 0 else ""
    return f"{change['absolute']:+.10g},{arrow}{abs(percent):.1f}%"


def _marks(entry: Entry, key: str) -> str:
    """Return the signs beside our throughput that the notes below explain."""
    if entry.row is None or key != "samples_per_s" or entry.figure(key) is None:
        return ""
    return signs(entry.row)


def _axes(row: Row) -> str:
    """Return what distinguishes the cell, except its sizes."""
    axes = {key: value for key, value in row["axes"].items() if key not in _SIZES}
    return ", ".join(f"{key}={value_text(value)}" for key, value in axes.items())


def _size(row: Row) -> str:
    """Write the sizes as document 003 does: `1n_8g_dp_4bs`; model parallel, `2n_8g_4dp_4mp_8bs`."""
    figures, data = row["figures"], data_parallel(row)
    model = figures["devices"] // max(data, 1)
    parallel = "dp" if model == 1 else f"{data}dp_{model}mp"
    size = figures["micro_batch_size"]
    batch = MISSING if size is None else size
    return f"{figures['nodes']}n_{figures['devices_per_node']}g_{parallel}_{batch}bs"


def _sheet(
    name: str, heads: Sequence[Head], group: Sequence[Entry], lines: Sequence[Line]
) -> Sheet:
    return Sheet(name, tuple(heads), tuple(lines), tuple(sheet_notes(group, lines)))


def sheet_notes(group: Sequence[Entry], lines: Sequence[Line]) -> Iterator[str]:
    """Yield what a reader must know of a sheet; each note only where it applies."""
    ours = [entry.row for entry in group if entry.row]
    if any(row["figures"]["samples_per_s"] is not None for row in ours):
        yield "Ours: work over the time of the counted steps; units are in the header."
        yield from of_warmup(ours)
    yield from problems(ours)
    yield from of_losses(ours)
    yield from of_verdicts(ours)
    sources = dict.fromkeys(
        (entry.published.source, entry.published.hardware) for entry in group if entry.published
    )
    computed = any(line.source and c.difference for line in lines for c in line.cells.values())
    for source, hardware in sources:
        where = f", on {hardware}" if hardware else ""
        how = "; differences computed from its figures" if computed else ""
        yield f"published: {source}{where}{how}."
    for entry, line in zip(group, lines, strict=True):
        for key, cell in line.cells.items():
            if entry.published and cell.printed and cell.difference:
                for wrong in deviation(cell.printed, cell.difference):
                    yield f"{PRINTED_OTHERWISE} {entry.name}: {key}: the document prints {wrong}."
