"""The table for machines: every column by name, in full precision, as CSV and JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from runner.base.escapes import json_text, plain
from runner.figures.planned import progress
from runner.figures.summary import Summary, runs_that_count
from runner.figures.target import QUANTITIES, TimeToTarget
from runner.matrix.published import FIGURES, PublishedRow
from runner.tables.formatting import axis_text
from runner.tables.judged import verdict_codes
from runner.tables.ran_on import environment_section, facts_as_text
from runner.tables.row import COMPARED, Row, axis_names, sizes_named
from runner.tables.spreadsheet import csv_text
from runner.terms.cell import SEED
from runner.terms.memory import MEMORY
from runner.terms.record import Record

if TYPE_CHECKING:
    from pandas import DataFrame

_BASIS = {"ok": "ok runs", "incomplete": "steps before the run ended", "none": None}

_Columns = Mapping[str, Callable[[Row], Any]]

_OUTCOME: _Columns = {
    "campaign": lambda r: r.record.campaign,
    "cell": lambda r: r.cell,
    "cell_id": lambda r: r.record.cell_id,
    "status": lambda r: r.status,
    "reason": lambda r: r.reason or None,
    "numbers_from": lambda r: _BASIS[r.statistics.basis],
    "verdict": verdict_codes,
}
# What was asked for; between the two stand the parallel sizes that a table's systems name.
_DEVICES: _Columns = {
    "system": lambda r: r.record.system,
    "nodes": lambda r: r.record.nodes,
    "devices_per_node": lambda r: r.record.devices_per_node,
    "devices": lambda r: r.record.world_size,
}
_BATCH: _Columns = {
    "micro_batch_size": lambda r: r.record.micro_batch_size,
    "global_batch_size": lambda r: r.record.global_batch_size,
    "activation_checkpointing": lambda r: r.record.activation_checkpointing,
}


def _own(*names: str) -> _Columns:
    """Make columns of what a row has under the same name."""
    return {name: attrgetter(name) for name in names}


def _summary(row: Row, quantity: str, part: str) -> Any:
    return getattr(getattr(row.statistics, quantity), part, None)


def _spread(quantity: str, *more: str) -> _Columns:
    """Make the columns of a quantity's summary, beside its value."""
    parts = ("p5", "p95", "ci_low", "ci_high", "cv_percent", *more)
    return {f"{quantity}_{part}": partial(_summary, quantity=quantity, part=part) for part in parts}


def _to_target(row: Row, name: str, part: str, of: str = "target") -> Any:
    target: TimeToTarget | None = getattr(row, of)
    return getattr(target.figures.get(name), part, None) if target else None


_MEDIAN = ("median", "median_ci_low", "median_ci_high")


def _open_by_steps(row: Row) -> float | None:
    times = row.statistics.times
    return None if times is None else times.open_by_steps * 100


