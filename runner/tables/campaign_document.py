"""What is known of a campaign, as every view of it reads it. Data."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from runner.figures.measured_cell import MeasuredCell
from runner.matrix.published import PublishedRow
from runner.matrix.table_shape import TableShape
from runner.tables.row import Row
from runner.terms.record import Record
from runner.terms.run_evidence import Evidences, PackedLog


@dataclass(frozen=True)
class CampaignDocument:
    """A campaign: `rows`, one for each cell in the matrix's order; `cells` have what their runs
    measured, for what draws them.

    `title` and `description` are the matrix's words on it, "" where it has none.
    `layout` is how its matrix wants the table, `published` the figures of documents beside it.
    `hidden` says what the folder keeps and the matrix no longer names, ""
    where there is nothing. `live`: bench runs it now. `evidence` has each run's commands and the
    end of its logs, `logs` those that a page has whole; both are empty unless they were asked for.
    """

    rows: Sequence[Row] = ()
    cells: Sequence[MeasuredCell] = ()
    title: str = ""
    description: str = ""
    layout: TableShape = field(default_factory=TableShape)
    published: Sequence[PublishedRow] = ()
    hidden: str = ""
    live: bool = False
    evidence: Evidences = field(default_factory=dict)
    logs: Sequence[PackedLog] = ()

    @property
    def records(self) -> Iterable[Record]:
        """Each run of each cell."""
        return (record for cell in self.cells for record in cell.records)
