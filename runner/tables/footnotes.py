"""What a reader must know to use the numbers of a table; each note only where it applies."""

from collections.abc import Callable, Collection, Iterator, Sequence

from node.printable import printable
from runner.base.text import counted
from runner.figures.between_runs import CONFIDENCE_PERCENT
from runner.tables.catalogue.column import INCOMPLETE
from runner.tables.catalogue.compared_columns import of_baseline
from runner.tables.catalogue.every_column import COMPARED, for_people, missing
from runner.tables.catalogue.every_column import notes as of_columns
from runner.tables.catalogue.expect_columns import of_expectations
from runner.tables.judged import cell_list, of_verdicts
from runner.tables.row import Row

MOST_SHOWN = 3  # in a terminal, unless all are asked for
_SPREAD = {
    "intervals": "interquartile range of the logged intervals",
    "repeats": "range of the repeats' means",
}


def fewer_notes(all_of_them: Sequence[str], most: int | None) -> list[str]:
    """Return the first `most` notes and how many more there are; None: all of them."""
    more = 0 if most is None else len(all_of_them) - most
    if more <= 0:
        return list(all_of_them)
    which = f"{more} more notes" if more > 1 else "1 more note"
    return [*all_of_them[:most], f"{which}: collect --notes."]


def notes(table: Sequence[Row], shown_keys: Collection[str] | None = None) -> Iterator[str]:
    """Yield the notes below a table: what speaks against its figures, then what its columns are.

    `shown_keys` are those of the columns that a narrow table kept: what explains none of
    them is left out. Without it the notes are those of every column.
    """

    def shows(*keys: str) -> bool:
        return shown_keys is None or any(key in shown_keys for key in keys)

    yield from of_verdicts(table)
    yield from of_patterns(table)
    yield from of_expectations(table)
    if any(row.statistics.basis == "incomplete" for row in table):
        yield f"{INCOMPLETE} measured over the steps trained before the run ended: not a result."
    differ = any(row.comparison and row.comparison.differences for row in table)
    if not differ or shows(*(f"{name}_difference" for name in COMPARED)):
        yield from of_baseline(table)
    yield from of_losses(table)
    yield from _of_rates(table, shows)
    yield from of_columns([c for c in for_people(table) if shows(c.key)], table)


def _of_rates(table: Sequence[Row], shows: Callable[..., bool]) -> Iterator[str]:
    rates = [rate for row in table if (rate := row.statistics.samples_per_s)]
    if not rates:
        return
    timed = " and step time" if shows("step_time_ms", "step_time_ms_p95") else ""
    text = f"samples/s{timed}: work over the time of the steps after warm-up (the window)"
    if any(len(rate.runs) > 1 for rate in rates):
        text += ", the mean of the runs"
    if shows("samples_per_s_spread_percent"):
        spread = " or, with repeats, ".join(
            _SPREAD[of] for of in sorted({rate.spread_of for rate in rates})
        )
        text += f"; spread: {spread}, in percent"
    yield f"{text}."
    if shows("samples_per_s_median", "stalls_percent"):
        yield "median: the median step; stalls: how much more time the steps took than that."
    yield from of_warmup(table)
    if shows("samples_per_s_interval") and any(rate.confidence for rate in rates):
        yield (
            f"{CONFIDENCE_PERCENT}% interval: by Student's t over the runs, and no narrower than"
            " their steps allow."
        )
    whys: dict[str, list[str]] = {}
    for row in table:
        if row.finished and (why := missing(row).get("samples_per_s_ci_low")):
            whys.setdefault(why, []).append(printable(row.cell))
    for why, cells in whys.items():
        yield f"no interval, and no ± of a difference: {why} ({cell_list(cells, of=len(table))})."
    sources = {rate.source for rate in rates}
    if sources != {"log"}:
        where = "" if sources == {"derived"} else " where the log has none"
        yield f"samples/s is global batch size / step time{where}."


def of_warmup(table: Sequence[Row]) -> Iterator[str]:
    """Yield which steps were left out, where we found that ourselves."""
    cells_by_warmup: dict[int, list[str]] = {}
    for row in table:
        stats = row.statistics
        if stats.warmup_found and stats.warmup is not None and stats.samples_per_s:
            cells_by_warmup.setdefault(stats.warmup, []).append(printable(row.cell))
    if not cells_by_warmup:
        return
    left_out = [
        (f"the first {counted(out, 'iteration')}" if out else "nothing")
        + (f" of {cell_list(cells)}" if len(cells_by_warmup) > 1 else "")
        for out, cells in sorted(cells_by_warmup.items())
    ]
    yield (
        f"Warm-up found in the step times (MSER, docs/measures.md), left out: {', '.join(left_out)}"
        " (most of any repeat)."
    )


def of_patterns(table: Sequence[Row]) -> Iterator[str]:
    """Yield which of the matrix's own patterns matched nothing, with the nearest lines, and which
    logs contradict their cells.
    """
    cells: dict[str, list[str]] = {}
    for row in table:
        for why in (*row.statistics.unmatched.values(), *row.record.measurement.contradicted):
            cells.setdefault(why, []).append(printable(row.cell))
    for why, names in cells.items():
        yield f"{why} (`log` of {cell_list(names)})."


def of_losses(table: Sequence[Row]) -> Iterator[str]:
    """Yield which cells learn what their baseline does, and where that cannot be told; and what
    they need to a target loss.
    """
    compared = [(row, row.comparison.parity) for row in table if row.comparison]
    same = [parity for _, parity in compared if parity and parity.same]
    for of in dict.fromkeys(parity.of for parity in same):
        points = min(parity.points for parity in same if parity.of == of)
        yield (
            f"loss vs baseline: same within the curves' noise over at least {points} {of},"
            " docs/measures.md."
        )
    whys: dict[str, list[str]] = {}
    for row, parity in compared:
        if parity and parity.same is None:
            whys.setdefault(parity.why_not, []).append(printable(row.cell))
    for why, cells in whys.items():
        yield f"loss vs baseline: not compared for {cell_list(cells)}: {why}."
    yield from _of_targets(table)


def _of_targets(table: Sequence[Row]) -> Iterator[str]:
    """Yield what a target loss is reached by, which runs did not, and what could not be tested."""
    targets = [(printable(row.cell), row.target) for row in table if row.target]
    for loss in dict.fromkeys(target.loss for _, target in targets):
        yield (
            f"target loss {loss:g}: reached where the smoothed loss is at or below it, ± half a"
            " logged line; in brackets the 95 % interval of the median over the seeds, of six or"
            " more (docs/measures.md)."
        )
    for cell, target in targets:
        if target.not_reached:
            yield f"{cell}: target loss {target.loss:g} {target.not_reached}."
    whys: dict[str, list[str]] = {}
    for row in table:
        learning = row.comparison.learning if row.comparison else None
        if learning and learning.verdict is None:
            whys.setdefault(learning.why_not, []).append(printable(row.cell))
    for why, cells in whys.items():
        yield f"learns vs baseline: not tested for {cell_list(cells)}: {why}."
