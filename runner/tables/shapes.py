"""A table in the shape that a matrix, or `--shape`, asks for. Pure: rows in, text out.

`osdi` and `ascend` are the tables of documents 003 and 004 (docs/documents.md): a list of columns
over *entries*, our rows and a document's alike. Of the others pivot.py sets values side by side.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from node.printable import printable
from runner.matrix.published import Printed, PublishedRow, base_of
from runner.matrix.table_shape import TableShape
from runner.tables import sheet
from runner.tables.baseline import difference
from runner.tables.columns import DOUBTFUL, signs
from runner.tables.formatting import (
    MISSING,
    decimals,
    difference_text,
    number_text,
    value_text,
)
from runner.tables.notes import of_losses, of_verdicts, of_warmup, problems
from runner.tables.pivot import pivot
from runner.tables.row import (
    Row,
    RowDifference,
    data_parallel,
    facts,
    finished,
)
from runner.tables.sheet import Head, Line, Sheet, SheetCell

PUBLISHED = "published"
PRINTED_OTHERWISE = "¶"
# Decimals of percent that documents print, and half a unit of it: what rounding may hide.
_HALF = 0.05 + 1e-9
_SIZES = frozenset({"nodes", "devices_per_node", "micro_batch_size", "global_batch_size", "system"})


def render_shape(
    table: Sequence[Row],
    published: Sequence[PublishedRow],
    layout: TableShape,
    format: str,
    width: int = 120,
    hidden: str = "",
) -> str:
    """Write the sheets as `format`: table, markdown, csv or json; `width` is that of notes.

    `hidden` says what the campaign keeps and no sheet shows; JSON holds it.
    """
    rendered = sheets(table, published, layout)
    if format == "json":
        return sheet.to_json(rendered, layout.shape, hidden)
    if format == "table":
        return sheet.to_text(rendered, width)
    return {"markdown": sheet.to_markdown, "csv": sheet.to_csv}[format](rendered)


def sheets(
    table: Sequence[Row], published: Sequence[PublishedRow], layout: TableShape
) -> list[Sheet]:
    """Build the sheets of a shape other than flat. Raises UserError for keys that no cell has."""
    if layout.shape not in _DOCUMENTS:
        return pivot(table, layout)
    columns, keys, default = _DOCUMENTS[layout.shape]
    groups: dict[tuple[tuple[str, str], ...], list[Entry]] = {}
    for entry in entries(table, published, layout.labels):
        values = ((key, entry.value(key)) for key in layout.split or keys)
        name = tuple((key, value_text(value)) for key, value in values if value is not None)
        groups.setdefault(name, []).append(entry)
    built = []
    for name, group in groups.items():
        lines = [_line(entry, columns, published) for entry in group]
        heads = [head for head, _ in columns]
        built.append(Sheet(_title(name, default), heads, lines, [*_notes(group, lines)]))
    return built


@dataclass(frozen=True)
class Entry:
    """One of our rows, or one of a document's. `number` counts our rows from 1.

    `beside` is the counterpart, where there is one: a document's row has our cell's sizes
    where it does not give them, and our row goes into the document's table.
    """

    row: Row | None = None
    published: PublishedRow | None = None
    templates: Mapping[str, str] = field(default_factory=dict)
    number: int = 0
    beside: Row | PublishedRow | None = None

    @property
    def name(self) -> str:
        """For notes."""
        if self.row:
            return printable(self.row["cell"])
        labels = self.published.labels if self.published else {}
        label = next((labels[key] for key in ("test_num", "name") if key in labels), "")
        return label or ", ".join(labels.values()) or PUBLISHED

    def figure(self, key: str) -> float | None:
        """Return a number by its machine name; what a run that did not end ok has is not one."""
        if self.published is not None:
            return self.published.figures.get(key)
        if self.row is None or not finished(self.row):
            return None
        value = self.row["figures"].get(key)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def value(self, key: str) -> Any:
        """Return a label, axis, parameter or size, or None."""
        if self.row is not None:
            if key in self.templates:
                return self.text(key)
            if key == "table" and isinstance(self.beside, PublishedRow):
                return self.beside.labels.get(key)
            return facts(self.row).get(key)
        assert self.published is not None
        values = facts(self.beside) if isinstance(self.beside, dict) else {}
        values |= self.published.cell or {}
        return self.published.labels.get(key, values.get(key))

    def text(self, label: str) -> str | None:
        """Return a label: the document's, or ours with the keys in braces filled in; None: not
        given.
        """
        if self.published is not None:
            return self.published.labels.get(label)
        template = self.templates.get(label)
        if template is None or self.row is None:
            return None
        fields = {**facts(self.row), "number": self.number, "cell": self.row["cell"]}

        def fill(match: re.Match[str]) -> str:
            return value_text(fields[match[1]]) if match[1] in fields else match[0]

        return printable(re.sub(r"\{(\w+)\}", fill, template))


_Column = tuple[Head, Callable[[Entry, Sequence[PublishedRow]], SheetCell]]


def entries(
    table: Sequence[Row], published: Sequence[PublishedRow], labels: Mapping[str, str]
) -> list[Entry]:
    """List ours in their order, each after the documents' rows that are its counterparts.

    A document's row without a counterpart goes with the next of its rows that does, so that a
    competitor stays where the document has it; the rest comes last, in the documents' order.
    """
    known = [facts(row) for row in table]
    before: list[list[Entry]] = [[] for _ in range(len(table) + 1)]
    following = len(table)
    for document in reversed(published):
        at = next((at for at, cell in enumerate(known) if document.stands_beside(cell)), None)
        following = following if at is None else at
        beside = None if at is None else table[at]
        before[following].insert(0, Entry(None, document, beside=beside))
    listed = []
    for at, row in enumerate(table):
        document_beside = next((d for d in published if d.stands_beside(known[at])), None)
        listed += [*before[at], Entry(row, None, labels, at + 1, document_beside)]
    return [*listed, *before[-1]]


def _title(name: Sequence[tuple[str, str]], default: str) -> str:
    titles = dict(name)
    if set(titles) == {"nodes", "devices_per_node"}:
        return " x ".join(
            f"{titles[key]} {word}{'' if titles[key] == '1' else 's'}"
            for key, word in (("nodes", "node"), ("devices_per_node", "device"))
        )
    return ", ".join(v if k == "table" else f"{k} {v}" for k, v in name) or default


def _line(entry: Entry, columns: Sequence[_Column], published: Sequence[PublishedRow]) -> Line:
    cells = {head.key: cell(entry, published) for head, cell in columns}
    status, document = str(cells["status"].value), entry.published
    if document:
        return Line("published", status, cells, source=document.source)
    return Line("ours", status, cells, cell=entry.row and entry.row["cell"])


def _label(
    key: str, header: str, ours: Callable[[Row, Entry], str], *, number: bool = False
) -> _Column:
    """Make a column of a label; where nobody gave it, ours have a text of their own."""

    def cell(entry: Entry, _: Sequence[PublishedRow]) -> SheetCell:
        text = entry.text(key) or (ours(entry.row, entry) if entry.row else "")
        return SheetCell(text or MISSING, text or None)

    return Head(key, header, number), cell


def _number(key: str, header: str, places: int | None = None) -> _Column:
    """Make a column of a figure: a document's as it prints it, ours with four digits."""

    def cell(entry: Entry, _: Sequence[PublishedRow]) -> SheetCell:
        value = entry.figure(key)
        return SheetCell(_plain(entry, value, places) + _marks(entry, key), value)

    return Head(key, header), cell


