"""The verdict on each row, and its lines for people: a code once, with its cells and the cure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from node.printable import printable
from runner.base import text
from runner.figures.publishable import (
    CODES,
    CellEvidence,
    Hosts,
    at_once,
    in_its_campaign,
    on_its_nodes,
    verdict,
)
from runner.figures.resumed import resumed
from runner.tables.row import Row

PUBLISHABLE = "publishable"
MOST_WHYS = 2  # of one code that are told: each cell's stand in --strict, and in the other formats
_TOLD_BY_STATUS = "not_ok"  # whose reasons stand above the notes


def with_verdicts(table: Sequence[Row]) -> list[Row]:
    """Judge each row by itself, and by what it is compared with: its baseline, else all others."""
    records = [record for row in table for record in row.records]
    shared, beside = at_once(records, on_its_nodes), at_once(records, in_its_campaign)
    everywhere = _nodes(table)
    judged = []
    for row in table:
        base = row.comparison.base if row.comparison else None
        goes_on = resumed(row.records, records)
        evidence = CellEvidence(
            records=row.records,
            statistics=row.statistics,
            parity=row.comparison.parity if row.comparison else None,
            learning=row.comparison.learning if row.comparison else None,
            nodes_beside=_nodes([base]) if base else everywhere,
            meanwhile=_cell_of_first_repeat(row, shared),
            beside=_cell_of_first_repeat(row, beside),
            mfu_percent=row.mfu_percent,
            resumed=goes_on,
        )
        judged.append(replace(row, verdict=verdict(evidence), resumed=goes_on))
    return judged


def _cell_of_first_repeat(row: Row, cells: Mapping[tuple[str, int], str]) -> str:
    """Return the cell that the first of a row's repeats shared something with, if one did."""
    first_runs = (cells.get((record.cell_id, record.repeat)) for record in row.records)
    return next(filter(None, first_runs), "")


def _nodes(table: Sequence[Row]) -> Mapping[Hosts, str]:
    """Return the nodes of runs that ended ok, to the first cell that had them."""
    nodes: dict[Hosts, str] = {}
    for row in table:
        for record in row.records:
            if record.status == "ok":
                nodes.setdefault(record.hosts, row.cell)
    return nodes


def verdict_text(row: Row) -> str:
    """Say it in a column: the worst code, and how many more there are."""
    if row.publishable:
        return PUBLISHABLE
    worst, *more = row.verdict
    return f"{worst} +{len(more)}" if more else worst


def verdict_codes(row: Row) -> str:
    """Say it for machines: every code, worst first."""
    return ";".join(row.verdict) or PUBLISHABLE


def signs(row: Row) -> str:
    """Return the signs beside a speed that its codes make doubtful."""
    return "".join(dict.fromkeys(CODES[word].sign for word in row.verdict))


def of_verdicts(table: Sequence[Row]) -> Iterator[str]:
    """Yield how many cells are publishable, then each code but that which a status says."""
    good = sum(row.publishable for row in table)
    if good < len(table):
        yield f"Publishable: {good} of {len(table)} cells (docs/measures.md)."
    for word, code in CODES.items():
        cells: dict[str, list[str]] = {}
        for row in table:
            if word in row.verdict and word != _TOLD_BY_STATUS:
                cells.setdefault(row.verdict[word], []).append(printable(row.cell))
        if cells:
            whys = [
                f"{printable(why)} ({cell_list(names, of=len(table))})"
                for why, names in cells.items()
            ]
            whose = text.listing(whys, MOST_WHYS, "; ")
            yield f"{code.sign} {word}: {whose}. {code.cure}.".lstrip()


def why_not(row: Row) -> str:
    """Say all that speaks against a cell in one line; nothing where it is publishable."""
    return "; ".join(f"{word}: {why}" for word, why in row.verdict.items())


def cell_list(cells: Sequence[str], most: int = 4, *, of: int | None = None) -> str:
    """Name some cells, or all `of` them in one."""
    if len(cells) == of and of > 1:
        return "every cell"
    return text.listing(cells, most)
