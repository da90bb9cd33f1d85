"""The columns of a table: one line each. A figure has its arithmetic in runner/figures/.

CSV has a column where a row has the figure; people see those with a title, in this order, where any
row says something. Settings that are alike in all rows are told once, above or below a table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from node.printable import printable
from runner.base.text import listing
from runner.figures.publishable import CODES
from runner.tables.formatting import (
    MISSING,
    axis_text,
    change_text,
    decimals,
    initials,
    number_text,
    percent_text,
    small_decimals,
)
from runner.tables.row import PUBLISHABLE, Row, axis_names, finished, sizes_named
from runner.terms.memory import MEMORY
from runner.terms.record import DATA_PARALLEL, MIXED_FP8

Text = Callable[[Row], str]
Hidden = Callable[[Sequence[Row]], bool]
Kind = Literal["name", "setting", "measure"]
INCOMPLETE = "†"  # beside a number of a run that did not end ok
DOUBTFUL = "‡"  # beside a difference that a note comments on
HEADLINE = "samples_per_s"
LONG = 0.85  # of model FLOPs with half of the attention: Llama 3 8B from 12K tokens on


@dataclass(frozen=True)
class Column:
    """One column. `title` is its header for people, with the line breaks of a narrow table; without
    one it is for machines alone. `hide` has texts without news, or says of which tables people do
    not see it.

    `shown` is the text of a row, where that is not its value; `decimals` None: four significant
    digits. `better` 1: more is better, -1: less; `words` are what `compare` calls a change, beyond
    `threshold_percent`; `by_runs`: runs of one setting differ, and their noise decides.
    """

    key: str
    title: str = ""
    kind: Kind = "measure"
    decimals: int | None = None
    shown: Text | None = None
    hide: frozenset[str] | Hidden = frozenset()
    type: str | tuple[str, ...] = "number"  # in the JSON schema: a type, or the words it may be
    better: Literal[-1, 0, 1] = 0
    words: tuple[str, str] = ("worse", "better")
    threshold_percent: float | None = None
    by_runs: bool = False

    @property
    def one_line_title(self) -> str:
        """The title without its line breaks."""
        return self.title.replace("/\n", "/").replace("\n/", "/").replace("\n", " ")

    def json_schema(self) -> dict[str, Any]:
        """Return what a value may be in JSON."""
        if isinstance(self.type, tuple):
            return {"enum": [*self.type, None]}
        return {"type": [self.type, "null"]}

    def value(self, row: Row) -> Any:
        """Return the row's value in full precision, None without one."""
        figures = row["figures"]
        return figures[self.key] if self.key in figures else row.get(self.key)

    def text(self, row: Row) -> str:
        """Return what people read in a row."""
        if self.shown is not None:
            return self.shown(row)
        text = self.number(row)
        if text == MISSING or self.kind != "measure":
            return text
        return text + ("" if finished(row) else INCOMPLETE) + signs(row) * (self.key == HEADLINE)

    def number(self, row: Row) -> str:
        """Return the value as people read it, without marks."""
        value = self.value(row)
        if isinstance(value, str):
            return printable(value) or MISSING
        return MISSING if value is None else number_text(value, self.places(value))

    def places(self, value: float) -> int:
        """Return how many decimals a value is shown with."""
        return decimals(value) if self.decimals is None else self.decimals


def signs(row: Row) -> str:
    """Return the signs beside a speed that its codes make doubtful."""
    return "".join(dict.fromkeys(CODES[word].sign for word in row["verdict_reasons"]))


def verdict_text(row: Row) -> str:
    """Say the verdict: the worst code, and how many more there are."""
    worst, *more = row["verdict_reasons"] or [PUBLISHABLE]
    return f"{worst} +{len(more)}" if more else worst


def _nodes(row: Row) -> str:
    return f"{row['figures']['nodes']}x{row['figures']['devices_per_node']}"


_ALWAYS = (DATA_PARALLEL, "tensor_parallel", "pipeline_parallel")


def _parallel(row: Row) -> str:
    """Show sizes behind the initials of their names: `dp4 tp2 pp1`, others where they split."""
    sizes = row["parallel"].items()
    shown = [f"{initials(name)}{size}" for name, size in sizes if size > 1 or name in _ALWAYS]
    return " ".join(shown) or MISSING


def _batch(row: Row) -> str:
    sizes = (row["figures"][f"{name}_batch_size"] for name in ("micro", "global"))
    return "/".join(MISSING if size is None else str(size) for size in sizes)


