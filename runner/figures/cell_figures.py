"""Every figure of a cell, by the key that tables, JSON and comparisons have it under. Pure.

docs/measures.md says what each is. What is not known is None, and `missing` says why.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from runner.figures import devices
from runner.figures.counted_steps import measured, progress
from runner.figures.flops import causal_share, tflop_per_s_per_device, vocabulary
from runner.figures.goodput import RECOVERY
from runner.figures.measured_cell import MeasuredCell
from runner.figures.power import power_figures
from runner.figures.target import QUANTITIES
from runner.logs.numbers import number
from runner.logs.run_sizes import (
    COMPILE_CACHE,
    DROP_RATE,
    EXPERT_IMBALANCE,
    TOKENS_PER_EXPERT,
)
from runner.terms.architecture import Formula
from runner.terms.record import Reached, Record

Figures = dict[str, Any]
NO_ARCHITECTURE = "the system does not say the architecture of its model"
NO_LENGTH = "nothing says the tokens of a sample"
NO_EXPERTS = "the log does not say how the experts were loaded"
NO_RECOVERY = "no failure was followed by another attempt"
HOUR_S, MILLION = 3600.0, 1e6


def cell_figures(cell: MeasuredCell) -> tuple[Figures, dict[str, str], dict[str, float]]:
    """Return the figures, why some are missing, and half of the 95 % interval of some."""
    figures, missing = _speed(cell)
    for part in (_flops, _load, _targets, _start, _experts, _results, _steps, _goodput, _cost):
        more, why = part(cell, figures)
        figures |= more
        missing |= why
    missing = {**cell.statistics.missing, **missing}
    known = {key: why for key, why in missing.items() if why and figures.get(key) is None}
    return {**_asked(cell), **figures}, known, _halves(cell)


def formula(cell: MeasuredCell) -> Formula | None:
    """Return how FLOPs were counted; None without TFLOP/s."""
    return cell.record.model.formula if cell.record.model and padded_vocabulary(cell) else None


_Part = tuple[Figures, Mapping[str, str]]


def _asked(cell: MeasuredCell) -> Figures:
    record = cell.record
    experts = getattr(record.model, "num_experts", 0)
    return {
        "nodes": record.nodes,
        "devices_per_node": record.devices_per_node,
        "devices": record.world_size,
        "micro_batch_size": record.micro_batch_size,
        "global_batch_size": record.global_batch_size,
        "tokens_per_sample": record.sample_length,
        "activation_checkpointing": record.activation_checkpointing,
        "date": record.date or None,
        "device": record.device or None,
        "arithmetic": record.arithmetic,
        "attention": record.attention,
        **({"routing": str(record.parameters.get("routing") or "") or None} if experts else {}),
    }


def _speed(cell: MeasuredCell) -> tuple[Figures, dict[str, str]]:
    record, found = cell.record, cell.statistics
    rate, time, times = found.samples_per_s, found.step_time_ms, found.times
    samples = None if rate is None else rate.value
    length = record.sample_length
    tokens = None if samples is None or length is None else samples * length
    low, high = (rate and rate.confidence) or (None, None)
    clocks = [run.measurement.clock_within_ms for run in cell.records]
    no_length = NO_LENGTH if samples is not None and length is None else ""
    figures = {
        "samples_per_s": samples,
        "samples_per_s_ci_low": low,
        "samples_per_s_ci_high": high,
        "samples_per_s_steps_half_percent": times and times.open_by_steps * 100,
        "clock": record.measurement.clock if times else None,
        "clock_within_ms": max((each for each in clocks if each is not None), default=None),
        "logged_samples_per_s": found.logged_samples_per_s,
        "stalls_percent": found.stalls_percent,
        "samples_per_s_per_device": _of_device(samples, record),
        "tokens_per_s": tokens,
        "tokens_per_s_per_device": _of_device(tokens, record),
        "step_time_ms": time and time.value,
    }
    return figures, {
        "samples_per_s_ci_low": times.missing if times else "",
        "tokens_per_s": no_length,
        "tokens_per_s_per_device": no_length,
    }


def _of_device(rate: float | None, record: Record) -> float | None:
    return None if rate is None or record.world_size <= 0 else rate / record.world_size


def padded_vocabulary(cell: MeasuredCell) -> tuple[int, str] | None:
    """Return the vocabulary in the FLOP formula, "padded" or "unpadded"; None without TFLOP/s."""
    record, rate = cell.record, cell.statistics.samples_per_s
    if record.model is None or rate is None or record.world_size <= 0:
        return None
    return vocabulary(record.model, record.measurement)


def _flops(cell: MeasuredCell, figures: Figures) -> _Part:
    record, rate, size = cell.record, figures["samples_per_s"], padded_vocabulary(cell)
    peak, source = devices.peak(record.device, record.arithmetic)
    again, model = record.activation_checkpointing, record.model

    def needs(recompute: bool | None) -> float | None:
        if model is None or size is None or rate is None or recompute is None:
            return None
        devices_of_run = record.world_size
        return tflop_per_s_per_device(
            model, rate, devices_of_run, recompute=recompute, padded_vocab_size=size[0]
        )

    def percent(flops: float | None, of: float | None) -> float | None:
        return None if flops is None or not of else flops / of * 100

    flops, product = needs(False), _reached(cell)
    share = causal_share(model, size[0]) if model and size else None
    no_flops = "" if size else "no samples/s" if rate is None else NO_ARCHITECTURE
    no_mfu = no_flops or ("" if percent(flops, peak) is not None else source)
    unknown = "" if again is not None else "nothing says whether activations are computed again"
    attention = "nothing says how many of its FLOPs are attention's"
    return {
        "model_tflop_per_s_per_device": flops,
        "log_tflop_per_s_per_device": _log_tflops(cell),
        "flop_vocabulary": f"{size[0]} {size[1]}" if size and size[0] else None,
        "peak_source": None if peak is None else source,
        "mfu_percent": percent(flops, peak),
        "causal_mfu_percent": percent(None if not flops or not share else flops * share, peak),
        "hfu_percent": percent(needs(again), peak),
        "matmul_percent": percent(flops, product.tflop_per_s),
    }, {
        "model_tflop_per_s_per_device": no_flops,
        "log_tflop_per_s_per_device": "the log prints none of its own",
        "mfu_percent": no_mfu,
        "causal_mfu_percent": no_mfu or ("" if share else attention),
        "hfu_percent": no_mfu or unknown,
        "matmul_percent": no_flops or product.missing,
    }


def _log_tflops(cell: MeasuredCell) -> float | None:
    """Return the median of the runs' medians of what their lines say; None where none does."""
    by_run = [
        [rate for step in run if (rate := measured(step.tflop_per_s))]
        for run in cell.statistics.counted
    ]
    return _median(map(_median, by_run))


