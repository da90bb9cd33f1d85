"""Columns of what a cell is compared with: a baseline, and a document's figures."""

from collections.abc import Iterator, Sequence
from typing import Any

from node.printable import printable
from runner.tables.catalogue.column import DOUBTFUL, Column, Text, Value
from runner.tables.formatting import MISSING, change_text
from runner.tables.row import Row

# Title, place and worth of a document's figures.
_PUBLISHED = {
    "samples_per_s": ("samples/s\npublished", 350, None),
    "memory_used_mib": ("used MiB\npublished", 360, 280),
    "utilisation_percent": ("util %\npublished", 370, 270),
    "perplexity": ("PPL\npublished", 380, None),
}


def _has_baseline(table: Sequence[Row]) -> bool:
    return any(row.comparison for row in table)


def _has_documents(table: Sequence[Row]) -> bool:
    return any(row.published for row in table)


def _against(key: str, value: Value, type: str | tuple[str, ...] = "number", **more: Any) -> Column:
    """Make a column that only tables with a baseline have."""
    return Column(key, value, type, machine_if=_has_baseline, **more)


def _named_baseline(row: Row) -> str | None:
    return f"{row.comparison.axis}={row.comparison.value}" if row.comparison else None


def _difference(name: str, field: str) -> Value:
    def value(row: Row) -> Any:
        difference = row.comparison.differences.get(name) if row.comparison else None
        return getattr(difference, field, None)

    return value


def _interval_end(side: int) -> Value:
    interval = _difference("samples_per_s", "interval")
    return lambda row: (interval(row) or (None, None))[side]


def _parity_field(field: str) -> Value:
    """Return what the comparison of losses found: "same" or "diverges", and by how much."""

    def value(row: Row) -> Any:
        parity = row.comparison.parity if row.comparison else None
        if parity is None or parity.same is None:
            return None
        return (
            getattr(parity, field) if field != "verdict" else "same" if parity.same else "diverges"
        )

    return value


def _parity(row: Row) -> str:
    if row.comparison is None or (row.comparison.is_baseline and not row.comparison.note):
        return MISSING if row.comparison is None else "baseline"
    parity = row.comparison.parity
    if parity is None or parity.same is None:
        return MISSING
    if parity.same:
        return "same"
    return f"from {parity.at}" + (": NaN" if parity.by is None else f": {parity.by:+.3g}")


def _parity_missing(row: Row) -> str:
    parity = row.comparison.parity if row.comparison else None
    return parity.why_not if parity is not None and parity.same is None else ""


def _learning_field(field: str) -> Value:
    return lambda r: getattr(r.comparison.learning, field, None) if r.comparison else None


def _learning(row: Row) -> str:
    if row.comparison is None or row.target is None:
        return MISSING
    if row.comparison.is_baseline:
        return "baseline"
    return (row.comparison.learning and row.comparison.learning.words) or MISSING


def _learning_missing(row: Row) -> str:
    learning = row.comparison.learning if row.comparison else None
    return learning.why_not if learning is not None and learning.verdict is None else ""


def _difference_text(compared: Column) -> Text:
    name = compared.key

    def text(row: Row) -> str:
        if row.comparison is None or compared.value is None or compared.value(row) is None:
            return MISSING
        if row.comparison.is_baseline and not row.comparison.note:
            return "baseline"
        difference = row.comparison.differences.get(name)
        mark = DOUBTFUL if difference and row.comparison.note else ""
        return change_text(difference) + mark

    return text


def of_baseline(table: Sequence[Row]) -> Iterator[str]:
    """Yield what the baseline is, and which cells have none or a doubtful one."""
    compared = [(row, row.comparison) for row in table if row.comparison]
    for _, first_comparison in compared[:1]:
        yield (
            f"Baseline {first_comparison.axis}={first_comparison.value}: difference from the"
            " cell with the same other axes, and percent of it."
        )
    for row, comparison in compared:
        if comparison.note:
            mark, verb = (f"{DOUBTFUL} ", "") if comparison.differences else ("", "not compared: ")
            yield f"{mark}{printable(row.cell)}: {verb}{printable(comparison.note)}."