def _attention(row: Row) -> str:
    """Show the kernel that ran, where an axis asks for none or for another."""
    ran = row["figures"]["attention"]
    return MISSING if ran == row["axes"].get("attention_backend") else printable(ran or MISSING)


def _nested(rows: Sequence[Row]) -> bool:
    """Whether all runs had the nodes of the largest one, or some of them: nobody asks which."""
    host_sets = [set(hosts) for row in rows for hosts in row["hosts"]]
    largest = max(host_sets, key=len, default=set())
    return all(hosts <= largest for hosts in host_sets)


def _unbroken(rows: Sequence[Row]) -> bool:
    """Whether no failure was followed by another attempt."""
    return all(row["figures"].get("recovery_running_s") is None for row in rows)


def _hosts(row: Row) -> str:
    """Name the nodes; behind a semicolon those that another repeat had."""
    return "; ".join(printable(listing(hosts)) for hosts in row["hosts"]) or MISSING


def _difference(key: str) -> Text:
    def text(row: Row) -> str:
        comparison = row["comparison"]
        if comparison is None or row["figures"].get(key) is None:
            return MISSING
        if comparison["is_baseline"] and not comparison["note"]:
            return "baseline"
        difference = comparison["differences"].get(key)
        return change_text(difference) + (DOUBTFUL if difference and comparison["note"] else "")

    return text


def _loss(row: Row) -> str:
    comparison = row["comparison"]
    if comparison is None or (comparison["is_baseline"] and not comparison["note"]):
        return MISSING if comparison is None else "baseline"
    loss = comparison["loss"]
    if loss is None or loss["same"] is None:
        return MISSING
    by = "NaN" if loss["by"] is None else f"{loss['by']:+.3g}"
    return "same" if loss["same"] else f"from {loss['at']}: {by}"


def _learns(row: Row) -> str:
    comparison = row["comparison"]
    if comparison is None or "target" not in row["targets"]:
        return MISSING
    if comparison["is_baseline"]:
        return "baseline"
    return (comparison["learning"] and comparison["learning"]["words"]) or MISSING


def _arrival(name: str) -> Text:
    """Show the median over the runs and its interval, as far as the runs tell them."""

    def text(row: Row) -> str:
        target = row["targets"].get("target")
        middle = target["figures"].get(name) if target else None
        if target is None or middle is None:
            late = target and row["missing"].get(f"{name}_to_target") == target["not_reached"]
            return "not reached" if late else MISSING
        places = 0 if name == "iterations" else decimals(middle["median"])
        found = number_text(middle["median"], places)
        if middle["low"] is None:
            within = target["within"]
            return f"{found} ± {within:g}" if name == "iterations" and within > 1 else found
        low, high = (number_text(end, places) for end in (middle["low"], middle["high"]))
        return f"{found} ({f'from {low}' if middle['high'] is None else f'{low}-{high}'})"

    return text


def _reached(row: Row) -> str:
    target = row["targets"].get("target")
    return f"{target['reached']}/{target['runs']}" if target and target["runs"] else MISSING


def _general(key: str) -> Text:
    """Show a number with as few digits as it has."""
    return lambda row: MISSING if (value := row["figures"].get(key)) is None else f"{value:g}"


def _percent(key: str, least: float = 0.0, scale: float = 1.0) -> Text:
    """Show percent, of more than `least`."""

    def text(row: Row) -> str:
        value = row["figures"].get(key)
        return MISSING if value is None or abs(value) < least else percent_text(value * scale)

    return text


def _scaling(kind: str) -> Text:
    def text(row: Row) -> str:
        scaled = row["scaling"].get(kind)
        if scaled is None:
            return MISSING
        if scaled["base_cell"] == row["cell"]:
            return "base"
        return percent_text(scaled["efficiency"] * 100)

    return text


def _within(key: str, places: int | None = None) -> Text:
    """Show a mean with half of its 95 % interval."""

    def text(row: Row) -> str:
        value, half = row["figures"].get(key), row["halves"].get(key)
        if value is None:
            return MISSING
        digits = places or (2 if value < 10 else 1)
        return number_text(value, digits) + (f" ±{number_text(half, digits)}" if half else "")

    return text


def _cost(key: str) -> Text:
    return lambda row: (
        MISSING
        if (cost := row["figures"].get(key)) is None
        else number_text(cost, small_decimals(cost))
    )


def _recomputed(row: Row) -> str:
    """Show HFU where something is computed again; elsewhere it equals MFU."""
    return _HFU.text(row) if row["figures"]["activation_checkpointing"] else MISSING


