"""Columns of the training: a target loss, start, memory, losses, which steps count, scaling."""

from collections import Counter
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

from node.printable import printable
from runner.figures.experts import NOT_SAID as NO_EXPERTS
from runner.figures.planned import progress
from runner.figures.startup import NOT_SAID, NOT_SEEN
from runner.figures.target import TimeToTarget
from runner.tables.catalogue.column import Column, Text, Value, count
from runner.tables.formatting import MISSING, decimals, number_text, percent_text
from runner.tables.row import Row
from runner.terms.memory import MEMORY

_DECIMALS = {
    "iterations_to_target": 0,
    "iterations_to_validation_target": 0,
    "tokens_to_target": 0,
}
# Place and worth of what a target takes.
_TO_TARGET = {
    "iterations": (190, 530),
    "seconds": (200, 430),
    "tokens": (210, 170),
    "joules": (220, 160),
}
_TO_VALIDATION = {"iterations": (240, 520), "seconds": (250, 180)}
_OWNERS = {"joules": "devices' J"}
_SCALING = (
    "Scaling: samples/s per device over that of the series' smallest device count;"
    " strong: same global batch, weak: global batch in proportion to the devices."
)


def _arrived(name: str, of: str) -> Value:
    def value(row: Row) -> Any:
        target: TimeToTarget | None = getattr(row, of)
        return getattr(target.figures.get(name), "median", None) if target else None

    return value


def _why_not_arrived(name: str, of: str) -> Text:
    def why(row: Row) -> str:
        target: TimeToTarget | None = getattr(row, of)
        return target.missing.get(name, "") if target else ""

    return why


def _arrival_text(name: str, of: str) -> Text:
    """Show the median over the runs and its interval, as far as the runs tell them."""

    def text(row: Row) -> str:
        target: TimeToTarget | None = getattr(row, of)
        if target is None or name not in target.figures:
            late = target is not None and target.missing[name] == target.not_reached
            return "not reached" if late else MISSING
        figure = target.figures[name]
        places = _DECIMALS.get(f"{name}_to_{of}", decimals(figure.median))
        low, high = (number_text(end, places) for end in (figure.low, figure.high))
        if figure.low is None:
            within = f" ± {target.within:g}" if name == "iterations" and target.within > 1 else ""
            return f"{number_text(figure.median, places)}{within}"
        ends = f"from {low}" if figure.high is None else f"{low}-{high}"
        return f"{number_text(figure.median, places)} ({ends})"

    return text


def _to_target() -> Iterator[Column]:
    for name, (rank, worth) in _TO_TARGET.items():
        yield Column(
            f"{name}_to_target",
            _arrived(name, "target"),
            title=f"{_OWNERS.get(name, name)}\nto target",
            place=rank,
            worth=worth,
            shown=_arrival_text(name, "target"),
            decimals=_DECIMALS.get(f"{name}_to_target"),
            missing=_why_not_arrived(name, "target"),
        )


def _to_validation_target() -> Iterator[Column]:
    for name, (rank, worth) in _TO_VALIDATION.items():
        yield Column(
            f"{name}_to_validation_target",
            _arrived(name, "validation_target"),
            title=f"{name} to\nvalidation target",
            place=rank,
            worth=worth,
            shown=_arrival_text(name, "validation_target"),
            decimals=_DECIMALS.get(f"{name}_to_validation_target"),
            missing=_why_not_arrived(name, "validation_target"),
        )


def _reached(row: Row) -> str:
    target = row.target
    return f"{target.reached}/{len(target.arrivals)}" if target and target.arrivals else MISSING


TARGET = (
    Column(
        "target_loss",
        lambda r: r.target.loss if r.target else None,
        title="target loss",
        kind="setting",
        place=170,
        shown=lambda r: f"{r.target.loss:g}" if r.target else MISSING,
    ),
    Column(
        "target_reached",
        lambda r: r.target.reached if r.target else None,
        "integer",
        title="reached\ntarget",
        place=180,
        worth=190,
        shown=_reached,
    ),
    Column("target_runs", lambda r: len(r.target.arrivals) if r.target else None, "integer"),
    *_to_target(),
    Column(
        "target_validation_loss",
        lambda r: r.validation_target.loss if r.validation_target else None,
        title="validation\ntarget",
        kind="setting",
        place=230,
        shown=lambda r: f"{r.validation_target.loss:g}" if r.validation_target else MISSING,
    ),
    *_to_validation_target(),
)


