"""The columns that people read: what each is called, and its text in a row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from node.printable import printable
from runner.base.text import some
from runner.figures.planned import progress
from runner.figures.target import QUANTITIES, TimeToTarget
from runner.tables.formatting import (
    MISSING,
    axis_text,
    change_text,
    decimals,
    initials,
    number_text,
    percent_text,
)
from runner.tables.judged import signs, verdict_text
from runner.tables.machine import machine_value
from runner.tables.row import Row, axis_names, sizes_named
from runner.terms.memory import MEMORY

INCOMPLETE = "†"  # beside a number of a run that did not end ok
DOUBTFUL = "‡"  # beside a difference that a note says something about

# Axes that already have a column of their own, as the parallel sizes have.
_SHOWN = frozenset(
    {
        "system",
        "nodes",
        "devices_per_node",
        "micro_batch_size",
        "global_batch_size",
    }
)
# Decimals where four significant digits are not what a reader wants.
_PLACES = {
    "tokens_per_s": 0,
    "tokens_per_s_per_device": 0,
    **dict.fromkeys(MEMORY, 0),
    "final_loss": 4,
    "validation_loss": 4,
    "iterations_to_target": 0,
    "iterations_to_validation_target": 0,
    "tokens_to_target": 0,
    "utilisation_percent": 0,
    "energy_per_token_j": 5,
    "mean_power_w": 0,
    "temperature_max_c": 0,
    "time_to_first_step_s": 1,
    "compile_s": 1,
    "mfu_percent": 1,
    "hfu_percent": 1,
    "matmul_percent": 1,
    "logged_lines": 0,
    "counted_lines": 0,
    "steps_measured": 0,
}
# Headers of machine columns in tables laid out by hand; others stand under their machine name.
HEADERS = {
    "samples_per_s": "samples/s",
    "samples_per_s_per_device": "samples/s/device",
    "tokens_per_s": "tokens/s",
    "tokens_per_s_per_device": "tokens/s/device",
    "step_time_ms": "step ms",
    **{key: f"{figure.title} MiB" for key, figure in MEMORY.items()},
    "model_tflop_per_s_per_device": "model TFLOP/s/device",
    "log_tflop_per_s_per_device": "log's TFLOP/s/device",
    "mfu_percent": "MFU %",
    "hfu_percent": "HFU %",
    "matmul_percent": "of matmul %",
    "utilisation_percent": "utilisation %",
    "energy_per_token_j": "devices' J/token",
    "tokens_per_j": "tokens/J of devices",
    "mean_power_w": "W/device",
    "idle_power_w": "idle W/device",
    "temperature_max_c": "max °C",
    "sm_clock_min_mhz": "min SM MHz",
    "time_to_first_step_s": "first step s",
    "compile_s": "compile s",
    "final_loss": "final loss",
    "validation_loss": "validation loss",
    **{f"{name}_to_target": f"{name} to target" for name in QUANTITIES},
    **{f"{name}_to_validation_target": f"{name} to validation target" for name in QUANTITIES},
    "joules_to_target": "devices' J to target",
    "perplexity": "PPL",
    "logged_lines": "logged lines",
    "counted_lines": "counted lines",
    "steps_measured": "steps",
}


@dataclass(frozen=True)
class Column:
    """A column for people; `key` is the machine name of what it shows.

    `kind` "setting" folds into what is common to all rows when they agree. `header` has the line
    breaks of a narrow table.
    """

    key: str
    header: str
    text: Callable[[Row], str]
    kind: Literal["name", "setting", "measure"] = "measure"

    @property
    def one_line_header(self) -> str:
        """The header without its line breaks."""
        return self.header.replace("/\n", "/").replace("\n/", "/").replace("\n", " ")


def columns(table: Sequence[Row]) -> list[Column]:
    """Return every column for people, in order; `select_columns` leaves out and folds."""
    shown = _SHOWN | set(sizes_named(table))
    return [
        Column("cell", "cell", lambda r: printable(r.cell), "name"),
        Column("status", "status", lambda r: r.status, "name"),
        Column("campaign", "campaign", lambda r: printable(r.record.campaign), "setting"),
        Column("system", "system", lambda r: printable(r.record.system), "setting"),
        Column("verdict", "verdict", verdict_text, "setting"),
        *(_axis(name) for name in axis_names(table) if name not in shown),
        Column("nodes_x_devices", "nodes x\ndevices", _nodes, "setting"),
        *([] if _nested(table) else [Column("hosts", "on", _hosts, "setting")]),
        Column("parallel", "parallel", _parallel, "setting"),
        *([Column("attention", "attention", _attention, "setting")] if _ran_other(table) else []),
        Column("batch", "batch\nmicro/\nglobal", _batch, "setting"),
        _measure("samples_per_s", "samples/s"),
        Column("samples_per_s_interval", "95%\ninterval", _interval),
        Column(
            "samples_per_s_spread_percent",
            "spread",
            lambda r: percent_text(machine_value(r, "samples_per_s_spread_percent")),
        ),
        _versus("samples_per_s", "samples/s vs\nbaseline"),
        Column("loss_parity", "loss vs\nbaseline", _parity),
        Column("target_loss", "target loss", _target, "setting"),
        Column("target_reached", "reached\ntarget", _reached),
        _to_target("iterations", "iterations\nto target"),
        _to_target("seconds", "seconds\nto target"),
        _to_target("tokens", "tokens\nto target"),
        _to_target("joules", "devices' J\nto target"),
        Column("target_validation_loss", "validation\ntarget", _validation_target, "setting"),
        _to_target("iterations", "iterations to\nvalidation target", "validation_target"),
        _to_target("seconds", "seconds to\nvalidation target", "validation_target"),
        Column("learns", "learns vs\nbaseline", _learning),
        *(
            _published(name, header)
            for name, header in (
                ("samples_per_s", "samples/s\npublished"),
                ("memory_used_mib", "used MiB\npublished"),
                ("utilisation_percent", "util %\npublished"),
                ("perplexity", "PPL\npublished"),
            )
        ),
        _efficiency("strong"),
        _efficiency("weak"),
        _measure("samples_per_s_median", "samples/s\nmedian"),
        Column(
            "stalls_percent",
            "stalls",
            _stalls,
        ),
        Column(
            "samples_per_s_cv_percent",
            "CV",
            lambda r: percent_text(machine_value(r, "samples_per_s_cv_percent")),
        ),
        _measure("samples_per_s_per_device", "samples/s\n/device"),
        _measure("tokens_per_s", "tokens/s"),
        _measure("step_time_ms", "step time\nms"),
        _measure("step_time_ms_p95", "step time\np95 ms"),
        _measure("model_tflop_per_s_per_device", "model\nTFLOP/s\n/device"),
        _measure("log_tflop_per_s_per_device", "log's\nTFLOP/s\n/device"),
        _recomputed("hardware_tflop_per_s_per_device", "hardware\nTFLOP/s\n/device"),
        _measure("mfu_percent", "MFU\n%"),
        _recomputed("hfu_percent", "HFU\n%"),
        _measure("matmul_percent", "of\nmatmul\n%"),
        _measure("utilisation_percent", "util\n%"),
        _measure("energy_per_token_j", "devices'\nJ/token"),
        _measure("mean_power_w", "power\nW/device"),
        _measure("temperature_max_c", "max\n°C"),
        Column("throttled", "throttled", _throttled),
        _measure("time_to_first_step_s", "first\nstep s"),
        _measure("compile_s", "compile\ns"),
        *([Column("compile_cache", "compile\ncache", _cache, "setting")] if _cached(table) else []),
        *(
            column
            for key, figure in MEMORY.items()
            for column in (
                _measure(key, f"{figure.title}\nMiB"),
                _versus(key, f"{figure.title} vs\nbaseline"),
            )
        ),
        _measure("final_loss", "final\nloss"),
        _measure("validation_loss", "validation\nloss"),
        _measure("perplexity", "PPL"),
        *([Column("iterations_trained", "iterations\nof all", _iterations)] if _cut(table) else []),
        _count("steps_measured", "steps"),
        _count("steps_skipped", "skipped\nsteps"),
        _count("steps_nan", "NaN\nsteps"),
        Column("repeats", "repeats\nok", _repeats),
        Column("window", "window", _window, "setting"),
        Column("warmup_iters", "warm-up", _warmup, "setting"),
        Column("device", "device", lambda r: printable(r.device) or MISSING, "setting"),
        Column("flop_vocab_size", "FLOP\nvocabulary", _vocabulary, "setting"),
    ]


def alignment(shown: Sequence[Column]) -> list[str]:
    """Return how each column is set: measures to the right."""
    return ["right" if column.kind == "measure" else "left" for column in shown]


def decimal_places(key: str, value: float) -> int:
    """Say how many decimals a value of the machine column `key` is shown with."""
    return _PLACES.get(key, decimals(value))


def measure_text(row: Row, key: str) -> str:
    """Return the row's number in the machine column `key`."""
    value = machine_value(row, key)
    return MISSING if value is None else number_text(value, decimal_places(key, value))


