"""What a reader must know to use the numbers of a table; each note only where it applies."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from node.printable import printable
from runner.base import text
from runner.figures.between_runs import CONFIDENCE_PERCENT
from runner.figures.power import LOG
from runner.figures.publishable import CODES
from runner.tables.columns import DOUBTFUL, INCOMPLETE, select
from runner.tables.row import PUBLISHABLE, Row, finished
from runner.terms.memory import MEMORY

ALIKE_PERCENT = 3.0  # energy by the trainer and by us, which are edged by lines and by samples
MOST_WHYS = 2  # of one code that are told: each cell's stand in --strict, and in the other formats
_TOLD_BY_STATUS = "not_ok"  # whose reasons stand above the notes
SCALED = (
    "Scaling: samples/s per device over that of the series' smallest device count; strong: same"
    " global batch, weak: global batch in proportion to the devices."
)
_UTILISATION = {
    "samples": "mean of all devices' samples while the counted steps ran",
    "log": "the busiest reading that the log shows",
}


def notes(table: Sequence[Row]) -> Iterator[str]:
    """Yield the notes below a table: what speaks against its figures, then what its columns are."""
    yield from of_verdicts(table)
    yield from _each(table, lambda row: row["notes"], "{why} (`log` of {cells}).")
    for row in table:
        if row["expected"]:
            yield f"Beside others, {printable(row['cell'])}: {printable(row['expected']['words'])}."
    if any(row["numbers_from"] and not finished(row) for row in table):
        yield f"{INCOMPLETE} measured over the steps trained before the run ended: not a result."
    yield from of_baseline(table)
    yield from of_losses(table)
    yield from _of_rates(table)
    yield from of_published(table)
    yield from _of_columns(table)


def problems(table: Sequence[Row]) -> list[str]:
    """Say of each row that is not ok how it ended, and why."""
    return [
        f"{printable(row['cell'])}: {row['status']}: {printable(row['reason'])}"
        for row in table
        if row["status"] != "ok"
    ]


def why_not(row: Row) -> str:
    """Say all that speaks against a cell in one line; nothing where it is publishable."""
    return "; ".join(f"{word}: {why}" for word, why in row["verdict_reasons"].items())


def cell_list(cells: Sequence[str], most: int = 4, *, of: int | None = None) -> str:
    """Name some cells, or all `of` them in one."""
    if len(cells) == of and of > 1:
        return "every cell"
    return text.listing(cells, most)


def _each(
    table: Sequence[Row], reasons: Callable[[Row], Collection[str]], sentence: str
) -> Iterator[str]:
    """Yield a sentence for each reason, with the cells that have it."""
    cells: dict[str, list[str]] = {}
    for row in table:
        for why in filter(None, reasons(row)):
            cells.setdefault(why, []).append(printable(row["cell"]))
    for why, names in cells.items():
        yield sentence.format(why=why, cells=cell_list(names, of=len(table)))


def of_verdicts(table: Sequence[Row]) -> Iterator[str]:
    """Yield how many cells are publishable, then each code but that which a status says."""
    good = sum(row["verdict"] == PUBLISHABLE for row in table)
    if good < len(table):
        yield f"Publishable: {good} of {len(table)} cells (docs/measures.md)."
    for word, code in CODES.items():
        cells: dict[str, list[str]] = {}
        for row in table:
            if word in row["verdict_reasons"] and word != _TOLD_BY_STATUS:
                cells.setdefault(row["verdict_reasons"][word], []).append(printable(row["cell"]))
        if cells:
            whys = [
                f"{printable(why)} ({cell_list(names, of=len(table))})"
                for why, names in cells.items()
            ]
            whose = text.listing(whys, MOST_WHYS, "; ")
            yield f"{code.sign} {word}: {whose}. {code.cure}.".lstrip()


def of_baseline(table: Sequence[Row]) -> Iterator[str]:
    """Yield what the baseline is, and which cells have none or a doubtful one."""
    compared = [(row, row["comparison"]) for row in table if row["comparison"]]
    for _, first in compared[:1]:
        yield (
            f"Baseline {first['axis']}={first['value']}: difference from the cell with the same"
            " other axes, and percent of it."
        )
    for row, comparison in compared:
        if comparison["note"]:
            doubtful = bool(comparison["differences"])
            mark, verb = (f"{DOUBTFUL} ", "") if doubtful else ("", "not compared: ")
            yield f"{mark}{printable(row['cell'])}: {verb}{printable(comparison['note'])}."


def of_losses(table: Sequence[Row]) -> Iterator[str]:
    """Yield which cells learn what their baseline does, and where that cannot be told; and what
    they need to a target loss.
    """
    losses = [c["loss"] for row in table if (c := row["comparison"]) and c["loss"]]
    same = [loss for loss in losses if loss["same"]]
    for of in dict.fromkeys(loss["of"] for loss in same):
        points = min(loss["points"] for loss in same if loss["of"] == of)
        yield (
            f"loss vs baseline: same within the curves' noise over at least {points} {of},"
            " docs/measures.md."
        )
    not_told = "loss vs baseline: not compared for {cells}: {why}."
    yield from _each(table, lambda row: [row["missing"].get("loss_parity", "")], not_told)
    targets = [(row, row["targets"]["target"]) for row in table if "target" in row["targets"]]
    for loss in dict.fromkeys(target["loss"] for _, target in targets):
        yield (
            f"target loss {loss:g}: reached where the smoothed loss is at or below it, ± half a"
            " logged line; in brackets the 95 % interval of the median over the seeds, of six or"
            " more (docs/measures.md)."
        )
    for row, target in targets:
        if target["not_reached"]:
            loss = target["loss"]
            yield f"{printable(row['cell'])}: target loss {loss:g} {target['not_reached']}."
    not_tested = "learns vs baseline: not tested for {cells}: {why}."
    yield from _each(table, lambda row: [row["missing"].get("learns", "")], not_tested)


def _of_rates(table: Sequence[Row]) -> Iterator[str]:
    rated = [row for row in table if row["figures"]["samples_per_s"] is not None]
    if not rated:
        return
    said = "samples/s and step time: work over the time of the steps after warm-up (the window)"
    if any(sum(run["samples_per_s"] is not None for run in row["runs"]) > 1 for row in rated):
        said += ", the mean of the runs"
    yield f"{said}."
    if any(abs(row["figures"]["stalls_percent"] or 0.0) >= 0.05 for row in rated):
        yield "stalls: how much more time the steps took than if each had been the median one."
    yield from of_warmup(table)
    if any("samples_per_s" in row["halves"] for row in rated):
        yield (
            f"±: half of the {CONFIDENCE_PERCENT} % interval by Student's t over the runs, and no"
            " narrower than their steps allow."
        )
    yield from _each(
        table,
        lambda row: [row["missing"].get("samples_per_s_ci_low", "")] if finished(row) else [],
        "no interval, and no ± of a difference: {why} ({cells}).",
    )


def of_warmup(table: Sequence[Row]) -> Iterator[str]:
    """Yield which steps were left out, where we found that ourselves."""
    cells_by_warmup: dict[int, list[str]] = {}
    for row in table:
        figures = row["figures"]
        if figures["warmup_source"] == "found" and figures["samples_per_s"] is not None:
            cells_by_warmup.setdefault(figures["warmup_iters"], []).append(printable(row["cell"]))
    if not cells_by_warmup:
        return
    left_out = [
        (f"the first {text.counted(out, 'iteration')}" if out else "nothing")
        + (f" of {cell_list(cells)}" if len(cells_by_warmup) > 1 else "")
        for out, cells in sorted(cells_by_warmup.items())
    ]
    yield (
        f"Warm-up found in the step times (MSER, docs/measures.md), left out: {', '.join(left_out)}"
        " (most of any repeat)."
    )


def of_published(table: Sequence[Row]) -> Iterator[str]:
    """Yield where the published figures are from."""
    documents = [(each["source"], each["hardware"]) for row in table for each in row["published"]]
    for source, hardware in dict.fromkeys(documents):
        on = f", on {printable(hardware)}" if hardware else ""
        yield f"published: {printable(source)}{on}; in brackets how much more ours is."


def _of_formulas(table: Sequence[Row]) -> Iterator[str]:
    formulas = {f["id"]: f for row in table if (f := row["formula"])}
    for formula in formulas.values():
        yield (
            f"TFLOP/s per device: {formula['id']} = {formula['expression']}, {formula['meaning']}"
            f" ({formula['source']}); rows compare only where window and vocabulary are the same."
        )


def _of_peaks(table: Sequence[Row]) -> Iterator[str]:
    measured = [row["figures"] for row in table if row["figures"]["mfu_percent"] is not None]
    if measured:
        peaks = "; ".join(dict.fromkeys(str(figures["peak_source"]) for figures in measured))
        yield f"MFU, HFU: of the device's dense peak ({peaks})."


def _of_utilisation(table: Sequence[Row]) -> Iterator[str]:
    kinds = dict.fromkeys(row["figures"]["utilisation_source"] for row in table)
    if any(kinds):
        yield f"Utilisation: {'; or '.join(_UTILISATION[kind] for kind in kinds if kind)}."


def _of_energy(table: Sequence[Row]) -> Iterator[str]:
    """Yield what energy is of, ± how much, whose is the trainer's own, and where the two differ."""
    if any(row["figures"]["energy_per_token_j"] is not None for row in table):
        within = max(row["figures"]["energy_within_percent"] or 0.0 for row in table)
        left = f"; samples and polls leave up to ±{within:.1f} % open" if within >= 0.1 else ""
        yield f"J/token: what the devices took over the counted steps, not their machines{left}."
    cells = [printable(r["cell"]) for r in table if r["figures"]["energy_method"] == LOG]
    if cells:
        yield f"Energy of {cell_list(cells)}: by the trainer's own lines."
    for row in table:
        figures = row["figures"]
        ours, logged = figures["energy_per_token_j"], figures["energy_per_token_log_j"]
        if not ours or logged is None or figures["energy_method"] == LOG:
            continue
        more = (logged / ours - 1) * 100
        if abs(more) > ALIKE_PERCENT:
            yield (
                f"Energy of {printable(row['cell'])}: the trainer's own lines say {more:+.1f} % of"
                f" what we measured ({figures['energy_method']})."
            )


