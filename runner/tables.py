"""The comparison table: one row a cell, compared, scaled, and written in four formats.

Pure: records in, rows and text out. `rows` builds the rows; `to_table`, `to_markdown`, `to_csv`
and `to_json` write them. People read a dash where a number is missing, machines an empty field
or null; a missing number is never 0. Units stand in the machine names of the columns.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pandas as pd
from tabulate import tabulate

from runner.errors import UserError
from runner.flops import MODEL_FLOPS, tflop_per_s_per_device, vocabulary
from runner.records import Record
from runner.statistics import CellStatistics, cell_statistics, measured

MISSING = "–"
INCOMPLETE = "†"

# What may differ between two cells that one scaling series joins.
SCALED = frozenset(
    {
        "nodes",
        "devices_per_node",
        "devices",
        "device_ids",
        "processes",
        "world_size",
        "data_parallel",
        "global_batch_size",
        "gradient_accumulation_steps",
    }
)
# Axes that already have a column of their own.
_SHOWN = frozenset(
    {
        "system",
        "nodes",
        "devices_per_node",
        "data_parallel",
        "tensor_parallel",
        "pipeline_parallel",
        "micro_batch_size",
        "global_batch_size",
    }
)
# What a baseline is compared in, with the machine name of the row's own value.
COMPARED = ("samples_per_s", "memory_allocated_mib", "memory_used_mib")


@dataclass(frozen=True)
class Difference:
    """A row's value minus its baseline's, in the value's unit, and as percent of the baseline."""

    absolute: float
    percent: float


@dataclass(frozen=True)
class Comparison:
    """A row against its counterpart: the cell with the same other axes and AXIS=VALUE."""

    axis: str
    value: str
    cell: str | None = None
    is_baseline: bool = False
    differences: Mapping[str, Difference] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Scaling:
    """samples/s per device over that of `base_cell`, the series' smallest device count.

    "strong": the global batch stays the same; "weak": it grows with the devices. `series` names
    the series; 1.0 is perfect scaling.
    """

    kind: Literal["strong", "weak"]
    efficiency: float
    base_cell: str
    base_devices: int
    series: str


@dataclass(frozen=True)
class Run:
    """One repeat of a cell, for links and notes. `log` is a path relative to the report."""

    repeat: int
    attempt: int
    status: str
    reason: str
    log: str
    last_words: str


@dataclass(frozen=True)
class Row:
    """One cell. `record` is the repeat that describes it: the first ok one, else the first."""

    record: Record
    status: str
    reason: str
    statistics: CellStatistics
    runs: tuple[Run, ...]
    settings: Mapping[str, Any]
    model_tflop_per_s_per_device: float | None = None
    hardware_tflop_per_s_per_device: float | None = None
    scaling: Mapping[str, Scaling] = field(default_factory=dict)
    comparison: Comparison | None = None

    @property
    def cell(self) -> str:
        """The cell's readable name."""
        return self.record.cell

    @property
    def samples_per_s(self) -> float | None:
        """Median samples/s of the whole job."""
        rate = self.statistics.samples_per_s
        return None if rate is None else rate.median

    @property
    def tokens_per_s(self) -> float | None:
        """Median tokens/s of the whole job: samples/s times the sequence length."""
        model, rate = self.record.model, self.samples_per_s
        return None if model is None or rate is None else rate * model.seq_length

    @property
    def finished(self) -> bool:
        """The numbers are those of runs that ended ok."""
        return self.statistics.basis == "ok"

    def value(self, axis: str) -> Any:
        """The row's value of an axis: of the cell's axes, else of its resolved parameters."""
        if axis in self.settings:
            return self.settings[axis]
        return self.record.parameters.get(axis, getattr(self.record, axis, None))


# --- rows -----------------------------------------------------------------------------------------


def rows(records: Iterable[Record], baseline: str | None = None) -> list[Row]:
    """One row a cell, in the order of the records.

    `baseline` is AXIS=VALUE. Raises UserError when it names an axis or value that no cell has.
    """
    cells: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        cells.setdefault((record.campaign, record.cell_id, record.cell), []).append(record)
    built = with_scaling([_row(runs) for runs in cells.values()])
    return built if baseline is None else with_baseline(built, baseline)