def _plain(entry: Entry, value: float | None, places: int | None) -> str:
    printed = entry.published is not None and value is not None
    return f"{value:.10g}" if printed else number_text(value, places)


def _marks(entry: Entry, key: str) -> str:
    """Return the signs beside our throughput that the notes below explain."""
    ours = entry.row is not None and key == "samples_per_s" and entry.figure(key) is not None
    return signs(entry.row) if ours and entry.row else ""


def _compared(key: str, header: str, places: int | None = None) -> _Column:
    """Make a column of a figure with its difference, as document 003: `3849(-1754,↓31.3%)`."""

    def cell(entry: Entry, published: Sequence[PublishedRow]) -> SheetCell:
        value = entry.figure(key)
        if entry.row is not None:
            compared = entry.row["comparison"]
            change = compared["differences"].get(key) if compared and value is not None else None
            text = number_text(value, places)
            if value is not None and change is not None:
                digits = decimals(value) if places is None else places
                text += f"({difference_text(change['absolute'], change['percent'], digits)})"
            text += _marks(entry, key)
            text += DOUBTFUL if change and compared and compared["note"] else ""
            return SheetCell(text, value, change)
        assert entry.published is not None
        base, printed = base_of(entry.published, published), entry.published.printed.get(key)
        change = _difference(value, base.figures.get(key) if base else None)
        if value is None or change is None:
            return SheetCell(_plain(entry, value, places), value, change, printed)
        percent = change["percent"]
        arrow = "↑" if percent > 0 else "↓" if percent < 0 else ""
        text = f"{value:.10g}({change['absolute']:+.10g},{arrow}{abs(percent):.1f}%)"
        text += PRINTED_OTHERWISE if printed and _deviation(printed, change) else ""
        return SheetCell(text, value, change, printed)

    return Head(key, header), cell