def _causal(row: Row) -> str:
    """Show MFU with half of the attention where that leaves out 15 % of the FLOPs or more."""
    half, whole = row["figures"]["causal_mfu_percent"], row["figures"]["mfu_percent"]
    return _CAUSAL.text(row) if half and half <= LONG * whole else MISSING


_HFU = Column("hfu_percent", decimals=1)
_CAUSAL = Column("causal_mfu_percent", decimals=1)


def _expected(row: Row) -> str:
    expected = row["expected"]
    if expected is None or expected["percent"] is None:
        return MISSING
    percent = expected["percent"]
    text = f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"
    return text if expected["same"] else f"({text})"


def _published(key: str) -> Text:
    """Show a document's figure and, in percent, how much more ours is."""

    def text(row: Row) -> str:
        theirs = published_figure(row, key)
        if theirs is None:
            return MISSING
        ours = row["figures"].get(key) if finished(row) else None
        return f"{theirs:.10g}" + ("" if ours is None else f" ({(ours / theirs - 1) * 100:+.1f}%)")

    return text


def published_figure(row: Row, key: str) -> float | None:
    """Return what a document printed for this cell: the first that has the figure."""
    documents = row["published"]
    return next((each["figures"][key] for each in documents if key in each["figures"]), None)


def _iterations(row: Row) -> str:
    """Show the iteration that the log ends at, of the one that the run was to end at."""
    trained, planned = (row["figures"][f"iterations_{word}"] for word in ("trained", "planned"))
    if not trained or (planned and trained >= planned):
        return MISSING
    return "/".join(number_text(end, 0) for end in (trained, planned) if end is not None)


def _window(row: Row) -> str:
    first, last = (row["figures"][f"window_{end}_iteration"] for end in ("first", "last"))
    return MISSING if first is None else f"{first}-{last}"


def _warmup(row: Row) -> str:
    figures = row["figures"]
    out, source = figures["warmup_iters"], figures["warmup_source"]
    return MISSING if out is None else f"{source} {out}"


def _repeats(row: Row) -> str:
    return f"{row['figures']['repeats_ok']}/{row['figures']['repeats_total']}"


def _count(key: str) -> Text:
    return lambda row: number_text(row["figures"].get(key), 0)