def baseline(compared: Sequence[Column]) -> Iterator[Column]:
    """Yield the columns of a table with a baseline; `compared` are those it is compared in."""
    yield _against("baseline", _named_baseline, "string")
    yield _against("baseline_cell", lambda r: r.comparison and r.comparison.cell, "string")
    yield _against(
        "baseline_note", lambda r: (r.comparison and r.comparison.note) or None, "string"
    )
    for column in compared:
        key = f"{column.key}_difference"
        headline = column.key == "samples_per_s"
        yield _against(
            key,
            _difference(column.key, "absolute"),
            title=f"{column.one_line_title} vs\nbaseline" if headline else _memory_title(column),
            place=150 if headline else column.place + 10,
            worth=540 if headline else 235 - (column.place - 620) / 2,
            shown=_difference_text(column),
        )
        yield _against(f"{key}_percent", _difference(column.key, "percent"))
    yield _against("samples_per_s_difference_percent_ci_low", _interval_end(0))
    yield _against("samples_per_s_difference_percent_ci_high", _interval_end(1))
    yield _against(
        "loss_parity",
        _parity_field("verdict"),
        ("same", "diverges"),
        title="loss vs\nbaseline",
        place=160,
        worth=410,
        shown=_parity,
        nothing=frozenset({"same", "baseline"}),  # a note says it
        missing=_parity_missing,
    )
    yield _against("loss_diverges_at_iteration", _parity_field("at"), "integer")
    yield _against("loss_difference", _parity_field("by"))
    yield _against("loss_tolerance", _parity_field("tolerance"))
    yield _against(
        "learns",
        _learning_field("verdict"),
        ("alike", "slower", "faster"),
        title="learns vs\nbaseline",
        place=260,
        worth=420,
        shown=_learning,
        nothing=frozenset({"baseline"}),
        missing=_learning_missing,
    )
    yield _against("learns_p", _learning_field("p"))


def _memory_title(column: Column) -> str:
    return f"{column.title.partition(chr(10))[0]} vs\nbaseline"


def _beside(column: Column) -> Value:
    """Return our figure in percent more than the document's."""

    def value(row: Row) -> float | None:
        ours = column.value(row) if column.value and row.finished else None
        theirs = row.published_figure(column.key)
        return None if ours is None or theirs is None else (ours / theirs - 1) * 100

    return value


def _published_text(column: Column) -> Text:
    """Show a document's figure and, in percent, how much more ours is."""
    more = _beside(column)

    def text(row: Row) -> str:
        value = row.published_figure(column.key)
        if value is None:
            return MISSING
        percent = more(row)
        return f"{value:.10g}" + ("" if percent is None else f" ({percent:+.1f}%)")

    return text


def _printed(name: str) -> Value:
    return lambda row: row.published_figure(name)


def of_published(table: Sequence[Row]) -> Iterator[str]:
    """Yield where the published figures are from."""
    sources = dict.fromkeys((d.source, d.hardware) for row in table for d in row.published)
    for source, hardware in sources:
        on = f", on {printable(hardware)}" if hardware else ""
        yield f"published: {printable(source)}{on}; in brackets how much more ours is."


def published(ours: Sequence[Column]) -> Iterator[Column]:
    """Yield the columns of a table with documents' figures beside `ours`."""
    by_key = {column.key: column for column in ours}
    yield Column(
        "published_source",
        lambda r: "; ".join(dict.fromkeys(d.source for d in r.published)) or None,
        "string",
        machine_if=_has_documents,
    )
    for name, (title, position, worth) in _PUBLISHED.items():
        yield Column(
            f"published_{name}",
            _printed(name),
            title=title,
            place=position,
            worth=worth,
            shown=_published_text(by_key[name]),
            machine_if=_has_documents,
            note=of_published,
        )
