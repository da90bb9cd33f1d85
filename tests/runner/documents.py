"""Records as a campaign's document, and in each format, for tests of tables and pages."""

from collections.abc import Iterable, Sequence
from typing import Any

from runner.base.escapes import TerminalText
from runner.matrix.published import PublishedRow
from runner.matrix.table_shape import TableShape
from runner.report import formats
from runner.tables.build import measured
from runner.tables.campaign_document import CampaignDocument
from runner.tables.row import Row
from runner.terms.record import Record
from runner.terms.run_evidence import Evidences, PackedLog


def rows(records: Iterable[Record], *chosen: Any, **more: Any) -> list[Row]:
    """Return the row of each cell."""
    return measured(records, *chosen, **more)[1]


def document_of(
    records: Iterable[Record],
    baseline: str | None = None,
    *,
    layout: TableShape | None = None,
    published: Sequence[PublishedRow] = (),
    hidden: str = "",
    evidence: Evidences | None = None,
    logs: Sequence[PackedLog] = (),
) -> CampaignDocument:
    """Return the document that a campaign with these runs has."""
    cells, rows = measured(records, baseline, published)
    return CampaignDocument(
        rows=rows,
        cells=cells,
        layout=layout or TableShape(),
        published=published,
        hidden=hidden,
        evidence=evidence or {},
        logs=logs,
    )


def render(
    records: Iterable[Record],
    format: str = "table",
    baseline: str | None = None,
    *,
    width: int = 120,
    wide: bool = False,
    layout: TableShape | None = None,
    published: Sequence[PublishedRow] = (),
    hidden: str = "",
    evidence: Evidences | None = None,
) -> TerminalText:
    """Write them in a format; a `wide` table has every column and all notes."""
    document = document_of(
        records, baseline, layout=layout, published=published, hidden=hidden, evidence=evidence
    )
    return formats.render(document, format, width=width, wide=wide, all_notes=wide)