def _measure(key: str, header: str) -> Column:
    def text(row: Row) -> str:
        value = measure_text(row, key)
        if value == MISSING:
            return value
        value += "" if row.finished else INCOMPLETE
        return value + (signs(row) if key == "samples_per_s" else "")

    return Column(key, header, text)


def _recomputed(key: str, header: str) -> Column:
    """Show the figure where something is computed again; elsewhere it equals its model's."""
    shown = _measure(key, header)
    return replace(
        shown, text=lambda r: shown.text(r) if r.record.activation_checkpointing else MISSING
    )


def _interval(row: Row) -> str:
    low, high = (machine_value(row, f"samples_per_s_ci_{end}") for end in ("low", "high"))
    if low is None:
        return MISSING
    digits = decimal_places("samples_per_s", high)
    return f"{number_text(low, digits)}-{number_text(high, digits)}"


def _stalls(row: Row) -> str:
    """Show what slow steps add to the time; of less than 0.05 % nothing."""
    percent = machine_value(row, "stalls_percent")
    return MISSING if percent is None or abs(percent) < 0.05 else percent_text(percent)


def _parity(row: Row) -> str:
    if row.comparison is None or (row.comparison.is_baseline and not row.comparison.note):
        return MISSING if row.comparison is None else "baseline"
    parity = row.comparison.parity
    if parity is None or parity.same is None:
        return MISSING
    if parity.same:
        return "same"
    return f"from {parity.at}" + (": NaN" if parity.by is None else f": {parity.by:+.3g}")


