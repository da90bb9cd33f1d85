"""A table in the shape that a matrix, or `--shape`, asks for. Pure: rows in, text out."""

from collections.abc import Sequence

from runner.matrix.published import PublishedRow
from runner.matrix.table_shape import TableShape
from runner.tables import sheet
from runner.tables.document_tables import ascend, osdi
from runner.tables.pivot import pivot
from runner.tables.row import Row
from runner.tables.sheet import Sheet

_SHAPES = {"osdi": osdi, "ascend": ascend, "frameworks": pivot, "pivot": pivot}


def sheets(
    table: Sequence[Row], published: Sequence[PublishedRow], layout: TableShape
) -> list[Sheet]:
    """Build the sheets of a shape other than flat. Raises UserError for keys that no cell has."""
    return _SHAPES[layout.shape](table, published, layout)


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
    writers = {"markdown": sheet.to_markdown, "csv": sheet.to_csv}
    return writers[format](rendered)
