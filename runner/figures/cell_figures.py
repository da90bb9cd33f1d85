"""Every figure of a cell, by the key that tables, JSON and comparisons have it under. Pure.

docs/measures.md says what each is. What is not known is None, and `missing` says why.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from runner.figures import devices
from runner.figures.cell_statistics import runs_that_count
from runner.figures.experts import NOT_SAID as NO_EXPERTS
from runner.figures.flops import causal_share, tflop_per_s_per_device, vocabulary
from runner.figures.goodput import Goodput, Mean
from runner.figures.measured_cell import MeasuredCell
from runner.figures.planned import progress
from runner.figures.startup import NOT_SAID, NOT_SEEN
from runner.terms.architecture import Formula
from runner.terms.memory import MEMORY
from runner.terms.record import Reached, Record, Utilisation

Figures = dict[str, Any]
NO_ARCHITECTURE = "the system does not say the architecture of its model"
NO_LENGTH = "nothing says the tokens of a sample"
NO_RECOVERY = "no failure was followed by another attempt"
RECOVERY = ("notice_s", "running_s", "lost_steps")  # of a failure, as columns
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

    flops, product = needs(False), reached(cell.records)
    share = causal_share(model, size[0]) if model and size else None
    no_flops = "" if size else "no samples/s" if rate is None else NO_ARCHITECTURE
    no_mfu = no_flops or ("" if percent(flops, peak) is not None else source)
    unknown = "" if again is not None else "nothing says whether activations are computed again"
    attention = "nothing says how many of its FLOPs are attention's"
    return {
        "model_tflop_per_s_per_device": flops,
        "log_tflop_per_s_per_device": cell.statistics.log_tflop_per_s,
        "flop_formula": model.formula.id if model and size else None,
        "flop_vocab_size": (size[0] or None) if size else None,
        "flop_vocabulary": size[1] if size and size[0] else None,
        "peak_tflop_per_s": peak,
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


def reached(records: Sequence[Record]) -> Reached:
    """Return what doctor's matrix product reached; of several runs that count the mean."""
    runs = runs_that_count(records)[1]
    measured = [run.reached for run in runs] or [records[0].reached]
    rates = [product.tflop_per_s for product in measured if product.tflop_per_s is not None]
    lacking = next((product for product in measured if product.tflop_per_s is None), None)
    return lacking or Reached(fmean(rates))


def _utilisation(cell: MeasuredCell) -> Utilisation | None:
    """Of the runs that count: the mean of those that were sampled, else the largest reading."""
    runs = runs_that_count(cell.records)[1]
    readings = [run.measurement.utilisation for run in runs if run.measurement.utilisation]
    sampled = [item.percent for item in readings if item.source == "samples"]
    if sampled:
        return Utilisation(sum(sampled) / len(sampled), "samples")
    return max(readings, key=lambda item: item.percent, default=None)


def _load(cell: MeasuredCell, figures: Figures) -> _Part:
    power, busy = cell.statistics.power, _utilisation(cell)
    heat = power.thermals
    return {
        "utilisation_percent": busy.percent if busy else None,
        "utilisation_source": busy.source if busy else None,
        "energy_per_token_j": power.joules_per_token,
        "energy_method": power.method,
        "energy_within_percent": power.within_percent,
        "energy_per_token_log_j": power.log_joules_per_token,
        "mean_power_w": heat.mean_power_w,
        "idle_power_w": heat.idle_power_w,
        "temperature_max_c": heat.temperature_c,
        "sm_clock_min_mhz": heat.sm_clock_mhz,
        "throttled": None if heat.throttled is None else "; ".join(heat.throttled) or "no",
    }, {
        "utilisation_percent": "the devices were not sampled, and the log shows none",
        **power.reasons,
    }


