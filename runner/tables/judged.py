"""The verdict on each row: by itself, and by what it is compared with. Pure."""

from collections.abc import Mapping, Sequence

from runner.figures.measured_cell import MeasuredCell
from runner.figures.publishable import (
    CellEvidence,
    Hosts,
    at_once,
    verdict,
)
from runner.figures.resumed import resumed
from runner.tables.baseline import Compared
from runner.tables.row import PUBLISHABLE, Row


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