def _row(records: Sequence[Record]) -> Row:
    ok = [record for record in records if record.status == "ok"]
    other = [record for record in records if record.status != "ok"]
    ended = [record for record in other if record.status != "pending"] or other
    lead = (ok or ended)[0]
    statistics = cell_statistics(records)
    row = Row(
        record=lead,
        status=ended[0].status if ended else "ok",
        reason=ended[0].reason if ended else "",
        statistics=statistics,
        runs=tuple(
            Run(r.repeat, r.attempt, r.status, r.reason, r.log, r.last_words) for r in records
        ),
        settings={"system": lead.system, **lead.axes},
    )
    return _with_tflops(row)


def _with_tflops(row: Row) -> Row:
    rate, shape, devices = row.samples_per_s, row.record.model, row.record.world_size
    if rate is None or shape is None or devices <= 0:
        why = "the model's shape is not known" if rate is not None else "no samples/s"
        missing = {**row.statistics.missing, "model_tflop_per_s_per_device": why}
        return replace(row, statistics=replace(row.statistics, missing=missing))
    vocab, _ = vocabulary(shape, row.record.measurement)
    model, hardware = (
        tflop_per_s_per_device(shape, rate, devices, recompute=again, padded_vocab_size=vocab)
        for again in (False, row.record.activation_checkpointing)
    )
    return replace(
        row, model_tflop_per_s_per_device=model, hardware_tflop_per_s_per_device=hardware
    )


# --- scaling --------------------------------------------------------------------------------------


def with_scaling(table: Sequence[Row]) -> list[Row]:
    """The rows with their scaling efficiency, where a series has two device counts or more."""
    result = list(table)
    for kind in ("strong", "weak"):
        series: dict[str, list[int]] = {}
        for index, row in enumerate(table):
            name = _series_of(row, kind)
            if name is not None:
                series.setdefault(name, []).append(index)
        for name, members in series.items():
            if len({table[i].record.world_size for i in members}) < 2:
                continue
            base = table[min(members, key=lambda i: (_devices(table[i]), table[i].record.nodes))]
            for index in members:
                scaled = _scaling(kind, name, result[index], base)
                result[index] = replace(
                    result[index], scaling={**result[index].scaling, kind: scaled}
                )
    return result


def _devices(row: Row) -> int:
    return row.record.world_size


def _scaling(kind: str, series: str, row: Row, base: Row) -> Scaling:
    assert row.samples_per_s is not None
    assert base.samples_per_s is not None
    efficiency = (row.samples_per_s / _devices(row)) / (base.samples_per_s / _devices(base))
    return Scaling(
        kind="strong" if kind == "strong" else "weak",
        efficiency=efficiency,
        base_cell=base.cell,
        base_devices=_devices(base),
        series=series,
    )


def _series_of(row: Row, kind: str) -> str | None:
    """What the cells of one scaling series have in common, as text; None: in no series."""
    record = row.record
    batch = record.global_batch_size
    if not row.finished or row.samples_per_s is None or not batch or _devices(row) <= 0:
        return None
    same = {**record.parameters, **row.settings}
    key = {name: value_text(value) for name, value in same.items() if name not in SCALED}
    key |= {
        "campaign": record.campaign,
        "model": str(record.model),
        "micro_batch_size": str(record.micro_batch_size),
        "tensor_parallel": str(record.tensor_parallel),
        "pipeline_parallel": str(record.pipeline_parallel),
        "activation_checkpointing": str(record.activation_checkpointing),
        "batch": str(batch if kind == "strong" else batch / _devices(row)),
    }
    return json.dumps(key, sort_keys=True)


# --- baseline -------------------------------------------------------------------------------------


def axis_names(table: Sequence[Row]) -> list[str]:
    """Every axis of the rows, in the order first seen; `system` is always one."""
    return list(dict.fromkeys(name for row in table for name in row.settings))


def with_baseline(table: Sequence[Row], baseline: str) -> list[Row]:
    """The rows, each compared with its counterpart; `baseline` is AXIS=VALUE (see `rows`)."""
    axis, wanted = _parse_baseline(table, baseline)
    others = [name for name in axis_names(table) if name != axis]

    def key(row: Row) -> tuple[str, ...]:
        return (row.record.campaign, *(value_text(row.value(name)) for name in others))

    counterparts: dict[tuple[str, ...], list[Row]] = {}
    for row in table:
        if value_text(row.value(axis)) == wanted:
            counterparts.setdefault(key(row), []).append(row)
    return [
        replace(row, comparison=_compare(row, counterparts.get(key(row), []), axis, wanted))
        for row in table
    ]