def _difference(ours: float | None, base: float | None) -> RowDifference | None:
    """Subtract the baseline's figure from ours; also in percent of it."""
    return difference(ours, base) if ours is not None and base else None


def _deviation(printed: Printed, computed: RowDifference) -> list[str]:
    """List what a document printed that its own figures do not give, beyond rounding; [] is
    right.
    """
    wrong = []
    if printed.difference is not None and abs(printed.difference - computed["absolute"]) > 0.5:
        wrong.append(f"{printed.difference:+g} (its figures give {computed['absolute']:+g})")
    if printed.percent is not None and abs(printed.percent - computed["percent"]) > _HALF:
        wrong.append(f"{printed.percent:+.1f} % (its figures give {computed['percent']:+.1f} %)")
    return wrong


def _steps_measured(entry: Entry, _: Sequence[PublishedRow]) -> SheetCell:
    steps = entry.figure("steps_measured")
    return SheetCell(number_text(steps, 0), None if steps is None else int(steps))


def _steps(entry: Entry, _: Sequence[PublishedRow]) -> SheetCell:
    steps = entry.value("train_iters") if entry.row else entry.figure("steps")
    steps = float(steps) if isinstance(steps, int | float) else None
    return SheetCell(number_text(steps, 0), steps)


def _status(entry: Entry, _: Sequence[PublishedRow]) -> SheetCell:
    status = entry.row["status"] if entry.row else PUBLISHED
    return SheetCell(status, status)


def _params(entry: Entry, _: Sequence[PublishedRow]) -> SheetCell:
    text = entry.text("params") or value_text(entry.value("model") or "")
    return SheetCell(text or MISSING, text or None)


def _axes(row: Row, _: Entry) -> str:
    """Return what distinguishes the cell, except its sizes."""
    axes = {key: value for key, value in row["axes"].items() if key not in _SIZES}
    return ", ".join(f"{key}={value_text(value)}" for key, value in axes.items())


def _size(row: Row, _: Entry) -> str:
    """Write the sizes as document 003 does: `1n_8g_dp_4bs`; model parallel, `2n_8g_4dp_4mp_8bs`."""
    figures, data = row["figures"], data_parallel(row)
    model, size = figures["devices"] // max(data, 1), figures["micro_batch_size"]
    parallel = "dp" if model == 1 else f"{data}dp_{model}mp"
    batch = MISSING if size is None else size
    return f"{figures['nodes']}n_{figures['devices_per_node']}g_{parallel}_{batch}bs"


def _length(row: Row, _: Entry) -> str:
    return str(row["model"]["shape"]["seq_length"]) if row["model"] else ""


_ENDED: tuple[_Column, ...] = (
    (Head("steps_measured", "steps measured"), _steps_measured),
    (Head("status", "status", number=False), _status),
)
_OSDI: tuple[_Column, ...] = (
    _label("date", "date", lambda row, _: row["figures"]["date"] or ""),
    _label("test_num", "test_num", lambda _, entry: str(entry.number)),
    _label("test_desc", "test_desc", _axes),
    _label("layout", "xn_xg_xdp_xmp_xbs", _size),
    _compared("memory_used_mib", "gpu_mem (MiB)", 0),
    _number("utilisation_percent", "gpu_util (%)", 0),
    _compared("samples_per_s", "throughput (samples/s)"),
    *_ENDED,
)
_ASCEND: tuple[_Column, ...] = (
    _label("name", "NAME", lambda row, _: printable(row["cell"])),
    (Head("params", "params", number=False), _params),
    _number("perplexity", "PPL"),
    _number("samples_per_s", "samples/s"),
    _label("seq_len", "seq_len", _length, number=True),
    (Head("steps", "Steps"), _steps),
    *_ENDED,
)
# Its columns, the keys by whose values it is split, and what all are called where none has one.
_DOCUMENTS: Mapping[str, tuple[Sequence[_Column], Sequence[str], str]] = {
    "osdi": (_OSDI, ("nodes", "devices_per_node"), "all scales"),
    "ascend": (_ASCEND, ("table",), "all models"),
}


def _notes(group: Sequence[Entry], lines: Sequence[Line]) -> Iterator[str]:
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
                for wrong in _deviation(cell.printed, cell.difference):
                    yield f"{PRINTED_OTHERWISE} {entry.name}: {key}: the document prints {wrong}."