def _targets(cell: MeasuredCell, figures: Figures) -> _Part:
    target, validation = cell.target, cell.validation_target
    found: Figures = {
        "target_loss": target.loss if target else None,
        "target_reached": target.reached if target else None,
        "target_validation_loss": validation.loss if validation else None,
    }
    why = {}
    for of, needed in (("target", target), ("validation_target", validation)):
        for name in ("iterations", "seconds"):
            middle = needed.figures.get(name) if needed else None
            found[f"{name}_to_{of}"] = middle.median if middle else None
            why[f"{name}_to_{of}"] = needed.missing.get(name, "") if needed else ""
    return found, why


def _start(cell: MeasuredCell, figures: Figures) -> _Part:
    start = cell.statistics.startup
    return {
        "time_to_first_step_s": start.first_step_s,
        "first_logged_iteration": start.first_iteration,
        "compile_s": start.compile_s,
        "compile_cache": "; ".join(dict.fromkeys(start.caches)) or None,
    }, {"time_to_first_step_s": NOT_SEEN, "compile_s": NOT_SAID}


def _experts(cell: MeasuredCell, figures: Figures) -> _Part:
    experts = cell.statistics.experts
    found = {
        "tokens_per_expert": experts.tokens_per_expert,
        "expert_imbalance": experts.imbalance,
        "expert_drop_percent": experts.drop_percent,
    }
    if all(value is None for value in found.values()):
        return {}, dict.fromkeys(found, NO_EXPERTS)
    return found, dict.fromkeys(found, NO_EXPERTS)


def _results(cell: MeasuredCell, figures: Figures) -> _Part:
    def of_runs(read: Callable[[Record], float | None]) -> float | None:
        """Return the median of the runs that count; None where one of them has none."""
        runs = runs_that_count(cell.records)[1]
        values = [value for run in runs if (value := read(run)) is not None]
        return median(values) if values and len(values) == len(runs) else None

    return {
        **{key: getattr(cell.statistics, key) for key in MEMORY},
        "final_loss": cell.statistics.final_loss,
        "validation_loss": of_runs(
            lambda run: next((loss for _, loss in run.measurement.validation[-1:]), None)
        ),
        "perplexity": of_runs(lambda run: run.measurement.perplexity),
    }, {}


def _steps(cell: MeasuredCell, figures: Figures) -> _Part:
    found = cell.statistics
    first, last = found.window or (None, None)
    trained, planned = progress(cell.record)
    counts = {
        "iterations_trained": trained,
        "logged_lines": found.logged_lines,
        "counted_lines": found.counted_lines,
        "steps_measured": found.steps_measured,
        "steps_skipped": found.steps_skipped,
        "steps_nan": found.steps_nan,
        "lines_paused": found.lines_paused,
        "warmup_iters": found.warmup,
        "warmup_source": "found" if found.warmup_found else "given",
    }
    if found.basis == "none":  # a run that did not train has no counts, not 0
        counts = dict.fromkeys(counts)
    return {
        **counts,
        "iterations_planned": planned,
        "iterations_per_line": found.iterations_per_line,
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
        "effective_tokens_per_s": goodput.tokens_per_s,
        "faults": goodput.faults,
        **{key: mean and mean.value for key, mean in _faults_cost(goodput).items()},
        "checkpoint_bytes": goodput.checkpoint_bytes,
    }, {f"recovery_{name}": NO_RECOVERY for name in RECOVERY}


def _faults_cost(goodput: Goodput) -> dict[str, Mean | None]:
    """Return what a failure costs, and a checkpoint, by the key of its column."""
    recovery = {f"recovery_{name}": goodput.mean(name) for name in RECOVERY}
    return {**recovery, "checkpoint_stall_s": goodput.stall_s}


def _halves(cell: MeasuredCell) -> dict[str, float]:
    """Return half of the 95 % interval of the figures that have one, the larger half."""
    halves: dict[str, float | None] = {}
    rate, goodput = cell.statistics.samples_per_s, cell.goodput
    if rate and rate.confidence:
        low, high = rate.confidence
        halves["samples_per_s"] = max(rate.value - low, high - rate.value)
    if goodput:
        halves |= {key: mean.half for key, mean in _faults_cost(goodput).items() if mean}
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