_MEASURED: _Columns = {
    **_own("samples_per_s"),
    **_spread("samples_per_s", "spread_percent", "spread_of", "source", *_MEDIAN),
    "samples_per_s_mean": lambda r: _summary(r, "samples_per_s", "value"),
    "samples_per_s_steps_half_percent": lambda r: _open_by_steps(r),
    "stalls_percent": lambda r: r.statistics.stalls_percent,
    **_own("samples_per_s_per_device", "tokens_per_s", "tokens_per_s_per_device"),
    "step_time_ms": lambda r: _summary(r, "step_time_ms", "value"),
    **_spread("step_time_ms", *_MEDIAN),
    "step_time_ms_mean": lambda r: _summary(r, "step_time_ms", "value"),
    "drift_percent": lambda r: r.statistics.drift.percent if r.statistics.drift else None,
    "drift_noise_percent": lambda r: (
        r.statistics.drift.noise_percent if r.statistics.drift else None
    ),
    **_own("model_tflop_per_s_per_device", "hardware_tflop_per_s_per_device"),
    "log_tflop_per_s_per_device": lambda r: r.statistics.log_tflop_per_s,
    "flop_formula": lambda r: r.formula.id if r.formula else None,
    "flop_vocab_size": lambda r: r.vocabulary[0] or None if r.vocabulary else None,
    "device": lambda r: r.device or None,
    "hosts": lambda r: "; ".join(map(" ".join, r.hosts)) or None,
    **_own("arithmetic", "peak_tflop_per_s", "peak_source", "mfu_percent", "hfu_percent"),
    **_own("matmul_tflop_per_s", "matmul_percent"),
    "attention": lambda r: r.record.attention,
    "utilisation_percent": lambda r: r.utilisation.percent if r.utilisation else None,
    "utilisation_source": lambda r: r.utilisation.source if r.utilisation else None,
    "energy_per_token_j": lambda r: r.power.joules_per_token,
    "tokens_per_j": lambda r: r.power.tokens_per_joule,
    "energy_method": lambda r: r.power.method,
    "energy_within_percent": lambda r: r.power.within_percent,
    "energy_per_token_log_j": lambda r: r.power.log_joules_per_token,
    "energy_log_difference_percent": lambda r: r.power.log_difference_percent,
    "mean_power_w": lambda r: r.power.thermals.mean_power_w,
    "idle_power_w": lambda r: r.power.thermals.idle_power_w,
    "temperature_max_c": lambda r: r.power.thermals.temperature_c,
    "sm_clock_min_mhz": lambda r: r.power.thermals.sm_clock_mhz,
    "throttled": lambda r: _throttled(r.power.thermals.throttled),
    "target_loss": lambda r: r.target.loss if r.target else None,
    "target_reached": lambda r: r.target.reached if r.target else None,
    "target_runs": lambda r: len(r.target.arrivals) if r.target else None,
    **{
        f"{name}_to_target{suffix}": partial(_to_target, name=name, part=part)
        for name in QUANTITIES
        for suffix, part in (("", "median"), ("_ci_low", "low"), ("_ci_high", "high"))
    },
    "target_validation_loss": lambda r: r.validation_target.loss if r.validation_target else None,
    **{
        f"{name}_to_validation_target": partial(
            _to_target, name=name, part="median", of="validation_target"
        )
        for name in QUANTITIES
    },
    "time_to_first_step_s": lambda r: r.statistics.startup.first_step_s,
    "first_logged_iteration": lambda r: r.statistics.startup.first_iteration,
    "compile_s": lambda r: r.statistics.startup.compile_s,
    "compile_cache": lambda r: "; ".join(dict.fromkeys(r.statistics.startup.caches)) or None,
    **{key: attrgetter(f"statistics.{key}") for key in MEMORY},
    **{
        f"memory_rss_mib_ci_{end}": lambda r, place=place: (  # type: ignore[misc]
            (r.statistics.rss_interval or (None, None))[place]
        )
        for place, end in enumerate(("low", "high"))
    },
    "final_loss": lambda r: r.statistics.final_loss,
    "validation_loss": lambda r: r.validation_loss,
    "perplexity": lambda r: r.perplexity,
    "iterations_trained": lambda r: _trained(r, progress(r.record)[0]),
    "iterations_planned": lambda r: progress(r.record)[1],
    "logged_lines": lambda r: _trained(r, r.statistics.logged_lines),
    "counted_lines": lambda r: _trained(r, r.statistics.counted_lines),
    "steps_measured": lambda r: _trained(r, r.statistics.steps_measured),
    "iterations_per_line": lambda r: r.statistics.iterations_per_line,
    "steps_skipped": lambda r: _trained(r, r.statistics.steps_skipped),
    "steps_nan": lambda r: _trained(r, r.statistics.steps_nan),
    "steps_left_out": lambda r: _trained(r, r.statistics.steps_left_out),
    "warmup_iters": lambda r: _trained(r, r.statistics.warmup),
    "warmup_source": lambda r: _trained(r, "found" if r.statistics.warmup_found else "given"),
    "window_first_iteration": lambda r: (r.statistics.window or (None, None))[0],
    "window_last_iteration": lambda r: (r.statistics.window or (None, None))[1],
    "repeats_ok": lambda r: sum(record.status == "ok" for record in r.records),
    "repeats_total": lambda r: len(r.records),
    "repeats_until_percent": lambda r: r.record.until_percent,
    "strong_scaling_efficiency": lambda r: _efficiency(r, "strong"),
    "weak_scaling_efficiency": lambda r: _efficiency(r, "weak"),
}
_BASELINE: _Columns = {
    "baseline": lambda r: f"{r.comparison.axis}={r.comparison.value}" if r.comparison else None,
    "baseline_cell": lambda r: r.comparison.cell if r.comparison else None,
    "baseline_note": lambda r: (r.comparison.note or None) if r.comparison else None,
    **{
        f"{name}_{suffix}": lambda r, name=name, part=part: _difference(r, name, part)  # type: ignore[misc]
        for name in COMPARED
        for suffix, part in (("difference", "absolute"), ("difference_percent", "percent"))
    },
    **{
        f"samples_per_s_difference_percent_ci_{end}": lambda r, place=place: _interval(r, place)  # type: ignore[misc]
        for place, end in enumerate(("low", "high"))
    },
    "loss_parity": lambda r: _parity(r, "verdict"),
    "loss_diverges_at_iteration": lambda r: _parity(r, "at"),
    "loss_difference": lambda r: _parity(r, "by"),
    "loss_tolerance": lambda r: _parity(r, "tolerance"),
    "learns": lambda r: _learning(r, "verdict"),
    "learns_p": lambda r: _learning(r, "p"),
}
_PUBLISHED: _Columns = {
    "published_source": lambda r: "; ".join(dict.fromkeys(d.source for d in r.published)) or None,
    **{
        f"published_{name}": lambda r, name=name: r.published_figure(name)  # type: ignore[misc]
        for name in FIGURES
    },
    "published_samples_per_s_percent": lambda r: _of_published(r, "samples_per_s"),
    "published_memory_used_mib_percent": lambda r: _of_published(r, "memory_used_mib"),
}