def _reached(cell: MeasuredCell) -> Reached:
    """Return what doctor's matrix product reached; of several runs that count the mean."""
    products = [run.reached for run in cell.statistics.runs] or [cell.records[0].reached]
    rates = [product.tflop_per_s for product in products if product.tflop_per_s is not None]
    lacking = next((product for product in products if product.tflop_per_s is None), None)
    return lacking or Reached(fmean(rates))


def _load(cell: MeasuredCell, figures: Figures) -> _Part:
    """Return how busy and warm the devices were: of sampled runs the mean, else the log's most."""
    found = cell.statistics
    readings = [busy for run in found.runs if (busy := run.measurement.utilisation)]
    sampled = [item.percent for item in readings if item.source == "samples"]
    shown = (
        sum(sampled) / len(sampled)
        if sampled
        else max((item.percent for item in readings), default=None)
    )
    source = ("samples" if sampled else "log") if readings else None
    power, missing = power_figures(found.runs, found.counted)
    return {"utilisation_percent": shown, "utilisation_source": source, **power}, {
        "utilisation_percent": "the devices were not sampled, and the log shows none",
        **missing,
    }


def _targets(cell: MeasuredCell, figures: Figures) -> _Part:
    target = cell.target
    found = {f"{name}_to_target": target and target.figure(name) for name in QUANTITIES}
    why = target.missing if target else {}
    return {
        "target_loss": target and target.loss,
        "target_reached": target and target.reached,
        **found,
    }, {f"{name}_to_target": why.get(name, "") for name in QUANTITIES}