def _parse_baseline(table: Sequence[Row], baseline: str) -> tuple[str, str]:
    axis, equals, wanted = baseline.partition("=")
    axis, wanted = axis.strip(), wanted.strip()
    if not equals or not axis or not wanted:
        raise UserError(f"baseline {baseline!r} should read AXIS=VALUE, for example zero_stage=0")
    names = axis_names(table)
    if axis not in names:
        known = ", ".join(names) or "none, for there is no cell"
        raise UserError(
            f"baseline {baseline!r}: no cell has the axis {axis!r}"
            f"{_nearest(axis, names)}; axes: {known}"
        )
    values = list(dict.fromkeys(value_text(row.value(axis)) for row in table))
    for value in values:
        if value.casefold() == wanted.casefold() or _number(value) == _number(wanted) is not None:
            return axis, value
    raise UserError(
        f"baseline {baseline!r}: no cell has {axis}={wanted}"
        f"{_nearest(wanted, values)}; values: {', '.join(values)}"
    )


def _nearest(word: str, words: Sequence[str]) -> str:
    number = _number(word)
    if number is not None and words and all(_number(w) is not None for w in words):
        found = [min(words, key=lambda w: abs((_number(w) or 0.0) - number))]
    else:
        found = difflib.get_close_matches(word, words, n=1, cutoff=0.4)
    return f" (did you mean {found[0]!r}?)" if found else ""


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _compare(row: Row, counterparts: Sequence[Row], axis: str, wanted: str) -> Comparison:
    found = Comparison(axis, wanted, is_baseline=any(base is row for base in counterparts))
    if found.is_baseline and len(counterparts) == 1:
        return replace(found, cell=row.cell)
    if not counterparts:
        return replace(found, note=f"no cell with {axis}={wanted} and the same other axes")
    if len(counterparts) > 1:
        return replace(found, note=f"{len(counterparts)} cells match {axis}={wanted}")
    base = counterparts[0]
    found = replace(found, cell=base.cell)
    if not row.finished or not base.finished:
        which = row if not row.finished else base
        return replace(found, note=f"{which.cell} has no finished run")
    if row.statistics.window != base.statistics.window:
        found = replace(found, note="the two were measured over different iterations")
    differences = {}
    for name in COMPARED:
        ours, theirs = machine_value(row, name), machine_value(base, name)
        if ours is not None and theirs is not None:
            differences[name] = Difference(ours - theirs, (ours - theirs) / theirs * 100)
    return replace(found, differences=differences)


# --- values for machines --------------------------------------------------------------------------


def _summary(row: Row, quantity: str, name: str) -> Any:
    summary = getattr(row.statistics, quantity)
    return None if summary is None else getattr(summary, name)


def _vocabulary(row: Row) -> tuple[int, str] | None:
    if row.model_tflop_per_s_per_device is None or row.record.model is None:
        return None
    return vocabulary(row.record.model, row.record.measurement)


def _count(row: Row, count: int) -> int | None:
    """A count of a run that trained; a run that did not has none, not 0."""
    return None if row.statistics.basis == "none" else count


def _of_comparison(row: Row, name: str, part: str) -> float | None:
    found = row.comparison.differences.get(name) if row.comparison else None
    return None if found is None else float(getattr(found, part))