C = Column
_ZERO = frozenset({"0"})
_SPEED = ("slower", "faster")
# What a cell is, and how it ended. The axes that have no column of their own stand behind these.
_NAMES = (
    C("cell", "cell", "name", type="string"),
    C("cell_id", type="string"),
    C("status", "status", "name", type="string"),
    C("reason", type="string"),
    C("numbers_from", type=("ok runs", "steps before the run ended")),
    C("campaign", "campaign", "setting", type="string"),
    C("system", "system", "setting", type="string"),
    C("verdict", "verdict", "setting", shown=verdict_text, type="string"),
)
_SETTINGS = (
    C("nodes_x_devices", "nodes x\ndevices", "setting", shown=_nodes),
    C("nodes", type="integer"),
    C("devices_per_node", type="integer"),
    C("devices", type="integer"),
    C("hosts", "on", "setting", shown=_hosts, hide=_nested, type="string"),
    C("parallel", "parallel", "setting", shown=_parallel),
    C("attention", "attention", "setting", shown=_attention, type="string"),
    C("batch", "batch\nmicro/\nglobal", "setting", shown=_batch),
    C("micro_batch_size", type="integer"),
    C("global_batch_size", type="integer"),
    C("tokens_per_sample", type="integer"),
    C("activation_checkpointing", type="boolean"),
    C("date", type="string"),
)
_MEASURED = (
    C(HEADLINE, "samples/s", better=1, threshold_percent=3.0, words=_SPEED, by_runs=True),
    C("samples_per_s_ci_low"),
    C("samples_per_s_ci_high"),
    C("samples_per_s_steps_half_percent"),
    C("samples_per_s_difference", "samples/s vs\nbaseline", shown=_difference(HEADLINE)),
    C("samples_per_s_difference_percent"),
    C(
        "loss_parity",
        "loss vs\nbaseline",
        shown=_loss,
        hide=frozenset({"same", "baseline"}),
        type=("same", "diverges"),
    ),
    C("target_loss", "target loss", "setting", shown=_general("target_loss")),
    C("target_reached", "reached\ntarget", shown=_reached, type="integer"),
    C("iterations_to_target", "iterations\nto target", shown=_arrival("iterations")),
    C("seconds_to_target", "seconds\nto target", shown=_arrival("seconds")),
    C("cost_to_target", "cost to\ntarget", shown=_cost("cost_to_target")),
    C(
        "learns",
        "learns vs\nbaseline",
        shown=_learns,
        hide=frozenset({"baseline"}),
        type=("alike", "slower", "faster"),
    ),
    C(
        "goodput_percent",
        "good-\nput %",
        shown=_within("goodput_percent", 1),
        hide=_unbroken,
        better=1,
    ),
    C("faults", type="integer"),
    C("recovery_notice_s", "notice\ns", shown=_within("recovery_notice_s"), better=-1),
    C("recovery_running_s", "running\nagain s", shown=_within("recovery_running_s"), better=-1),
    C("recovery_lost_steps", "lost\nsteps", shown=_within("recovery_lost_steps"), better=-1),
    C("checkpoint_stall_s", "save\nstall s", shown=_within("checkpoint_stall_s"), better=-1),
    C("strong_scaling_efficiency", "strong\nscaling", shown=_scaling("strong")),
    C("weak_scaling_efficiency", "weak\nscaling", shown=_scaling("weak")),
    C("stalls_percent", "stalls", shown=_percent("stalls_percent", 0.05)),
    C("clock", type=("log", "arrivals")),
    C("clock_within_ms"),
    C("logged_samples_per_s"),
    C("samples_per_s_per_device", "samples/s\n/device"),
    C("tokens_per_s", "tokens/s", decimals=0),
    C("tokens_per_s_per_device", decimals=0),
    C("expected_percent", "of\nothers", shown=_expected),
    C("cost_per_million_tokens", "cost per\nM tokens", shown=_cost("cost_per_million_tokens")),
    C("step_time_ms", "step time\nms", better=-1, words=_SPEED, by_runs=True),
    C("model_tflop_per_s_per_device", "model\nTFLOP/s\n/device"),
    C("log_tflop_per_s_per_device", "log's\nTFLOP/s\n/device"),
    C("mfu_percent", "MFU\n%", decimals=1),
    C("causal_mfu_percent", "causal\nMFU\n%", shown=_causal),
    C("hfu_percent", "HFU\n%", shown=_recomputed),
    C("peak_source", type="string"),
    C("arithmetic", type=("bf16", "fp16", "tf32", "fp32", MIXED_FP8)),
    C("matmul_percent", "of\nmatmul\n%", decimals=1),
    C("utilisation_percent", "util\n%", decimals=0),
    C("utilisation_source", type=("samples", "log")),
    C("energy_per_token_j", "devices'\nJ/token", decimals=5),
    C("energy_method", type="string"),
    C("energy_within_percent"),
    C("energy_per_token_log_j"),
    C("mean_power_w", "power\nW/device", decimals=0),
    C("idle_power_w"),
    C("temperature_max_c", "max\n°C", decimals=0),
    C("sm_clock_min_mhz"),
    C("throttled", "throttled", hide=frozenset({"no"}), type="string"),
    C("time_to_first_step_s", "first\nstep s", decimals=1),
    C("first_logged_iteration", type="integer"),
    C("compile_s", "compile\ns", decimals=1),
    C("compile_cache", "compile\ncache", "setting", hide=frozenset({"none"}), type="string"),
    C("routing", "routing", "setting", type="string"),
    C("tokens_per_expert", "tokens per\nexpert", decimals=1),
    C("expert_imbalance", "expert\nimbalance", decimals=2, better=-1),
    C("expert_drop_percent", "dropped\n%", decimals=1, better=-1),
)


def _memory() -> list[Column]:
    """Return each figure of memory, with its difference from the baseline's."""
    columns = []
    for key, figure in MEMORY.items():
        difference = f"{key}_difference"
        columns += [
            C(
                key,
                f"{figure.title}\nMiB",
                decimals=0,
                better=-1,
                words=("more_memory", "less_memory"),
                threshold_percent=3.0,
                by_runs=key == "memory_rss_mib",
            ),
            C(difference, f"{figure.title} vs\nbaseline", shown=_difference(key)),
        ]
    return columns


