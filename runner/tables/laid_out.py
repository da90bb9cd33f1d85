"""A table in the shape that a matrix, or `--shape`, asks for. Pure: rows in, text out."""

from __future__ import annotations

from collections.abc import Sequence

from runner.matrix import published as documents
from runner.matrix.layouts import Layout
from runner.tables import sheet
from runner.tables.pivot import pivot
from runner.tables.row import Row
from runner.tables.shapes import ascend, osdi
from runner.tables.sheet import Sheet

_SHAPES = {"osdi": osdi, "ascend": ascend, "frameworks": pivot, "pivot": pivot}


def sheets(table: Sequence[Row], published: Sequence[documents.Row], layout: Layout) -> list[Sheet]:
    """The sheets of a shape other than flat. Raises UserError for keys that no cell has."""
    return _SHAPES[layout.shape](table, published, layout)


def laid_out(
    table: Sequence[Row],
    published: Sequence[documents.Row],
    layout: Layout,
    format: str,
    width: int = 120,
) -> str:
    """The sheets as text: `format` is table, markdown, csv or json; `width` is that of notes."""
    found = sheets(table, published, layout)
    if format == "json":
        return sheet.to_json(found, layout.shape)
    if format == "table":
        return sheet.to_text(found, width)
    writers = {"markdown": sheet.to_markdown, "csv": sheet.to_csv}
    return writers[format](found)
