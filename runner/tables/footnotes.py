"""What a reader must know to use the numbers of a table; each note only where it applies."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

from node.printable import printable
from runner.base.text import counted
from runner.figures.between_runs import CONFIDENCE_PERCENT
from runner.figures.power import LOG
from runner.tables.columns import DOUBTFUL, INCOMPLETE
from runner.tables.judged import of_verdicts, some
from runner.tables.machine import machine_value
from runner.tables.row import COMPARED, Row
from runner.terms.memory import MEMORY

MOST_SHOWN = 3  # in a terminal, unless all are asked for
ALIKE_PERCENT = 3.0  # energy by the trainer and by us, which are edged by lines and by samples
_SPREAD = {
    "intervals": "interquartile range of the logged intervals",
    "repeats": "range of the repeats' medians",
}


def fewer_notes(all_of_them: Sequence[str], most: int | None) -> list[str]:
    """Return the first `most` notes and how many more there are; None: all of them."""
    more = 0 if most is None else len(all_of_them) - most
    if more <= 0:
        return list(all_of_them)
    which = f"{more} more notes" if more > 1 else "1 more note"
    return [*all_of_them[:most], f"{which}: collect --notes."]


def notes(table: Sequence[Row], shown: Collection[str] | None = None) -> Iterator[str]:
    """Yield the notes below a table: what speaks against its figures, then what its columns are.

    `shown` are the keys of the columns that a narrow table kept: what explains none of them is left
    out. Without it the notes are those of every column.
    """

    def shows(*keys: str) -> bool:
        return shown is None or any(key in shown for key in keys)

    yield from of_verdicts(table)
    yield from of_patterns(table)
    if any(row.statistics.basis == "incomplete" for row in table):
        yield f"{INCOMPLETE} measured over the steps trained before the run ended: not a result."
    if shows(*(f"{name}_difference" for name in COMPARED)):
        yield from _of_baseline(table)
    yield from of_losses(table)
    yield from _of_rates(table, shows)
    flops = ("model_tflop_per_s_per_device", "hardware_tflop_per_s_per_device")
    formulas = dict.fromkeys(row.formula for row in table if row.formula)
    for formula in formulas if shows(*flops) else ():
        yield (
            f"TFLOP/s per device: {formula.id} = {formula.expression},"
            f" {formula.meaning} ({formula.source}); rows compare only where window and"
            " vocabulary are the same."
        )
    if shows("log_tflop_per_s_per_device") and any(r.statistics.log_tflop_per_s for r in table):
        yield (
            "log's TFLOP/s: what the trainer prints, by its own count, which may take half of the"
            " attention or what is computed again (docs/measures.md)."
        )
    peaks = dict.fromkeys(row.peak_source for row in table if row.mfu_percent is not None)
    if peaks and shows("mfu_percent", "hfu_percent"):
        yield f"MFU, HFU: of the device's dense peak ({'; '.join(map(str, peaks))})."
    if shows("matmul_percent") and any(row.matmul_percent is not None for row in table):
        yield (
            "Of matmul: model TFLOP/s in percent of what doctor's matrix product reached on the"
            " same devices in the same arithmetic, at most a week before."
        )
    if shows("utilisation_percent") and any(row.utilisation for row in table):
        yield f"Utilisation: {_utilisation(table)}."
    yield from _of_energy(table) if shows("energy_per_token_j") else ()
    if shows("time_to_first_step_s"):
        yield from _of_startup(table)
    yield from _of_memory(table, shows)
    scaling = shows("strong_scaling_efficiency", "weak_scaling_efficiency")
    if scaling and any(row.scaling for row in table):
        yield (
            "Scaling: samples/s per device over that of the series' smallest device count;"
            " strong: same global batch, weak: global batch in proportion to the devices."
        )
    if shown is None or any(key.startswith("published_") for key in shown):
        yield from of_published(table)


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
        if row.finished and (why := row.missing.get("samples_per_s_ci_low")):
            whys.setdefault(why, []).append(printable(row.cell))
    for why, cells in whys.items():
        yield f"no interval, and no ± of a difference: {why} ({some(cells, of=len(table))})."
    sources = {rate.source for rate in rates}
    if sources != {"log"}:
        where = "" if sources == {"derived"} else " where the log has none"
        yield f"samples/s is global batch size / step time{where}."


def _of_energy(table: Sequence[Row]) -> Iterator[str]:
    """Yield what energy is of, ± how much, whose is the trainer's own, and where the two differ."""
    if any(row.power.joules_per_token is not None for row in table):
        within = max((row.power.within_percent or 0.0 for row in table), default=0.0)
        known = f"; samples and polls leave up to ±{within:.1f} % open" if within >= 0.1 else ""
        yield f"J/token: what the devices took over the counted steps, not their machines{known}."
    own = [printable(row.cell) for row in table if row.power.method == LOG]
    if own:
        yield f"Energy of {some(own)}: by the trainer's own lines."
    for row in table:
        more = row.power.log_difference_percent
        if more is not None and abs(more) > ALIKE_PERCENT:
            yield (
                f"Energy of {printable(row.cell)}: the trainer's own lines say {more:+.1f} % of"
                f" what we measured ({row.power.method})."
            )


