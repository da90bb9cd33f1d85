"""Records into rows: the repeats of a cell become one row, then the rows are set side by side, and
each has its verdict. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from runner.base.escapes import plain
from runner.figures.cell_figures import cell_figures, formula, padded_vocabulary
from runner.figures.flops import Decoder
from runner.figures.measured_cell import MeasuredCell, measured_cell, unreadable
from runner.figures.publishable import (
    CellEvidence,
    Hosts,
    at_once,
    verdict,
)
from runner.figures.resumed import resumed
from runner.figures.target import TimeToTarget
from runner.matrix.published import PublishedRow
from runner.tables.baseline import Compared, add_scaling, compare_with
from runner.tables.expected import add_expectations
from runner.tables.row import PUBLISHABLE, Row, RowModel, RowRun, RowTarget, facts
from runner.terms.cell import SEED
from runner.terms.record import Record

BILLION = 1e9


def measured(
    records: Iterable[Record],
    baseline: str | None = None,
    published: Sequence[PublishedRow] = (),
    *,
    requested: bool = True,
    device_hour: float | None = None,
) -> tuple[list[MeasuredCell], list[Row]]:
    """Measure each cell, and build its row, in the order of the records.

    `baseline` is AXIS=VALUE; `published` rows are set beside the cells that they name;
    `device_hour` is the price of one, by which cells cost something. Raises UserError when a
    baseline that was `requested` for names an axis or value that no cell has.
    """
    by_cell: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        by_cell.setdefault((record.campaign, record.cell_id, record.cell), []).append(record)
    pairs = [_pair(runs, device_hour) for runs in by_cell.values()]
    cells, table = [cell for cell, _ in pairs], [row for _, row in pairs]
    add_scaling(cells, table)
    for row in table if published else ():
        _add_published(row, published)
    compared = [Compared() for _ in cells]
    if baseline is not None:
        compared = compare_with(cells, table, baseline, requested=requested)
    add_expectations(table)
    add_verdicts(cells, compared, table)
    return cells, table


def _pair(runs: Sequence[Record], device_hour: float | None) -> tuple[MeasuredCell, Row]:
    try:
        cell = measured_cell(runs, device_hour)
        return cell, _row(cell)
    except Exception as error:  # whatever its log holds: one cell's figures end no table
        cell = unreadable(runs, error)
        return cell, _row(cell)


def _row(cell: MeasuredCell) -> Row:
    record, basis = cell.record, cell.statistics.basis
    figures, missing, halves = cell_figures(cell)
    counted_by = formula(cell)
    hosts = dict.fromkeys(run.hosts for run in cell.records if run.hosts)
    counted = cell.statistics.runs
    return {
        "campaign": record.campaign,
        "cell": record.cell,
        "cell_id": record.cell_id,
        "system": record.system,
        "status": cell.status,
        "reason": cell.reason,
        "numbers_from": "ok runs"
        if basis == "ok"
        else "steps before the run ended"
        if basis == "incomplete"
        else None,
        "verdict": PUBLISHABLE,
        "verdict_reasons": {},
        "model": _model(cell),
        "hosts": [list(each) for each in hosts],
        "formula": plain(vars(counted_by)) if counted_by else None,
        "published": [],
        "expected": None,
        "comparison": None,
        "scaling": {},
        "targets": {"target": _target(cell.target)} if cell.target else {},
        "resumed": None,
        "faulted": cell.faulted,
        "notes": [*cell.statistics.unmatched.values(), *record.measurement.contradicted],
        "axes": plain({"system": record.system, **record.axes}),
        "parameters": plain(record.parameters),
        "parallel": dict(record.parallel),
        "halves": halves,
        "figures": plain(figures),
        "missing": missing,
        "runs": [_run(cell, run, counted) for run in cell.records],
    }


def _model(cell: MeasuredCell) -> RowModel | None:
    model, size = cell.record.model, padded_vocabulary(cell)
    if model is None:
        return None
    total = active = None
    if isinstance(model, Decoder):
        padded = replace(model, vocab_size=(size[0] if size else 0) or model.vocab_size)
        total, active = (count / BILLION for count in padded.parameters)
    shape = plain(vars(model))
    return {"shape": shape, "parameters_b": total, "active_parameters_b": active}


def _target(target: TimeToTarget) -> RowTarget:
    return {
        "loss": target.loss,
        "runs": len(target.arrivals),
        "reached": target.reached,
        "within": target.within,
        "not_reached": target.not_reached,
        "figures": {
            name: {"median": middle.median, "low": middle.low, "high": middle.high}
            for name, middle in target.figures.items()
        },
    }


def _run(cell: MeasuredCell, record: Record, counted: Sequence[Record]) -> RowRun:
    """Return what one run was, and what it did where it is one that gives the cell numbers."""
    at = next((index for index, run in enumerate(counted) if run is record), None)

    def of(name: str) -> float | None:
        summary = getattr(cell.statistics, name)
        return None if summary is None or at is None else summary.runs[at]

    arrivals = cell.target.arrivals if cell.target else ()
    arrival = next((each for each in arrivals if each.repeat == record.repeat), None)
    return {
        "repeat": record.repeat,
        "attempt": record.attempt,
        "status": record.status,
        "reason": record.reason,
        "log": record.log,
        "hosts": list(record.hosts),
        "seed": record.parameters.get(SEED),
        "samples_per_s": of("samples_per_s"),
        "step_time_ms": of("step_time_ms"),
        "memory_rss_mib": None if at is None else record.measurement.memory_rss_mib,
        "iterations_to_target": arrival.iteration if arrival else None,
        "iterations_trained": arrival.trained if arrival else None,
        "iterations_per_loss": arrival.every if arrival else None,
    }


def _add_published(row: Row, documents: Sequence[PublishedRow]) -> None:
    """Set the rows of documents beside the cell that they are about."""
    known: dict[str, Any] = facts(row)
    for document in documents:
        if document.stands_beside(known):
            source, hardware = document.source, document.hardware
            figures = dict(document.figures)
            row["published"].append({"source": source, "hardware": hardware, "figures": figures})


def add_verdicts(
    cells: Sequence[MeasuredCell], compared: Sequence[Compared], table: Sequence[Row]
) -> None:
    """Judge each row by itself, and by what it is compared with: its baseline, else all others."""
    records = [record for cell in cells for record in cell.records]
    shared = at_once(records, lambda run: run.hosts)
    beside = at_once(records, lambda run: (run.campaign,))
    everywhere = _nodes(cells)
    for cell, against, row in zip(cells, compared, table, strict=True):
        goes_on = resumed(cell.records, records)
        evidence = CellEvidence(
            records=cell.records,
            statistics=cell.statistics,
            parity=against.parity,
            learning=against.learning,
            nodes_beside=_nodes([against.base]) if against.base else everywhere,
            meanwhile=_cell_of_first_repeat(cell, shared),
            beside=_cell_of_first_repeat(cell, beside),
            mfu_percent=row["figures"]["mfu_percent"],
            resumed=goes_on,
        )
        row["verdict_reasons"] = reasons = verdict(evidence)
        row["verdict"] = ";".join(reasons) or PUBLISHABLE
        if goes_on:
            row["resumed"] = {"same": goes_on.same, "words": goes_on.sentence}


def _cell_of_first_repeat(cell: MeasuredCell, cells: Mapping[tuple[str, int], str]) -> str:
    """Return the cell that the first of a row's repeats shared something with, if one did."""
    first_runs = (cells.get((record.cell_id, record.repeat)) for record in cell.records)
    return next(filter(None, first_runs), "")


def _nodes(cells: Sequence[MeasuredCell]) -> Mapping[Hosts, str]:
    """Return the nodes of runs that ended ok, to the first cell that had them."""
    nodes: dict[Hosts, str] = {}
    for cell in cells:
        for record in cell.records:
            if record.status == "ok":
                nodes.setdefault(record.hosts, cell.record.cell)
    return nodes