def _target(row: Row) -> str:
    return f"{row.target.loss:g}" if row.target else MISSING


def _validation_target(row: Row) -> str:
    return f"{row.validation_target.loss:g}" if row.validation_target else MISSING


def _reached(row: Row) -> str:
    target = row.target
    return f"{target.reached}/{len(target.arrivals)}" if target and target.arrivals else MISSING


def _to_target(name: str, header: str, of: str = "target") -> Column:
    """Show the median over the runs and its interval, as far as the runs tell them."""
    key = f"{name}_to_{of}"

    def text(row: Row) -> str:
        target: TimeToTarget | None = getattr(row, of)
        if target is None or name not in target.figures:
            late = target is not None and target.missing[name] == target.not_reached
            return "not reached" if late else MISSING
        figure = target.figures[name]
        places = decimal_places(key, figure.median)
        low, high = (number_text(end, places) for end in (figure.low, figure.high))
        if figure.low is None:
            within = f" ± {target.within:g}" if name == "iterations" and target.within > 1 else ""
            return f"{number_text(figure.median, places)}{within}"
        ends = f"from {low}" if figure.high is None else f"{low}-{high}"
        return f"{number_text(figure.median, places)} ({ends})"

    return Column(key, header, text)


def _learning(row: Row) -> str:
    if row.comparison is None or row.target is None:
        return MISSING
    if row.comparison.is_baseline:
        return "baseline"
    return (row.comparison.learning and row.comparison.learning.words) or MISSING


def _published(name: str, header: str) -> Column:
    """Show a document's figure and, in percent, how much more ours is."""

    def text(row: Row) -> str:
        value = row.published_figure(name)
        if value is None:
            return MISSING
        ours = machine_value(row, name) if row.finished else None
        return f"{value:.10g}" + ("" if ours is None else f" ({(ours / value - 1) * 100:+.1f}%)")

    return Column(f"published_{name}", header, text)