def _of_startup(table: Sequence[Row]) -> Iterator[str]:
    firsts = sorted({at for row in table if (at := row.statistics.startup.first_iteration)})
    if firsts:
        each = ", ".join(map(str, firsts[:4])) + (", ..." if len(firsts) > 4 else "")
        compiled = any(row.statistics.startup.compile_s is not None for row in table)
        yield (
            "first step: seconds from the launcher's start to the first logged line (iteration"
            f" {each})" + ("; compile: what of it the log says was compiling." * compiled or ".")
        )
    for row in table:
        if len(found := Counter(row.statistics.startup.caches)) > 1:
            each = ", ".join(f"{count} {word}" for word, count in found.items())
            yield (
                f"first step and compile of {printable(row.cell)}: medians of runs with different"
                f" compile caches ({each}); compare only runs whose caches are alike."
            )


def _of_memory(table: Sequence[Row], shows: Callable[..., bool]) -> Iterator[str]:
    known = [key for key in MEMORY if any(machine_value(row, key) is not None for row in table)]
    parts = [f"{MEMORY[key].title}: {MEMORY[key].meaning}" for key in known if shows(key)]
    if parts:
        yield f"Memory, MiB; {'; '.join(parts)}."


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
        + (f" of {some(cells)}" if len(cells_by_warmup) > 1 else "")
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
        yield f"{why} (`log` of {some(names)})."


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
        yield f"loss vs baseline: not compared for {some(cells)}: {why}."
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
        yield f"learns vs baseline: not tested for {some(cells)}: {why}."


def of_published(table: Sequence[Row]) -> Iterator[str]:
    """Yield where the published figures are from."""
    sources = dict.fromkeys((d.source, d.hardware) for row in table for d in row.published)
    for source, hardware in sources:
        on = f", on {printable(hardware)}" if hardware else ""
        yield f"published: {printable(source)}{on}; in brackets how much more ours is."


def _utilisation(table: Sequence[Row]) -> str:
    meanings = {
        "samples": "mean of all devices' samples while the counted steps ran",
        "log": "the busiest reading that the log shows",
    }
    kinds = dict.fromkeys(row.utilisation.source for row in table if row.utilisation)
    return "; or ".join(meanings[kind] for kind in kinds)


def _of_baseline(table: Sequence[Row]) -> Iterator[str]:
    compared = [(row, row.comparison) for row in table if row.comparison]
    for _, first in compared[:1]:
        yield (
            f"Baseline {first.axis}={first.value}: difference from the cell with the same other"
            " axes, and percent of it."
        )
    for row, comparison in compared:
        if comparison.note:
            mark, verb = (f"{DOUBTFUL} ", "") if comparison.differences else ("", "not compared: ")
            yield f"{mark}{printable(row.cell)}: {verb}{printable(comparison.note)}."