_EVERY = {**_OUTCOME, **_DEVICES, **_BATCH, **_MEASURED, **_BASELINE, **_PUBLISHED}


def _throttled(reasons: Sequence[str] | None) -> str | None:
    """Return why clocks were lowered, `no` where they were not; None where no sample says it."""
    return None if reasons is None else "; ".join(reasons) or "no"


def _trained(row: Row, count: Any) -> Any:
    """Return a count of a run that trained; a run that did not has none, not 0."""
    return None if row.statistics.basis == "none" else count


def _parity(row: Row, part: str) -> Any:
    """Return what the comparison of losses found: "same" or "diverges", and by how much."""
    parity = row.comparison.parity if row.comparison else None
    if parity is None or parity.same is None:
        return None
    return getattr(parity, part) if part != "verdict" else "same" if parity.same else "diverges"


def _learning(row: Row, part: str) -> Any:
    """Return whether the cell needs as much to the target loss: "alike", "slower" or "faster"."""
    return getattr(row.comparison.learning, part, None) if row.comparison else None


def _of_published(row: Row, name: str) -> float | None:
    """Return our figure in percent more than the document's."""
    ours, theirs = (machine_value(row, key) for key in (name, f"published_{name}"))
    finished = row.finished and ours is not None and theirs is not None
    return (ours / theirs - 1) * 100 if finished else None


def _efficiency(row: Row, kind: str) -> float | None:
    return row.scaling[kind].efficiency if kind in row.scaling else None


def _interval(row: Row, place: int) -> float | None:
    interval = _difference(row, "samples_per_s", "interval")
    return None if interval is None else interval[place]


def _difference(row: Row, name: str, part: str) -> Any:
    difference = row.comparison.differences.get(name) if row.comparison else None
    return getattr(difference, part, None)


def machine_value(row: Row, name: str) -> Any:
    """Return the row's value in the machine column `name`; KeyError where there is none."""
    return row.record.parallel_size(name) if name.endswith("_parallel") else _EVERY[name](row)


def machine_names(table: Sequence[Row]) -> list[str]:
    """Return the machine columns, whether the table has them or not."""
    return [*_EVERY, *sizes_named(table)]


def _settings(table: Sequence[Row]) -> _Columns:
    """Return what was asked for, with the parallel sizes."""
    sizes = {name: partial(_size, name=name) for name in sizes_named(table)}
    return {**_DEVICES, **sizes, **_BATCH}


def _size(row: Row, name: str) -> int:
    return row.record.parallel_size(name)


def _columns(table: Sequence[Row]) -> _Columns:
    """Return every machine column; those of a baseline or of documents only when the table
    has one.
    """
    compared = _BASELINE if any(row.comparison for row in table) else {}
    published = _PUBLISHED if any(row.published for row in table) else {}
    return {**_OUTCOME, **_settings(table), **_MEASURED, **compared, **published}


def to_frame(table: Sequence[Row]) -> DataFrame:
    """Make a typed DataFrame, one row a cell: the machine columns, then `axis_<name>` of each axis.

    Whole numbers are Int64, others float64, texts string, yes or no boolean; what is missing is NA
    or NaN. An axis of anything but numbers is text, as a matrix file writes it.
    """
    import pandas as pd  # takes most of a second to import, and only a few outputs need it

    named = _columns(table).items()
    columns = {name: [plain(value(row)) for row in table] for name, value in named}
    for axis in axis_names(table):
        values = [row.value(axis) for row in table]
        numbers = all(type(value) in (int, float) for value in values)
        columns[f"axis_{axis}"] = values if numbers else [axis_text(row, axis) for row in table]
    return pd.DataFrame(
        {name: pd.array(values, dtype=_dtype(values)) for name, values in columns.items()}
    )