def _of_startup(table: Sequence[Row]) -> Iterator[str]:
    firsts = sorted({at for row in table if (at := row.statistics.startup.first_iteration)})
    if firsts:
        iterations = ", ".join(map(str, firsts[:4])) + (", ..." if len(firsts) > 4 else "")
        compiled = any(row.statistics.startup.compile_s is not None for row in table)
        yield (
            "first step: seconds from the launcher's start to the first logged line (iteration"
            f" {iterations})"
            + ("; compile: what of it the log says was compiling." * compiled or ".")
        )
    for row in table:
        if len(caches := Counter(row.statistics.startup.caches)) > 1:
            iterations = ", ".join(f"{runs} {word}" for word, runs in caches.items())
            yield (
                f"first step and compile of {printable(row.cell)}: medians of runs with different"
                f" compile caches ({iterations}); compare only runs whose caches are alike."
            )


def _cache(row: Row) -> str | None:
    return "; ".join(dict.fromkeys(row.statistics.startup.caches)) or None


START = (
    Column(
        "time_to_first_step_s",
        attrgetter("statistics.startup.first_step_s"),
        title="first\nstep s",
        place=590,
        worth=120,
        decimals=1,
        missing=lambda r: NOT_SEEN if r.statistics.startup.first_step_s is None else "",
        note=_of_startup,
    ),
    Column("first_logged_iteration", attrgetter("statistics.startup.first_iteration"), "integer"),
    Column(
        "compile_s",
        attrgetter("statistics.startup.compile_s"),
        title="compile\ns",
        place=600,
        worth=30,
        decimals=1,
        missing=lambda r: NOT_SAID if r.statistics.startup.compile_s is None else "",
    ),
    Column(
        "compile_cache",
        _cache,
        "string",
        title="compile\ncache",
        kind="setting",
        place=610,
        worth=20,
        shown=lambda r: _cache(r) or MISSING,
        people_if=lambda table: any(_cache(row) not in (None, "none") for row in table),
    ),
)


def _experts(key: str, position: int, worth: int, **more: Any) -> Column:
    """Make a column of how the experts were loaded; tables without experts lack it."""
    value = attrgetter(f"statistics.experts.{key}")
    return Column(
        key if key == "tokens_per_expert" else f"expert_{key}",
        value,
        place=position,
        worth=worth,
        missing=lambda row: NO_EXPERTS if value(row) is None else "",
        machine_if=lambda table: any(value(row) is not None for row in table),
        people_if=lambda table: any(value(row) is not None for row in table),
        logged=True,
        **more,
    )


def _routing(row: Row) -> str | None:
    has_experts = getattr(row.record.model, "num_experts", 0)
    return str(row.record.parameters.get("routing") or "") or None if has_experts else None


EXPERTS = (
    Column(
        "routing",
        _routing,
        "string",
        title="routing",
        kind="setting",
        place=620,
        worth=60,
        shown=lambda row: _routing(row) or MISSING,
        machine_if=lambda table: any(map(_routing, table)),
        people_if=lambda table: any(map(_routing, table)),
    ),
    _experts("tokens_per_expert", 630, 25, title="tokens per\nexpert", decimals=1),
    _experts(
        "imbalance",
        640,
        65,
        title="expert\nimbalance",
        decimals=2,
        better=-1,
        note="Expert imbalance: tokens of a layer's busiest expert over the mean of its experts,"
        " in the last logged line; 1 is balance.",
    ),
    _experts("drop_percent", 650, 35, title="dropped\n%", decimals=1, better=-1),
)
_RSS = "memory_rss_mib"


def _of_memory(table: Sequence[Row]) -> Iterator[str]:
    """Yield what each figure of memory that the table has is the peak of."""
    parts = [
        f"{figure.title}: {figure.meaning}"
        for key, figure in MEMORY.items()
        if any(getattr(row.statistics, key) is not None for row in table)
    ]
    if parts:
        yield f"Memory, MiB; {'; '.join(parts)}."


def _rss_end(side: int) -> Value:
    return lambda row: (row.statistics.rss_interval or (None, None))[side]


MEMORY_USE = (
    *(
        Column(
            key,
            attrgetter(f"statistics.{key}"),
            title=f"{figure.title}\nMiB",
            place=620 + 20 * at,
            worth=450 + 10 * at,
            decimals=0,
            better=-1,
            words=("more_memory", "less_memory"),
            threshold_percent=3.0,
            by_runs=key == _RSS,
            note=_of_memory,
        )
        for at, (key, figure) in enumerate(MEMORY.items())
    ),
    Column(f"{_RSS}_ci_low", _rss_end(0)),
    Column(f"{_RSS}_ci_high", _rss_end(1)),
)
LOSSES = (
    Column(
        "final_loss",
        attrgetter("statistics.final_loss"),
        title="final\nloss",
        place=700,
        worth=520,
        decimals=4,
        better=-1,
    ),
    Column(
        "validation_loss",
        attrgetter("validation_loss"),
        title="validation\nloss",
        place=710,
        worth=425,
        decimals=4,
    ),
    Column("perplexity", attrgetter("perplexity"), title="PPL", place=720, worth=424),
)