_MACHINE: dict[str, Callable[[Row], Any]] = {
    "campaign": lambda r: r.record.campaign,
    "cell": lambda r: r.cell,
    "cell_id": lambda r: r.record.cell_id,
    "system": lambda r: r.record.system,
    "status": lambda r: r.status,
    "reason": lambda r: r.reason or None,
    "numbers_from": lambda r: {"ok": "ok runs", "incomplete": "steps before the run ended"}.get(
        r.statistics.basis
    ),
    "nodes": lambda r: r.record.nodes,
    "devices_per_node": lambda r: r.record.devices_per_node,
    "devices": lambda r: r.record.world_size,
    "data_parallel": lambda r: r.record.data_parallel,
    "tensor_parallel": lambda r: r.record.tensor_parallel,
    "pipeline_parallel": lambda r: r.record.pipeline_parallel,
    "micro_batch_size": lambda r: r.record.micro_batch_size,
    "global_batch_size": lambda r: r.record.global_batch_size,
    "activation_checkpointing": lambda r: r.record.activation_checkpointing,
    "samples_per_s": lambda r: r.samples_per_s,
    "samples_per_s_p5": lambda r: _summary(r, "samples_per_s", "p5"),
    "samples_per_s_p95": lambda r: _summary(r, "samples_per_s", "p95"),
    "samples_per_s_spread_percent": lambda r: _summary(r, "samples_per_s", "spread_percent"),
    "samples_per_s_spread_of": lambda r: _summary(r, "samples_per_s", "spread_of"),
    "samples_per_s_source": lambda r: _summary(r, "samples_per_s", "source"),
    "tokens_per_s": lambda r: r.tokens_per_s,
    "step_time_ms": lambda r: _summary(r, "step_time_ms", "median"),
    "step_time_ms_p5": lambda r: _summary(r, "step_time_ms", "p5"),
    "step_time_ms_p95": lambda r: _summary(r, "step_time_ms", "p95"),
    "model_tflop_per_s_per_device": lambda r: r.model_tflop_per_s_per_device,
    "hardware_tflop_per_s_per_device": lambda r: r.hardware_tflop_per_s_per_device,
    "flop_formula": lambda r: MODEL_FLOPS.id if r.model_tflop_per_s_per_device else None,
    "flop_vocab_size": lambda r: (_vocabulary(r) or (None,))[0],
    "memory_allocated_mib": lambda r: r.statistics.memory_allocated_mib,
    "memory_used_mib": lambda r: r.statistics.memory_used_mib,
    "final_loss": lambda r: r.statistics.final_loss,
    "steps_measured": lambda r: _count(r, r.statistics.steps_measured),
    "steps_skipped": lambda r: _count(r, r.statistics.steps_skipped),
    "steps_nan": lambda r: _count(r, r.statistics.steps_nan),
    "window_first_iteration": lambda r: (r.statistics.window or (None,))[0],
    "window_last_iteration": lambda r: (r.statistics.window or (None, None))[1],
    "repeats_ok": lambda r: sum(run.status == "ok" for run in r.runs),
    "repeats_total": lambda r: len(r.runs),
    "strong_scaling_efficiency": lambda r: _efficiency(r, "strong"),
    "weak_scaling_efficiency": lambda r: _efficiency(r, "weak"),
}
_BASELINE: dict[str, Callable[[Row], Any]] = {
    "baseline": lambda r: f"{r.comparison.axis}={r.comparison.value}" if r.comparison else None,
    "baseline_cell": lambda r: r.comparison.cell if r.comparison else None,
    "baseline_note": lambda r: (r.comparison.note or None) if r.comparison else None,
    **{
        f"{name}_{suffix}": lambda r, name=name, part=part: _of_comparison(r, name, part)  # type: ignore[misc]
        for name in COMPARED
        for suffix, part in (("difference", "absolute"), ("difference_percent", "percent"))
    },
}


def _efficiency(row: Row, kind: str) -> float | None:
    found = row.scaling.get(kind)
    return None if found is None else found.efficiency


def machine_value(row: Row, name: str) -> Any:
    """The row's value in the machine column `name` (see `machine_columns`)."""
    return (_MACHINE.get(name) or _BASELINE[name])(row)


def machine_columns(table: Sequence[Row]) -> list[str]:
    """The machine names of the columns; those of the baseline only when there is one."""
    return [*_MACHINE, *(_BASELINE if any(row.comparison for row in table) else ())]


def to_csv(table: Sequence[Row]) -> str:
    """One header row, then one line a cell, in full precision; an empty field is a missing number.

    Columns are `machine_columns`, then `axis_<name>` for every axis.
    """
    names, axes = machine_columns(table), axis_names(table)
    lines = [
        {name: _json_value(machine_value(row, name)) for name in names}
        | {f"axis_{a}": value_text(row.settings[a]) if a in row.settings else None for a in axes}
        for row in table
    ]
    frame = pd.DataFrame(lines, columns=[*names, *(f"axis_{a}" for a in axes)], dtype=object)
    return frame.to_csv(index=False, lineterminator="\n")


