"""Records as a campaign's document, and in each format, for tests of tables and pages."""

from collections.abc import Iterable, Sequence

from runner.base.escapes import TerminalText
from runner.document.campaign_document import CampaignDocument
from runner.matrix.published import PublishedRow
from runner.matrix.table_shape import TableShape
from runner.report import formats
from runner.tables.build import rows
from runner.terms.record import Record
from runner.terms.run_evidence import Evidences, PackedLog


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
    return CampaignDocument(
        rows=rows(records, baseline, published),
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
    layout: TableShape | None = None,
    published: Sequence[PublishedRow] = (),
    hidden: str = "",
    evidence: Evidences | None = None,
) -> TerminalText:
    """Write them in a format."""
    document = document_of(
        records, baseline, layout=layout, published=published, hidden=hidden, evidence=evidence
    )
    return formats.render(document, format, width=width)