def _start(cell: MeasuredCell, figures: Figures) -> _Part:
    """Return how long runs took until they logged a step, and what of it was compiling."""
    ran = [run.measurement for run in cell.statistics.runs]
    firsts = [run.first_step for run in ran if run.first_step]
    caches = [cache for run in ran if (cache := run.facts.get(COMPILE_CACHE))]
    return {
        "time_to_first_step_s": _median(first.seconds for first in firsts),
        "first_logged_iteration": max((first.iteration for first in firsts), default=None),
        "compile_s": _median(run.compile_s for run in ran),
        "compile_cache": "; ".join(dict.fromkeys(caches)) or None,
    }, {
        "time_to_first_step_s": "when the first step was logged is not known",
        "compile_s": "the log does not say what was compiled",
    }


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _experts(cell: MeasuredCell, figures: Figures) -> _Part:
    """Return how evenly tokens went to experts, by the last logged line of each run."""

    def of(fact: str) -> float | None:
        texts = (run.measurement.facts.get(fact) for run in cell.statistics.runs)
        return _median(number(text.encode()) for text in texts if text)

    dropped = of(DROP_RATE)
    found = {
        "tokens_per_expert": of(TOKENS_PER_EXPERT),
        "expert_imbalance": of(EXPERT_IMBALANCE),
        "expert_drop_percent": None if dropped is None else 100 * dropped,
    }
    told = any(value is not None for value in found.values())
    return found if told else {}, dict.fromkeys(found, NO_EXPERTS)


def _results(cell: MeasuredCell, figures: Figures) -> _Part:
    runs = cell.statistics.runs

    def of_all(values: Sequence[float | None]) -> float | None:
        """Return the median of the runs that count; None where one of them has none."""
        return None if None in values else _median(values)

    return {
        **cell.statistics.memory,
        "final_loss": cell.statistics.final_loss,
        "validation_loss": of_all(
            [next((loss for _, loss in run.measurement.validation[-1:]), None) for run in runs]
        ),
        "perplexity": of_all([run.measurement.perplexity for run in runs]),
    }, {}


def _steps(cell: MeasuredCell, figures: Figures) -> _Part:
    found = cell.statistics
    first, last = found.window or (None, None)
    trained, planned = progress(cell.record)
    counts = {
        "iterations_trained": trained,
        "counted_lines": len(found.lines),
        "steps_measured": sum(found.steps_by_run),
        "steps_skipped": found.after_warmup(lambda line: line.skipped),
        "steps_nan": found.after_warmup(lambda line: line.nan),
        "lines_paused": found.after_warmup(lambda line: line.paused),
        "warmup_iters": found.warmup,
        "warmup_source": "found" if found.warmup_found else "given",
    }
    if found.basis == "none":  # a run that did not train has no counts, not 0
        counts = dict.fromkeys(counts)
    return {
        **counts,
        "iterations_planned": planned,
        "window_first_iteration": first,
        "window_last_iteration": last,
        "repeats_ok": sum(record.status == "ok" for record in cell.records),
        "repeats_total": len(cell.records),
        "repeats_until_percent": cell.record.until_percent,
    }, {}


def _goodput(cell: MeasuredCell, figures: Figures) -> _Part:
    goodput = cell.goodput
    if goodput is None:
        return {}, {}
    return {
        "goodput_percent": goodput.percent,
        "faults": goodput.faults,
        **{key: mean and mean.value for key, mean in goodput.costs.items()},
    }, dict.fromkeys(RECOVERY, NO_RECOVERY)


def _halves(cell: MeasuredCell) -> dict[str, float]:
    """Return half of the 95 % interval of the figures that have one, the larger half."""
    halves: dict[str, float | None] = {}
    rate, goodput = cell.statistics.samples_per_s, cell.goodput
    if rate and rate.confidence:
        low, high = rate.confidence
        halves["samples_per_s"] = max(rate.value - low, high - rate.value)
    if goodput:
        halves |= {key: mean.half for key, mean in goodput.costs.items() if mean}
        halves["goodput_percent"] = goodput.half_percent
    return {key: half for key, half in halves.items() if half is not None}


def _cost(cell: MeasuredCell, figures: Figures) -> _Part:
    if not cell.device_hour or cell.statistics.basis != "ok":
        return {}, {}
    hourly, rate = cell.device_hour * cell.record.world_size, figures["tokens_per_s"]
    seconds = figures["seconds_to_target"]
    no_target = (cell.target.missing if cell.target else {}).get("seconds", "")
    return {
        "cost_per_million_tokens": None if rate is None else hourly / HOUR_S / rate * MILLION,
        "cost_to_target": None if seconds is None else hourly * seconds / HOUR_S,
    }, {
        "cost_per_million_tokens": cell.statistics.missing.get("samples_per_s") or NO_LENGTH,
        "cost_to_target": no_target or "the matrix has no target_loss",
    }