def _of_start(table: Sequence[Row]) -> Iterator[str]:
    figures = [row["figures"] for row in table]
    firsts = sorted({at for each in figures if (at := each["first_logged_iteration"])})
    if firsts:
        iterations = ", ".join(map(str, firsts[:4])) + (", ..." if len(firsts) > 4 else "")
        compiled = any(each["compile_s"] is not None for each in figures)
        yield (
            "first step: seconds from the launcher's start to the first logged line (iteration"
            f" {iterations})"
            + ("; compile: what of it the log says was compiling." * compiled or ".")
        )
    for row in table:
        caches = row["figures"]["compile_cache"] or ""
        if ";" in caches:
            yield (
                f"first step and compile of {printable(row['cell'])}: medians of runs with"
                f" different compile caches ({printable(caches)}); compare only runs whose caches"
                " are alike."
            )


def _of_memory(table: Sequence[Row]) -> Iterator[str]:
    """Yield what each figure of memory that the table has is the peak of."""
    parts = [
        f"{figure.title}: {figure.meaning}"
        for key, figure in MEMORY.items()
        if any(row["figures"][key] is not None for row in table)
    ]
    if parts:
        yield f"Memory, MiB; {'; '.join(parts)}."


# What the columns are; of those that nothing is said of, the title says it.
_TOLD: Mapping[str, str | Callable[[Sequence[Row]], Iterator[str]]] = {
    "goodput_percent": "goodput: time of steps that counted (less checkpoints' stalls, and what a"
    " fault held up), of all time from the first launcher's start to the last step;"
    " docs/how-to/goodput.md",
    "recovery_notice_s": "notice: seconds from a failure until it was noticed; means over the"
    " failures, ± half of the 95 % interval",
    "recovery_running_s": "running again: seconds from a failure to the next step's begin",
    "checkpoint_stall_s": "save stall: how long training stood still for a checkpoint",
    "strong_scaling_efficiency": SCALED,
    "weak_scaling_efficiency": SCALED,
    "model_tflop_per_s_per_device": _of_formulas,
    "causal_mfu_percent": "causal: with half of the attention, since causal kernels leave half out"
    " (docs/measures.md).",
    "log_tflop_per_s_per_device": "log's TFLOP/s: what the trainer prints, by its own count, which"
    " may take half of the attention or what is computed again (docs/measures.md).",
    "mfu_percent": _of_peaks,
    "matmul_percent": "Of matmul: model TFLOP/s in percent of what doctor's matrix product reached"
    " on the same devices in the same arithmetic, at most a week before.",
    "utilisation_percent": _of_utilisation,
    "energy_per_token_j": _of_energy,
    "time_to_first_step_s": _of_start,
    "expert_imbalance": "Expert imbalance: tokens of a layer's busiest expert over the mean of its"
    " experts, in the last logged line; 1 is balance.",
    next(iter(MEMORY)): _of_memory,
}


def _of_columns(table: Sequence[Row]) -> Iterator[str]:
    """Yield what the columns are that have a value, in their order; each sentence once."""
    shown = {column.key for column in select(table)[0]}
    told: list[object] = []
    for key, words in _TOLD.items():
        if callable(words):
            yield from words(table)
        elif key in shown and words not in told:
            told.append(words)
            yield words