def _trained(of: Value) -> Value:
    """Return a count of a run that trained; a run that did not has none, not 0."""
    return lambda row: None if row.statistics.basis == "none" else of(row)


def _iterations(row: Row) -> str:
    """Show the iteration that the log ends at, of the one that the run was to end at."""
    trained = _trained(lambda r: progress(r.record)[0])(row)
    ends = (trained, progress(row.record)[1])
    return "/".join(number_text(end, 0) for end in ends if end is not None) if trained else MISSING


def _cut(table: Sequence[Row]) -> bool:
    """Whether any row's log ends before the iteration at which the run was to end."""
    ends = (progress(row.record) for row in table)
    return any(trained and of and trained < of for trained, of in ends)


def _window_end(side: int) -> Value:
    return lambda row: (row.statistics.window or (None, None))[side]


def _window(row: Row) -> str:
    window = row.statistics.window
    return MISSING if window is None else f"{window[0]}-{window[1]}"


def _ok(row: Row) -> int:
    return sum(record.status == "ok" for record in row.records)


def _warmup(row: Row) -> str:
    out = row.statistics.warmup
    if out is None or row.statistics.basis == "none":
        return MISSING
    return f"{'found' if row.statistics.warmup_found else 'given'} {out}"


def _steps(key: str, title: str = "", position: float = 0, **more: Any) -> Column:
    """Make the column of a count of steps or lines."""
    value = _trained(attrgetter(f"statistics.{key}"))
    text = count(value) if position else None
    return Column(
        key, value, "integer", title=title, place=position, shown=text, decimals=0, **more
    )


STEPS = (
    Column(
        "iterations_trained",
        _trained(lambda r: progress(r.record)[0]),
        "integer",
        title="iterations\nof all",
        place=730,
        shown=_iterations,
        people_if=_cut,
    ),
    Column("iterations_planned", lambda r: progress(r.record)[1], "integer"),
    _steps("logged_lines", "logged lines"),
    _steps("counted_lines", "counted lines"),
    _steps("steps_measured", "steps", 740, worth=85),
    Column("iterations_per_line", attrgetter("statistics.iterations_per_line"), "integer"),
    _steps("steps_skipped", "skipped\nsteps", 750, worth=88, nothing=frozenset({"0"})),
    _steps("lines_paused"),
    _steps("steps_nan", "NaN\nsteps", 760, worth=590, nothing=frozenset({"0"})),
    _steps("steps_left_out"),
    Column(
        "warmup_iters",
        _trained(attrgetter("statistics.warmup")),
        "integer",
        title="warm-up",
        kind="setting",
        place=790,
        worth=150,
        shown=_warmup,
        logged=True,
    ),
    Column(
        "warmup_source",
        _trained(lambda r: "found" if r.statistics.warmup_found else "given"),
        ("found", "given"),
    ),
    Column(
        "window", title="window", kind="setting", place=780, worth=345, shown=_window, logged=True
    ),
    Column("window_first_iteration", _window_end(0), "integer"),
    Column("window_last_iteration", _window_end(1), "integer"),
    Column(
        "repeats",
        title="repeats\nok",
        place=770,
        worth=330,
        shown=lambda r: f"{_ok(r)}/{len(r.records)}",
        nothing=frozenset({"1/1"}),
    ),
    Column("repeats_ok", _ok, "integer", always=True),
    Column("repeats_total", lambda r: len(r.records), "integer", always=True),
    Column("repeats_until_percent", lambda r: r.record.until_percent),
)


def _efficiency(kind: str, position: float, worth: float) -> Column:
    def value(row: Row) -> float | None:
        return row.scaling[kind].efficiency if kind in row.scaling else None

    def text(row: Row) -> str:
        scaled = row.scaling.get(kind)
        if scaled is None:
            return MISSING
        return "base" if scaled.base_cell == row.cell else percent_text(scaled.efficiency * 100)

    return Column(
        f"{kind}_scaling_efficiency",
        value,
        title=f"{kind}\nscaling",
        place=position,
        worth=worth,
        shown=text,
        note=_SCALING,
    )


SCALING = (_efficiency("strong", 390, 320), _efficiency("weak", 400, 310))