def _warmup(row: Row) -> str:
    out = row.statistics.warmup
    if out is None or row.statistics.basis == "none":
        return MISSING
    return f"{'found' if row.statistics.warmup_found else 'given'} {out}"


def _versus(key: str, header: str) -> Column:
    def text(row: Row) -> str:
        value = machine_value(row, key)
        if row.comparison is None or value is None:
            return MISSING
        if row.comparison.is_baseline and not row.comparison.note:
            return "baseline"
        difference = row.comparison.differences.get(key)
        mark = DOUBTFUL if difference and row.comparison.note else ""
        return change_text(difference) + mark

    return Column(f"{key}_difference", header, text)


def _throttled(row: Row) -> str:
    reasons = row.power.thermals.throttled
    return ", ".join(reasons) if reasons else MISSING


def _efficiency(kind: str) -> Column:
    def text(row: Row) -> str:
        scaled = row.scaling.get(kind)
        if scaled is None:
            return MISSING
        return "base" if scaled.base_cell == row.cell else percent_text(scaled.efficiency * 100)

    return Column(f"{kind}_scaling_efficiency", f"{kind}\nscaling", text)


def _axis(name: str) -> Column:
    header = printable(name).replace("_", "\n")
    return Column(f"axis_{name}", header, lambda row: axis_text(row, name) or MISSING, "setting")


def _count(key: str, header: str) -> Column:
    return Column(key, header, lambda row: number_text(machine_value(row, key), 0))


def _iterations(row: Row) -> str:
    """Show the iteration that the log ends at, of the one that the run was to end at."""
    ends = [machine_value(row, f"iterations_{part}") for part in ("trained", "planned")]
    return "/".join(number_text(end, 0) for end in ends if end is not None) if ends[0] else MISSING


def _cut(table: Sequence[Row]) -> bool:
    """Whether any row's log ends before the iteration at which the run was to end."""
    ends = (progress(row.record) for row in table)
    return any(last and of and last < of for last, of in ends)


def _nodes(row: Row) -> str:
    return f"{row.record.nodes}x{row.record.devices_per_node}"


def _nested(table: Sequence[Row]) -> bool:
    """Whether all runs had the nodes of the largest one, or some of them: nobody asks which."""
    each = [set(hosts) for row in table for hosts in row.hosts]
    largest = max(each, key=len, default=set())
    return all(hosts <= largest for hosts in each)


def _hosts(row: Row) -> str:
    """Name the nodes; behind a semicolon those that another repeat had."""
    return "; ".join(printable(some(hosts)) for hosts in row.hosts) or MISSING


def _parallel(row: Row) -> str:
    """Show each size behind the initials of its name: `dp4 tp2 pp1`."""
    sizes = row.record.parallel.items()
    return " ".join(f"{initials(name)}{size}" for name, size in sizes) or MISSING


def _attention(row: Row) -> str:
    return printable(row.record.attention or "") or MISSING


def _ran_other(table: Sequence[Row]) -> bool:
    """Whether any row says what computed attention, and that is not what an axis asks for."""
    told = [row for row in table if row.record.attention]
    return any(row.axes.get("attention_backend") != row.record.attention for row in told)


def _cache(row: Row) -> str:
    return machine_value(row, "compile_cache") or MISSING


def _cached(table: Sequence[Row]) -> bool:
    """Whether any row's log says that something was compiled."""
    return any(machine_value(row, "compile_cache") not in (None, "none") for row in table)


def _batch(row: Row) -> str:
    sizes = (row.record.micro_batch_size, row.record.global_batch_size)
    return "/".join(MISSING if size is None else str(size) for size in sizes)


def _repeats(row: Row) -> str:
    return f"{machine_value(row, 'repeats_ok')}/{machine_value(row, 'repeats_total')}"


def _window(row: Row) -> str:
    window = row.statistics.window
    return MISSING if window is None else f"{window[0]}-{window[1]}"


def _vocabulary(row: Row) -> str:
    size, kind = row.vocabulary or (0, "")
    return f"{size} {kind}" if size else MISSING  # FLOPs that are given know of none
