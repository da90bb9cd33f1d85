"""A cell measured: its repeats, and what was worked out over all of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from node.printable import printable
from runner.figures.cell_statistics import CellStatistics, cell_statistics
from runner.figures.goodput import Goodput, goodput
from runner.figures.target import TimeToTarget, time_to_target
from runner.terms.record import NOT_ENDED, UNREADABLE, Measurement, Record


@dataclass(frozen=True)
class MeasuredCell:
    """One cell; `records` are its repeats.

    `target` is what it needs to the matrix's target_loss, None where that names none; `goodput`
    what failures and checkpoints cost, None where it has none; `device_hour` the price of one, None
    where nobody said it.
    """

    records: tuple[Record, ...]
    statistics: CellStatistics
    target: TimeToTarget | None = None
    goodput: Goodput | None = None
    device_hour: float | None = None

    @cached_property
    def _trouble(self) -> Record | None:
        """The first repeat that is not ok; ended repeats first, then in the order of NOT_ENDED."""
        not_ok = [record for record in self.records if record.status != "ok"]
        waits = {status: rank for rank, status in enumerate(NOT_ENDED, 1)}
        return min(not_ok, key=lambda record: waits.get(record.status, 0), default=None)

    @cached_property
    def record(self) -> Record:
        """The repeat that describes the cell: the first ok one, else the first that ended."""
        ok = next((record for record in self.records if record.status == "ok"), None)
        return ok or self._trouble or self.records[0]

    @property
    def status(self) -> str:
        """ "ok" when every repeat is, else how the first other one ended."""
        return self._trouble.status if self._trouble else "ok"

    @property
    def reason(self) -> str:
        """What ended that repeat; for "ok" empty, or which part of a log was not fetched."""
        trouble = self._trouble
        if trouble and trouble.status == "pending" and self.finished:
            waiting = sum(record.status == "pending" for record in self.records)
            return f"{len(self.records) - waiting} of {len(self.records)} repeats done"
        if trouble:
            return trouble.reason
        return next((record.reason for record in self.records if record.reason), "")

    @property
    def finished(self) -> bool:
        """The numbers are those of runs that ended ok."""
        return self.statistics.basis == "ok"

    @property
    def faulted(self) -> bool:
        """Whether a run had a fault or went on after a failure: samples/s is of its last part."""
        return any(record.story is not None and record.story.faulted for record in self.records)


def measured_cell(runs: Sequence[Record], device_hour: float | None = None) -> MeasuredCell:
    """Measure a cell by the records of its repeats."""
    return MeasuredCell(
        records=tuple(runs),
        statistics=cell_statistics(runs),
        target=time_to_target(runs),
        goodput=goodput([run.story for run in runs if run.story]),
        device_hour=device_hour,
    )


def unreadable(runs: Sequence[Record], error: Exception) -> MeasuredCell:
    """Return a cell whose figures cannot be computed, which says why: one cell ends no table."""
    reason = f"its figures cannot be shown: {printable(str(error))[:200] or type(error).__name__}"
    record = replace(runs[0], status=UNREADABLE, reason=reason, measurement=Measurement())
    record = replace(record, model=None)
    return MeasuredCell((record,), CellStatistics())