# Titles of a document's figures.
_PUBLISHED = {
    "samples_per_s": "samples/s\npublished",
    "memory_used_mib": "used MiB\npublished",
    "utilisation_percent": "util %\npublished",
    "perplexity": "PPL\npublished",
}
_TRAINED = (
    C("final_loss", "final\nloss", decimals=4, better=-1),
    C("validation_loss", "validation\nloss", decimals=4),
    C("perplexity", "PPL"),
    *(C(f"published_{key}", title, shown=_published(key)) for key, title in _PUBLISHED.items()),
    C("iterations_trained", "iterations\nof all", shown=_iterations, type="integer"),
    C("iterations_planned", type="integer"),
    C("counted_lines", type="integer"),
    C("steps_measured", "steps", shown=_count("steps_measured"), type="integer"),
    C("steps_skipped", "skipped\nsteps", shown=_count("steps_skipped"), hide=_ZERO, type="integer"),
    C("steps_nan", "NaN\nsteps", shown=_count("steps_nan"), hide=_ZERO, type="integer"),
    C("lines_paused", type="integer"),
    C("repeats", "repeats\nok", shown=_repeats, hide=frozenset({"1/1"})),
    C("repeats_ok", type="integer"),
    C("repeats_total", type="integer"),
    C("repeats_until_percent"),
    C("window", "window", "setting", shown=_window),
    C("window_first_iteration", type="integer"),
    C("window_last_iteration", type="integer"),
    C("warmup_iters", "warm-up", "setting", shown=_warmup, type="integer"),
    C("warmup_source", type=("found", "given")),
    C("device", "device", "setting", type="string"),
    C("flop_vocabulary", "FLOP\nvocabulary", "setting", type="string"),
)
_EVERY = (*_NAMES, *_SETTINGS, *_MEASURED, *_memory(), *_TRAINED)
COLUMNS: Mapping[str, Column] = {column.key: column for column in _EVERY}
# What cells are compared in unless told otherwise, to the percent by which it may differ.
THRESHOLDS: Mapping[str, float] = {
    key: limit for key, c in COLUMNS.items() if (limit := c.threshold_percent) is not None
}
# What may be called worse or better from one campaign to another.
JUDGED: Mapping[str, Column] = {key: column for key, column in COLUMNS.items() if column.better}
# Axes that have a column of their own, as the parallel sizes have.
_SHOWN = {"system", "nodes", "devices_per_node", "micro_batch_size", "global_batch_size"}
_TEXTS = ("cell", "cell_id", "status", "reason", "numbers_from", "campaign", "system", "verdict")


def title(key: str) -> str:
    """Return what people call a column, on one line; its key where it has no title."""
    column = COLUMNS.get(key)
    return column.one_line_title if column and column.title else key


def axes(rows: Sequence[Row]) -> list[Column]:
    """Make a column of each axis that has none yet."""
    visible = _SHOWN | set(sizes_named(rows))
    return [_axis(name) for name in axis_names(rows) if name not in visible]


def _axis(name: str) -> Column:
    header = printable(name).replace("_", "\n")
    return C(f"axis_{name}", header, "setting", shown=lambda row: axis_text(row, name) or MISSING)


def for_people(rows: Sequence[Row]) -> list[Column]:
    """Return every column for people, in order; `select` leaves out and folds."""
    every = (*_NAMES, *axes(rows), *_EVERY[len(_NAMES) :])
    return [column for column in every if column.title]


def for_machines(rows: Sequence[Row]) -> list[Column]:
    """Return the columns of CSV, without axes and parallel sizes: those that any row has."""
    there = {*_TEXTS, "hosts", *(key for row in rows for key in row["figures"])}
    return [column for column in _EVERY if column.key in there]


def machine_names(rows: Sequence[Row]) -> list[str]:
    """Return the names of all figures and sizes, whether the rows have them or not."""
    return [*(column.key for column in _EVERY if column.key not in PEOPLE), *sizes_named(rows)]


# Several figures in one column: for people alone.
PEOPLE = frozenset(
    {"nodes_x_devices", "parallel", "batch", "window", "repeats"}
    | {f"{key}_difference" for key in THRESHOLDS}
    | {f"published_{key}" for key in _PUBLISHED}
)


def select(rows: Sequence[Row]) -> tuple[list[Column], dict[str, str]]:
    """Choose the columns that say something, and what all rows share, by its title.

    A row without a result may lack a setting that others share, but not an axis.
    """
    chosen: list[Column] = []
    shared: dict[str, str] = {}
    for column in for_people(rows):
        asked = column.key.startswith("axis_")
        every = [(column.text(row), finished(row)) for row in rows]
        texts = {text for text, counts in every if asked or counts or text != MISSING}
        if column.hide(rows) if callable(column.hide) else texts <= {MISSING} | column.hide:
            continue
        if column.kind == "setting" and len(texts) == 1:
            shared[column.one_line_title] = texts.pop()
        else:
            chosen.append(column)
    return chosen, shared
