"""Write what was measured in the format that was asked for. Pure: records in, text out."""

from collections.abc import Sequence

from runner.base.errors import UserError
from runner.base.escapes import MarkdownText, TerminalText
from runner.base.grid import filled
from runner.matrix.published import PublishedRow
from runner.matrix.table_shape import TableShape
from runner.tables.build import rows
from runner.tables.machine import to_csv, to_json
from runner.tables.markdown import to_markdown
from runner.tables.row import Row
from runner.tables.shapes import render_shape
from runner.tables.terminal import to_table
from runner.terms.record import Record
from runner.terms.run_evidence import Evidences, PackedLog

FORMATS = ("table", "markdown", "csv", "json", "html")


def render(
    records: Sequence[Record],
    format: str = "table",
    baseline: str | None = None,
    *,
    width: int = 120,
    layout: TableShape | None = None,
    published: Sequence[PublishedRow] = (),
    hidden: str = "",
    evidence: Evidences | None = None,
) -> TerminalText:
    """Write the comparison table of `records` as text that ends in a newline.

    `format` is one of FORMATS; `baseline` is AXIS=VALUE or None; `width` is the terminal's, for
    "table" only; `layout` is a document's shape (a page has the flat table), `published` what
    documents printed, `hidden` a sentence on what the campaign keeps and the table does not show
    (CSV has no place for it), `evidence` what a page shows of each run. Links to logs in "html"
    are `Record.log` as it stands: make it relative to the place where the report is written. Raises
    UserError for an unknown format, axis or value.
    """
    if format not in FORMATS:
        raise UserError(f"no format {format!r}: choose one of {', '.join(FORMATS)}")
    table = rows(records, baseline, published)
    return render_rows(
        table,
        format,
        width=width,
        layout=layout,
        published=published,
        hidden=hidden,
        evidence=evidence,
    )


def render_rows(
    table: Sequence[Row],
    format: str,
    *,
    width: int,
    layout: TableShape | None,
    published: Sequence[PublishedRow],
    most_notes: int | None = None,
    hidden: str = "",
    evidence: Evidences | None = None,
    logs: Sequence[PackedLog] = (),
) -> TerminalText:
    """Write the rows of a table, as `render` does records; of notes in "table" the first alone.

    `logs` are whole ones that "html" has inside.
    """
    if format == "html":
        # matplotlib takes a second to import, and only the report needs it.
        from runner.report.page import to_html

        return TerminalText(to_html(table, hidden, evidence=evidence, logs=logs))
    text = _text(table, format, width, layout, published, most_notes, hidden)
    if hidden and format == "table":
        text = f"{filled(hidden, width)}\n\n{text}"
    elif hidden and format == "markdown":
        text = f"{MarkdownText(hidden)}\n\n{text}"
    return TerminalText(text)


def _text(
    table: Sequence[Row],
    format: str,
    width: int,
    layout: TableShape | None,
    published: Sequence[PublishedRow],
    most_notes: int | None,
    hidden: str,
) -> str:
    if layout is not None and layout.shape != "flat":
        return render_shape(table, published, layout, format, width, most_notes, hidden)
    if format == "table":
        return to_table(table, width, most_notes)
    if format == "json":
        return to_json(table, published, hidden)
    writers = {"markdown": to_markdown, "csv": to_csv}
    return writers[format](table)
