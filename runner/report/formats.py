"""Write a campaign's document in the format that was asked for. Pure: document in, text out."""

from runner.base.errors import UserError
from runner.base.escapes import MarkdownText, TerminalText
from runner.base.grid import filled
from runner.document.campaign_document import CampaignDocument
from runner.document.machine_document import to_json
from runner.tables.machine import to_csv
from runner.tables.markdown import to_markdown
from runner.tables.shapes import render_shape
from runner.tables.terminal import to_table

FORMATS = ("table", "markdown", "csv", "json", "html")


def render(
    document: CampaignDocument,
    format: str = "table",
    *,
    width: int = 120,
    most_notes: int | None = None,
) -> TerminalText:
    """Write the comparison table as text that ends in a newline.

    `format` is one of FORMATS; `width` is the terminal's, and `most_notes` how many notes stand
    below the table (None: all), both for "table" only. A page has the flat table, whatever the
    document's layout is; CSV has no place for what is hidden. Links to logs in "html" are
    `Record.log` as it stands: make it relative to the place where the report is written. Raises
    UserError for an unknown format, or a layout with keys that no cell has.
    """
    if format not in FORMATS:
        raise UserError(f"no format {format!r}: choose one of {', '.join(FORMATS)}")
    if format == "html":
        # matplotlib takes a second to import, and only the report needs it.
        from runner.report.page import to_html

        return TerminalText(to_html(document))
    text = _text(document, format, width, most_notes)
    if document.hidden and format == "table":
        text = f"{filled(document.hidden, width)}\n\n{text}"
    elif document.hidden and format == "markdown":
        text = f"{MarkdownText(document.hidden)}\n\n{text}"
    return TerminalText(text)


def _text(document: CampaignDocument, format: str, width: int, most_notes: int | None) -> str:
    table, layout = document.rows, document.layout
    if layout.shape != "flat":
        return render_shape(
            table, document.published, layout, format, width, most_notes, document.hidden
        )
    if format == "table":
        return to_table(table, width, most_notes)
    if format == "json":
        return to_json(document)
    writers = {"markdown": to_markdown, "csv": to_csv}
    return writers[format](table)