def to_json(table: Sequence[Row]) -> str:
    """One JSON object, indented.

        {"schema": 1,
         "campaign": the campaign's name, a list when there are several, null when there is none,
         "common": {machine column or axis: value} that all rows share (rows repeat it),
         "formula": {"id", "expression", "meaning", "source"} of model_tflop_per_s_per_device,
         "rows": [{every machine column: number, string, boolean or null,
                   "axes": {axis: value},
                   "missing": {column: why it is null},
                   "scaling": {"strong"|"weak": {"efficiency", "base_cell", "base_devices"}},
                   "runs": [{"repeat", "attempt", "status", "reason", "log"}]}]}

    Times are in ms, memory in MiB, rates of the whole job unless the name says per_device.
    """
    names = machine_columns(table)
    campaigns = list(dict.fromkeys(row.record.campaign for row in table))
    shared = {name: [_json_value(machine_value(row, name)) for row in table] for name in _SETTINGS}
    for axis in axis_names(table):
        shared.setdefault(axis, [_json_value(row.settings.get(axis)) for row in table])
    document = {
        "schema": 1,
        "campaign": campaigns[0] if len(campaigns) == 1 else campaigns or None,
        "common": {
            name: values[0]
            for name, values in shared.items()
            if values and all(value == values[0] for value in values)
        },
        "formula": vars(MODEL_FLOPS),
        "rows": [
            {name: _json_value(machine_value(row, name)) for name in names}
            | {
                "axes": _json_value(dict(row.settings)),
                "missing": dict(row.statistics.missing),
                "scaling": {
                    kind: _json_value(
                        {
                            "efficiency": scaled.efficiency,
                            "base_cell": scaled.base_cell,
                            "base_devices": scaled.base_devices,
                        }
                    )
                    for kind, scaled in row.scaling.items()
                },
                "runs": [
                    {key: value for key, value in vars(run).items() if key != "last_words"}
                    for run in row.runs
                ],
            }
            for row in table
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


_SETTINGS = (
    "system",
    "nodes",
    "devices_per_node",
    "devices",
    "data_parallel",
    "tensor_parallel",
    "pipeline_parallel",
    "micro_batch_size",
    "global_batch_size",
    "activation_checkpointing",
)


def _json_value(value: Any) -> Any:
    """`value` as JSON can hold it: not a number becomes None, an unknown type its text."""
    if isinstance(value, Mapping):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_json_value(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


# --- values for people ----------------------------------------------------------------------------


def value_text(value: Any) -> str:
    """An axis value as a matrix file would write it, on one line: true, null, 1, name, K=V K=V."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return " ".join(f"{k}={value_text(v)}" for k, v in value.items()) or "{}"
    if isinstance(value, list | tuple):
        return ",".join(value_text(item) for item in value) or "[]"
    return one_line(str(value))


def one_line(text: str) -> str:
    """`text` on one line, without terminal escapes and other control characters."""
    plain = re.sub(r"\x1b\[[0-9;?]*[ -/]*[@-~]", "", text)
    return " ".join("".join(c if c.isprintable() else " " for c in plain).split())


def decimals(value: float) -> int:
    """How many decimals show four significant digits of `value`, and none beyond 1000."""
    size = abs(value)
    return next((d for limit, d in ((1000, 0), (100, 1), (10, 2), (1, 3)) if size >= limit), 4)


def number_text(value: float | None, places: int | None = None) -> str:
    """A number with four significant digits (or `places` decimals), 10,000 and more grouped."""
    if value is None or not math.isfinite(value):
        return MISSING
    places = decimals(value) if places is None else places
    return f"{value:{',' if abs(value) >= 10_000 else ''}.{places}f}"


def difference_text(difference: Difference | None, places: int) -> str:
    """As the OSDI benchmark's table writes it: `-1754,↓31.3%`."""
    if difference is None:
        return MISSING
    percent = f"{abs(difference.percent):.1f}%"
    arrow = "" if percent == "0.0%" else "↑" if difference.percent > 0 else "↓"
    return f"{difference.absolute:+.{places}f},{arrow}{percent}"


@dataclass(frozen=True)
class Column:
    """A column for people. `kind` "setting" folds into "common" when all its rows agree."""

    key: str
    header: str
    text: Callable[[Row], str]
    kind: Literal["name", "setting", "measure"] = "measure"

    @property
    def one_line_header(self) -> str:
        """The header without its line breaks."""
        return self.header.replace("/\n", "/").replace("\n/", "/").replace("\n", " ")


def _measure(key: str, header: str, places: int | None = None) -> Column:
    def text(row: Row) -> str:
        value = number_text(machine_value(row, key), places)
        incomplete = row.statistics.basis == "incomplete" and value != MISSING
        return value + INCOMPLETE if incomplete else value

    return Column(key, header, text)


def _memory_places(row: Row, key: str) -> int:
    return 0 if (machine_value(row, key) or 0) >= 100 else 1


def _memory(key: str, header: str) -> Column:
    def text(row: Row) -> str:
        return _measure(key, header, _memory_places(row, key)).text(row)

    return Column(key, header, text)


def _versus(key: str, header: str) -> Column:
    def text(row: Row) -> str:
        if row.comparison is None or machine_value(row, key) is None:
            return MISSING
        if row.comparison.is_baseline and not row.comparison.note:
            return "baseline"
        found = row.comparison.differences.get(key)
        places = _memory_places(row, key)
        if key == "samples_per_s":
            places = decimals(machine_value(row, key))
        mark = "‡" if found is not None and row.comparison.note else ""
        return difference_text(found, places) + mark

    return Column(f"{key}_difference", header, text)


def _percent(key: str, header: str) -> Column:
    def text(row: Row) -> str:
        value = machine_value(row, key)
        return MISSING if value is None else f"{value:.1f}%"

    return Column(key, header, text)


def _efficiency_column(kind: str) -> Column:
    def text(row: Row) -> str:
        scaled = row.scaling.get(kind)
        if scaled is None:
            return MISSING
        return "base" if scaled.base_cell == row.cell else f"{scaled.efficiency * 100:.1f}%"

    return Column(f"{kind}_scaling_efficiency", f"{kind}\nscaling", text)


def _axis(name: str) -> Column:
    def text(row: Row) -> str:
        return value_text(row.settings[name]) if name in row.settings else MISSING

    return Column(f"axis_{name}", name.replace("_", "\n"), text, "setting")


def _window_text(row: Row) -> str:
    window = row.statistics.window
    return MISSING if window is None else f"{window[0]}-{window[1]}"


def _count_text(row: Row, key: str) -> str:
    count = machine_value(row, key)
    return MISSING if count is None else str(count)


def _vocabulary_text(row: Row) -> str:
    found = _vocabulary(row)
    return MISSING if found is None else f"{found[0]} {found[1]}"


def _batch(row: Row) -> str:
    sizes = (row.record.micro_batch_size, row.record.global_batch_size)
    return "/".join(MISSING if size is None else str(size) for size in sizes)


def _columns(table: Sequence[Row]) -> list[Column]:
    """Every column for people, in order; `layout` drops and folds."""
    return [
        Column("cell", "cell", lambda r: one_line(r.cell), "name"),
        Column("status", "status", lambda r: r.status, "name"),
        Column("campaign", "campaign", lambda r: one_line(r.record.campaign), "setting"),
        Column("system", "system", lambda r: one_line(r.record.system), "setting"),
        *(_axis(name) for name in axis_names(table) if name not in _SHOWN),
        Column(
            "nodes_x_devices",
            "nodes x\ndevices",
            lambda r: f"{r.record.nodes}x{r.record.devices_per_node}",
            "setting",
        ),
        Column(
            "parallel",
            "parallel",
            lambda r: (
                f"dp{r.record.data_parallel} tp{r.record.tensor_parallel}"
                f" pp{r.record.pipeline_parallel}"
            ),
            "setting",
        ),
        Column("batch", "batch\nmicro/\nglobal", _batch, "setting"),
        _measure("samples_per_s", "samples/s\nmedian"),
        _percent("samples_per_s_spread_percent", "spread"),
        _versus("samples_per_s", "samples/s vs\nbaseline"),
        _efficiency_column("strong"),
        _efficiency_column("weak"),
        _measure("tokens_per_s", "tokens/s", 0),
        _measure("step_time_ms", "step time\nms"),
        _measure("model_tflop_per_s_per_device", "model\nTFLOP/s\n/device"),
        _memory("memory_allocated_mib", "allocated\nMiB"),
        _versus("memory_allocated_mib", "allocated vs\nbaseline"),
        _memory("memory_used_mib", "used\nMiB"),
        _versus("memory_used_mib", "used vs\nbaseline"),
        _measure("final_loss", "final\nloss", 4),
        Column(
            "steps_measured",
            "steps",
            lambda r: _count_text(r, "steps_measured"),
        ),
        Column("steps_skipped", "skipped\nsteps", lambda r: _count_text(r, "steps_skipped")),
        Column("steps_nan", "NaN\nsteps", lambda r: _count_text(r, "steps_nan")),
        Column(
            "repeats",
            "repeats\nok",
            lambda r: f"{machine_value(r, 'repeats_ok')}/{machine_value(r, 'repeats_total')}",
        ),
        Column("window", "window", _window_text, "setting"),
        Column("flop_vocab_size", "FLOP\nvocabulary", _vocabulary_text, "setting"),
    ]


@dataclass(frozen=True)
class Layout:
    """What people are shown: the columns left, what all rows share, and the notes below."""

    columns: tuple[Column, ...]
    common: Mapping[str, str]
    notes: tuple[str, ...]
    problems: tuple[tuple[str, str, str], ...]

    def cells(self, row: Row) -> list[str]:
        """The row's texts, one a column."""
        return [column.text(row) for column in self.columns]


def layout(table: Sequence[Row]) -> Layout:
    """Choose the columns: fold what all rows share, leave out what no row has."""
    kept: list[Column] = []
    common: dict[str, str] = {}
    for column in _columns(table):
        texts = {column.text(row) for row in table}
        shown = texts
        if column.key in ("window", "flop_vocab_size"):
            # Decided by what the runs logged: an unfinished run, marked as one, is no difference.
            shown = {column.text(row) for row in table if row.finished} - {MISSING}
        if column.kind == "setting" and len(shown) <= 1:
            if shown and shown != {MISSING}:
                common[column.one_line_header] = shown.pop()
        elif column.kind == "setting" or not _says_nothing(column, texts):
            kept.append(column)
    return Layout(
        columns=tuple(kept),
        common=common,
        notes=tuple(_notes(table)),
        problems=tuple(
            (one_line(row.cell), row.status, one_line(row.reason))
            for row in table
            if row.status != "ok"
        ),
    )


def _says_nothing(column: Column, texts: set[str]) -> bool:
    empty = {"steps_skipped": {"0"}, "steps_nan": {"0"}, "repeats": {"1/1"}}
    return column.kind == "measure" and texts <= ({MISSING} | empty.get(column.key, set()))


def _notes(table: Sequence[Row]) -> list[str]:
    """What a reader must know to use the numbers; each note only where it applies."""
    notes = []
    rates = [r.statistics.samples_per_s for r in table if r.statistics.samples_per_s]
    if rates:
        of = {rate.spread_of for rate in rates}
        spread = {
            "intervals": "interquartile range of the logged intervals",
            "repeats": "range of the repeats' medians",
        }
        text = " or, with repeats, ".join(spread[name] for name in sorted(of))
        notes.append(
            "samples/s and step time: median over the steps after warm-up (the window);"
            f" spread: {text}, in percent of the median."
        )
        sources = {rate.source for rate in rates}
        if sources != {"log"}:
            some = "" if sources == {"derived"} else " where the log has none"
            notes.append(f"samples/s is global batch size / step time{some}.")
    if any(row.model_tflop_per_s_per_device is not None for row in table):
        notes.append(
            f"TFLOP/s per device: {MODEL_FLOPS.id} = {MODEL_FLOPS.expression},"
            f" {MODEL_FLOPS.meaning} ({MODEL_FLOPS.source}); rows compare only where window and"
            " vocabulary are the same."
        )
    memory = [n for n in ("memory_allocated_mib", "memory_used_mib") if _any_value(table, n)]
    if memory:
        meaning = {
            "memory_allocated_mib": "allocated: the framework's peak on the fullest device",
            "memory_used_mib": "used: what the device (on a CPU, the process) had in use",
        }
        notes.append("Memory, MiB; " + "; ".join(meaning[name] for name in memory) + ".")
    if any(row.scaling for row in table):
        notes.append(
            "Scaling: samples/s per device over that of the series' smallest device count;"
            " strong: same global batch, weak: global batch in proportion to the devices."
        )
    if any(row.statistics.basis == "incomplete" for row in table):
        notes.append(
            f"{INCOMPLETE} measured over the steps trained before the run ended: not a result."
        )
    notes.extend(_baseline_notes(table))
    return notes


def _any_value(table: Sequence[Row], name: str) -> bool:
    return any(measured(machine_value(row, name)) is not None for row in table)


def _baseline_notes(table: Sequence[Row]) -> list[str]:
    compared = [(row, row.comparison) for row in table if row.comparison]
    if not compared:
        return []
    _, first = compared[0]
    notes = [
        f"Baseline {first.axis}={first.value}: difference from the cell with the same other axes,"
        " and percent of it."
    ]
    for row, comparison in compared:
        if comparison.note:
            mark = "‡ " if comparison.differences else ""
            verb = "" if comparison.differences else "not compared: "
            notes.append(f"{mark}{one_line(row.cell)}: {verb}{one_line(comparison.note)}.")
    return notes


# What a narrow table gives up first; other formats show every column.
_GIVEN_UP = (
    "tokens_per_s",
    "repeats",
    "steps_measured",
    "parallel",
    "step_time_ms",
    "memory_used_mib_difference",
    "batch",
    "samples_per_s_spread_percent",
    "system",
    "weak_scaling_efficiency",
    "strong_scaling_efficiency",
    "memory_used_mib",
)
_NAME_WIDTH = 24


def to_table(table: Sequence[Row], width: int = 120) -> str:
    """The table for terminals, `width` columns wide when it can be.

    What all rows share stands above it; columns it gave up for the width are named below.
    """
    if not table:
        return "no cells\n"
    chosen = layout(table)
    text, given_up = _fitted(table, chosen.columns, width)
    below = [f"{cell}: {status}: {reason}" for cell, status, reason in chosen.problems]
    below += chosen.notes
    if given_up:
        below.append(
            f"Left out to fit {width} columns: {', '.join(c.one_line_header for c in given_up)}"
            " (--format markdown and csv show all)."
        )
    shared = ", ".join(f"{name} {value}" for name, value in chosen.common.items())
    above = [_wrapped(f"common: {shared}", width), ""] if shared else []
    return "\n".join([*above, text, "", *(_wrapped(note, width) for note in below)]).rstrip() + "\n"


def _fitted(
    table: Sequence[Row], columns: Sequence[Column], width: int
) -> tuple[str, list[Column]]:
    """The grid within `width` where it can be, and the columns given up for that.

    Columns go in the order of _GIVEN_UP; then, last first, each comes back that still fits.
    """
    text = _grid(table, columns)
    if _width(text) <= width:
        return text, []
    ranked = sorted(
        (column for column in columns if column.key in _GIVEN_UP),
        key=lambda column: _GIVEN_UP.index(column.key),
    )
    gone: list[Column] = []
    for column in ranked:
        if _width(_grid(table, _without(columns, gone), _NAME_WIDTH)) <= width:
            break
        gone.append(column)
    for column in reversed(gone):
        fewer = [other for other in gone if other is not column]
        if _width(_grid(table, _without(columns, fewer), _NAME_WIDTH)) <= width:
            gone = fewer
    return _grid(table, _without(columns, gone), _NAME_WIDTH), gone


def _without(columns: Sequence[Column], gone: Sequence[Column]) -> list[Column]:
    return [column for column in columns if not any(column is other for other in gone)]


def _wrapped(text: str, width: int) -> str:
    return textwrap.fill(text, max(width, 40), subsequent_indent="  ", break_on_hyphens=False)


def _grid(table: Sequence[Row], columns: Sequence[Column], name_width: int | None = None) -> str:
    """The header, a rule and the rows. The header goes in as a row: tabulate pads real headers."""
    headers = [column.header for column in columns]
    text = tabulate(
        [headers, *([_folded(column, row, name_width) for column in columns] for row in table)],
        tablefmt="plain",
        disable_numparse=True,
        colalign=_alignment(columns),
        rowalign=["bottom", *("top" for _ in table)],
    )
    lines = text.splitlines()
    height = max(header.count("\n") for header in headers) + 1
    return "\n".join([*lines[:height], "-" * _width(text), *lines[height:]])


def _folded(column: Column, row: Row, name_width: int | None) -> str:
    """The column's text; a cell's name folded to `name_width` where its own signs allow it."""
    text = column.text(row)
    if name_width is None or column.key != "cell":
        return text
    pieces = []
    for piece in re.findall(r"[^-,./ ]*[-,./ ]?", text):
        pieces += re.findall(r"[^_]*_?", piece) if len(piece) > name_width else [piece]
    lines = [""]
    for piece in pieces:
        if lines[-1] and len(lines[-1] + piece) > name_width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


def _alignment(columns: Sequence[Column]) -> list[str]:
    return ["right" if column.kind == "measure" else "left" for column in columns]


def _width(text: str) -> int:
    return max((len(line) for line in text.splitlines()), default=0)


def to_markdown(table: Sequence[Row]) -> str:
    """The table in GitHub's Markdown, every column, notes as a list below."""
    if not table:
        return "No cells.\n"
    chosen = layout(table)
    lines = []
    if chosen.common:
        shared = ", ".join(f"{_markdown(k)} {_markdown(v)}" for k, v in chosen.common.items())
        lines += [f"Common: {shared}", ""]
    lines.append(
        tabulate(
            [[_markdown(text) for text in chosen.cells(row)] for row in table],
            headers=[column.one_line_header for column in chosen.columns],
            tablefmt="pipe",
            disable_numparse=True,
            colalign=_alignment(chosen.columns),
        )
    )
    below = [f"{cell}: {status}: {reason}" for cell, status, reason in chosen.problems]
    if below or chosen.notes:
        lines += ["", *(f"- {_markdown(text)}" for text in (*below, *chosen.notes))]
    return "\n".join(lines) + "\n"


def _markdown(text: str) -> str:
    """`text` with Markdown's signs escaped; an underscore inside a word is none of them."""
    return re.sub(r"([\\`*|<>\[\]~]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", text)
