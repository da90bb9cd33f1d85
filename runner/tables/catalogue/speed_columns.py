"""Columns of speed: samples/s, tokens/s and step time, how they vary, and the FLOPs they are."""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

from runner.tables.catalogue.column import Column, Text, Value, percent
from runner.tables.catalogue.settings_columns import ATTENTION, DEVICE
from runner.tables.formatting import MISSING, number_text, percent_text
from runner.tables.row import NO_ARCHITECTURE, NO_LENGTH, Row
from runner.terms.record import MIXED_FP8


def _summary_field(quantity: str, field: str) -> Value:
    return lambda row: getattr(getattr(row.statistics, quantity), field, None)


def _clock(row: Row) -> str | None:
    """Say what the row's times are by; None of one without any."""
    return row.record.measurement.clock if row.statistics.times else None


def _clock_within_ms(row: Row) -> float | None:
    """Return by how much the counted time of a run may be wrong for its clock, at most."""
    errors = (run.measurement.clock_within_ms for run in row.records)
    return max((error for error in errors if error is not None), default=None)


def _no_interval(row: Row) -> str:
    times = row.statistics.times
    return times.missing if times is not None else ""


def _of(quantity: str, field: str, **more: Any) -> Column:
    """Make the column of one part of a quantity's summary."""
    return Column(f"{quantity}_{field}", _summary_field(quantity, field), **more)


def _interval(row: Row) -> str:
    rate = row.statistics.samples_per_s
    if rate is None or rate.ci_low is None or rate.ci_high is None:
        return MISSING
    places = SAMPLES.places(rate.ci_high)
    return f"{number_text(rate.ci_low, places)}-{number_text(rate.ci_high, places)}"


def _open_by_steps(row: Row) -> float | None:
    times = row.statistics.times
    return None if times is None else times.open_by_steps * 100


def _stalls(row: Row) -> str:
    """Show what slow steps add to the time; of less than 0.05 % nothing."""
    share = row.statistics.stalls_percent
    return MISSING if share is None or abs(share) < 0.05 else percent_text(share)


def _no_length(row: Row) -> str:
    known_length = row.record.sample_length is not None or row.samples_per_s is None
    return "" if known_length else NO_LENGTH


def _no_flops(row: Row) -> str:
    if row.vocabulary is not None:
        return ""
    return "no samples/s" if row.samples_per_s is None else NO_ARCHITECTURE


def _no_mfu(row: Row) -> str:
    return (_no_flops(row) or row.peak[1]) if row.mfu_percent is None else ""


def _not_recomputed(row: Row) -> str:
    """Say why hardware FLOPs are missing where model FLOPs are known."""
    unknown = row.mfu_percent is not None and row.record.activation_checkpointing is None
    return "nothing says whether activations are computed again" if unknown else ""


def _no_matmul(row: Row) -> str:
    return (_no_flops(row) or row.reached.missing) if row.matmul_percent is None else ""


def _no_log_flops(row: Row) -> str:
    missing = row.statistics.log_tflop_per_s is None
    return "the log prints none of its own" if missing else ""


def _recomputed(key: str, decimals: int | None = None) -> Text:
    """Show a figure where something is computed again; elsewhere it equals its model's."""
    plain = Column(key, attrgetter(key), decimals=decimals)
    return lambda r: plain.text(r) if r.record.activation_checkpointing else MISSING


def _long(key: str, decimals: int | None = None) -> Text:
    """Show a figure where the causal mask leaves out 15 % of the FLOPs or more."""
    plain = Column(key, attrgetter(key), decimals=decimals)
    return lambda r: plain.text(r) if (r.causal_share or 1) <= LONG else MISSING


def _no_causal(row: Row) -> str:
    if row.causal_share is not None:
        return ""
    return _no_flops(row) or "nothing says how many of its FLOPs are attention's"


def _formulas(table: Sequence[Row]) -> Iterator[str]:
    for formula in dict.fromkeys(row.formula for row in table if row.formula):
        yield (
            f"TFLOP/s per device: {formula.id} = {formula.expression},"
            f" {formula.meaning} ({formula.source}); rows compare only where window and"
            " vocabulary are the same."
        )


def _peaks(table: Sequence[Row]) -> Iterator[str]:
    peaks = dict.fromkeys(row.peak_source for row in table if row.mfu_percent is not None)
    if peaks:
        yield f"MFU, HFU: of the device's dense peak ({'; '.join(map(str, peaks))})."


def _vocabulary(row: Row) -> str:
    size, kind = row.vocabulary or (0, "")
    return f"{size} {kind}" if size else MISSING  # FLOPs that are given know of none


