"""Write a campaign's document in the format that was asked for. Pure: document in, text out."""

from runner.base.errors import UserError
from runner.base.escapes import MarkdownText, TerminalText
from runner.base.grid import filled
from runner.tables.campaign_document import CampaignDocument
from runner.tables.campaign_table import to_csv, to_markdown, to_table
from runner.tables.machine_document import to_json
from runner.tables.shapes import render_shape

FORMATS = ("table", "markdown", "csv", "json", "html")


def render(
    document: CampaignDocument,
    format: str = "table",
    *,
    width: int = 120,
    wide: bool = False,
    all_notes: bool = False,
) -> TerminalText:
    """Write the comparison table as text that ends in a newline.

    `format` is one of FORMATS; `width` is the terminal's, `wide` has every column and `all_notes`
    all notes below it, all for "table" only. A page has the flat table, whatever the
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
    text = _text(document, format, width, wide=wide, all_notes=all_notes)
    if document.hidden and format == "table":
        text = f"{filled(document.hidden, width)}\n\n{text}"
    elif document.hidden and format == "markdown":
        text = f"{MarkdownText(document.hidden)}\n\n{text}"
    return TerminalText(text)


def _text(
    document: CampaignDocument, format: str, width: int, *, wide: bool, all_notes: bool
) -> str:
    table, layout = document.rows, document.layout
    if layout.shape != "flat":
        return render_shape(table, document.published, layout, format, width, document.hidden)
    if format == "table":
        return to_table(table, width, wide=wide, all_notes=all_notes)
    if format == "json":
        return to_json(document)
    writers = {"markdown": to_markdown, "csv": to_csv}
    return writers[format](table)