def _dtype(values: Sequence[Any]) -> Any:
    kinds = {type(value) for value in values if value is not None}
    if int in kinds and any(abs(v) >= 1 << 63 for v in values if isinstance(v, int)):
        return "object"  # more digits than numpy has
    if kinds <= {int, float}:
        return "Int64" if kinds == {int} else "float64"
    return "boolean" if kinds == {bool} else "string"


def to_csv(table: Sequence[Row]) -> str:
    """Write one line a cell."""
    return csv_text(to_frame(table))


def to_json(table: Sequence[Row], published: Sequence[PublishedRow] = (), hidden: str = "") -> str:
    """Write one JSON object, indented.

        {"schema": 1,
         "campaign": the campaign's name, a list when there are several, null when there is none,
         "hidden": what ran and the matrix names no more, in a sentence; empty where nothing is,
         "common": {machine column or axis: value} that all rows share (rows repeat it),
         "formula": {"id", "expression", "meaning", "source"} of model_tflop_per_s_per_device,
                    a list when there are several, null when there is none,
         "environment": {fact: text} of what the runs ran on, as `compare` tells two of them apart,
         "rows": [{every machine column: number, string, boolean or null,
                   "axes": {axis: value},
                   "missing": {column: why it is null},
                   "verdict_reasons": {code: why the cell is not publishable},
                   "scaling": {"strong"|"weak": {"efficiency", "base_cell", "base_devices"}},
                   "runs": [{"repeat", "attempt", "status", "reason", "log", "seed", "hosts" by
                             rank, "samples_per_s", "step_time_ms", "memory_rss_mib" of
                             the run (null where it gives the cell no numbers); with a target loss
                             "iterations_to_target" (null: not reached in the
                             "iterations_trained") and "iterations_per_loss"}]}],
         "published": [{"source", "hardware", "cell", "labels", "figures"}] of the documents}

    Times are in ms, memory in MiB, rates of the whole job unless the name says per_device.
    docs/schemas/table.json has it as a JSON schema; docs/measures.md says how each figure is
    computed.
    """
    campaigns = list(dict.fromkeys(row.record.campaign for row in table))
    columns = _columns(table)
    rows = [
        {name: plain(value(row)) for name, value in columns.items()}
        | {
            "axes": plain(row.axes),
            "missing": row.missing,
            "verdict_reasons": row.verdict,
            "scaling": {
                kind: _parts(scaling, "efficiency", "base_cell", "base_devices")
                for kind, scaling in row.scaling.items()
            },
            "runs": [
                _parts(record, "repeat", "attempt", "status", "reason", "log", "hosts")
                | {"seed": record.parameters.get(SEED)}
                | _of_run(row, record)
                | _arrival(row, record.repeat)
                for record in row.records
            ],
        }
        for row in table
    ]
    models = [row.record.model for row in table if row.record.model]
    formulas = [vars(formula) for formula in dict.fromkeys(model.formula for model in models)]
    asked = _settings(table)
    settings = [{**row["axes"], **{name: row[name] for name in asked}} for row in rows]
    document = {
        "schema": 1,
        "campaign": campaigns[0] if len(campaigns) == 1 else campaigns or None,
        "hidden": hidden,
        "common": {
            name: value
            for name, value in (settings[0] if settings else {}).items()
            if all(name in other and other[name] == value for other in settings)
        },
        "formula": formulas[0] if len(formulas) == 1 else formulas or None,
        "environment": facts_as_text(
            environment_section(run for row in table for run in row.records)
        ),
        "rows": rows,
        "published": [
            _parts(row, "source", "hardware", "cell", "labels", "figures") for row in published
        ],
    }
    return json_text(document) + "\n"


def _of_run(row: Row, record: Record) -> dict[str, float | None]:
    """Return what one run did, of the runs that give the cell's numbers; no others have any."""
    counted = runs_that_count(row.records)[1]
    at = next((place for place, run in enumerate(counted) if run is record), None)
    figures: dict[str, float | None] = {}
    for name in ("samples_per_s", "step_time_ms"):
        summary: Summary | None = getattr(row.statistics, name)
        figures[name] = summary.runs[at] if summary is not None and at is not None else None
    rss = record.measurement.memory_rss_mib
    return figures | {"memory_rss_mib": None if at is None else rss}


def _arrival(row: Row, repeat: int) -> dict[str, Any]:
    """Return where a run reached the target loss, if it was asked and trained to its end."""
    arrivals = row.target.arrivals if row.target else ()
    for arrival in arrivals:
        if arrival.repeat == repeat:
            return {
                "iterations_to_target": arrival.iteration,
                "iterations_trained": arrival.trained,
                "iterations_per_loss": arrival.every,
            }
    return {}


def _parts(thing: object, *names: str) -> dict[str, Any]:
    return {name: plain(getattr(thing, name)) for name in names}