LONG = 0.85  # of model FLOPs with half of the attention: Llama 3 8B from 12K tokens on
CAUSAL = (
    "causal: with half of the attention, since causal kernels leave half out (docs/measures.md)."
)
SAMPLES = Column(
    "samples_per_s",
    attrgetter("samples_per_s"),
    title="samples/s",
    place=120,
    better=1,
    words=("slower", "faster"),
    threshold_percent=3.0,
    by_runs=True,
)
SPEED = (
    SAMPLES,
    Column("samples_per_s_interval", title="95%\ninterval", place=130, worth=510, shown=_interval),
    _of("samples_per_s", "ci_low", missing=_no_interval),
    _of("samples_per_s", "ci_high", missing=_no_interval),
    _of(
        *("samples_per_s", "cv_percent"),
        title="CV",
        place=430,
        worth=130,
        shown=percent(_summary_field("samples_per_s", "cv_percent")),
    ),
    _of(
        *("samples_per_s", "spread_percent"),
        title="spread",
        place=140,
        worth=360,
        shown=percent(_summary_field("samples_per_s", "spread_percent")),
    ),
    _of("samples_per_s", "spread_of", type=("intervals", "repeats")),
    _of("samples_per_s", "source", type=("log", "derived", "mixed")),
    Column("clock", _clock, ("log", "arrivals")),
    Column("clock_within_ms", _clock_within_ms),
    Column("logged_samples_per_s", attrgetter("statistics.logged_samples_per_s")),
    _of("samples_per_s", "median", title="samples/s\nmedian", place=410, worth=10),
    _of("samples_per_s", "median_ci_low"),
    _of("samples_per_s", "median_ci_high"),
    Column("samples_per_s_steps_half_percent", _open_by_steps),
    Column(
        "stalls_percent",
        attrgetter("statistics.stalls_percent"),
        title="stalls",
        place=420,
        worth=370,
        shown=_stalls,
    ),
    Column(
        "samples_per_s_per_device",
        attrgetter("samples_per_s_per_device"),
        title="samples/s\n/device",
        place=440,
        worth=70,
    ),
    Column(
        "tokens_per_s",
        attrgetter("tokens_per_s"),
        title="tokens/s",
        place=450,
        worth=140,
        decimals=0,
        missing=_no_length,
    ),
    Column(
        "tokens_per_s_per_device",
        attrgetter("tokens_per_s_per_device"),
        title="tokens/s\n/device",
        decimals=0,
        missing=_no_length,
    ),
    Column(
        "step_time_ms",
        _summary_field("step_time_ms", "value"),
        title="step time\nms",
        place=460,
        worth=490,
        better=-1,
        words=("slower", "faster"),
        by_runs=True,
    ),
    _of("step_time_ms", "p95", title="step time\np95 ms", place=470, worth=100),
    _of("step_time_ms", "ci_low", missing=_no_interval),
    _of("step_time_ms", "ci_high", missing=_no_interval),
    _of("step_time_ms", "median"),
    _of("step_time_ms", "median_ci_low"),
    _of("step_time_ms", "median_ci_high"),
    Column("drift_percent", lambda row: getattr(row.statistics.drift, "percent", None)),
)
FLOPS = (
    Column(
        "model_tflop_per_s_per_device",
        attrgetter("model_tflop_per_s_per_device"),
        title="model\nTFLOP/s\n/device",
        place=480,
        worth=440,
        missing=_no_flops,
        note=_formulas,
    ),
    Column(
        "hardware_tflop_per_s_per_device",
        attrgetter("hardware_tflop_per_s_per_device"),
        title="hardware\nTFLOP/s\n/device",
        place=500,
        worth=40,
        shown=_recomputed("hardware_tflop_per_s_per_device"),
        missing=_not_recomputed,
        note=_formulas,
    ),
    Column(
        "causal_tflop_per_s_per_device",
        attrgetter("causal_tflop_per_s_per_device"),
        title="causal\nTFLOP/s\n/device",
        place=485,
        worth=45,
        shown=_long("causal_tflop_per_s_per_device"),
        missing=_no_causal,
        note=CAUSAL,
    ),
    Column(
        "log_tflop_per_s_per_device",
        attrgetter("statistics.log_tflop_per_s"),
        title="log's\nTFLOP/s\n/device",
        place=490,
        worth=60,
        missing=_no_log_flops,
        note="log's TFLOP/s: what the trainer prints, by its own count, which may take half of the"
        " attention or what is computed again (docs/measures.md).",
    ),
    Column("flop_formula", lambda r: r.formula.id if r.formula else None, "string"),
    Column(
        "flop_vocab_size",
        lambda r: (r.vocabulary[0] or None) if r.vocabulary else None,
        "integer",
        title="FLOP\nvocabulary",
        kind="setting",
        place=810,
        worth=15,
        shown=_vocabulary,
        logged=True,
    ),
    *DEVICE,
    Column(
        "arithmetic",
        attrgetter("arithmetic"),
        ("bf16", "fp16", "tf32", "fp32", MIXED_FP8),
    ),
    Column("peak_tflop_per_s", attrgetter("peak_tflop_per_s")),
    Column("peak_source", attrgetter("peak_source"), "string"),
    Column(
        "mfu_percent",
        attrgetter("mfu_percent"),
        title="MFU\n%",
        place=510,
        worth=500,
        decimals=1,
        missing=_no_mfu,
        note=_peaks,
    ),
    Column(
        "causal_mfu_percent",
        attrgetter("causal_mfu_percent"),
        title="causal\nMFU\n%",
        place=515,
        worth=495,
        decimals=1,
        shown=_long("causal_mfu_percent", decimals=1),
        missing=lambda r: _no_mfu(r) or _no_causal(r),
        note=CAUSAL,
    ),
    Column(
        "hfu_percent",
        attrgetter("hfu_percent"),
        title="HFU\n%",
        place=520,
        worth=50,
        decimals=1,
        shown=_recomputed("hfu_percent", decimals=1),
        missing=lambda r: _no_mfu(r) or _not_recomputed(r),
        note=_peaks,
    ),
    Column("matmul_tflop_per_s", attrgetter("matmul_tflop_per_s")),
    Column(
        "matmul_percent",
        attrgetter("matmul_percent"),
        title="of\nmatmul\n%",
        place=530,
        worth=340,
        decimals=1,
        missing=_no_matmul,
        note="Of matmul: model TFLOP/s in percent of what doctor's matrix product reached on the"
        " same devices in the same arithmetic, at most a week before.",
    ),
    *ATTENTION,
)
