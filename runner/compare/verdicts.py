"""Two campaigns, cell by cell: what got slower beyond noise, what broke, what is gone. Pure.

How one quantity is judged: quantity.py. Only runs that ended ok are compared. Where both have the
same target_loss, a cell that needs more samples to it, beyond chance, learns slower
(figures/target.py). A cell that was ok and is not, or is gone, is a regression, too: a benchmark
that silently ran less must not pass. Where bench runs a side now, what has ended is compared.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from node.schema import (
    SAFE,
    AnyOf,
    Fields,
    List,
    Mapped,
    Maybe,
    Number,
    Plain,
    Text,
    UnfitError,
    Whole,
    Words,
)
from runner.base.errors import UserError
from runner.base.suggest import nearest
from runner.base.text import listing
from runner.compare.break_evens import cell_break_even
from runner.compare.quantity import (
    BY_RUNS,
    CANNOT_TELL,
    NOT_JUDGED,
    Judging,
    Measure,
    measure,
    what_it_takes,
)
from runner.document.campaign_document import CampaignDocument
from runner.document.machine_document import values
from runner.expect.cost import BreakEven
from runner.expect.prices import Prices
from runner.figures.publishable import CODES
from runner.figures.target import Alike, Arrival, learn_alike
from runner.matrix.select import choose
from runner.tables.catalogue.every_column import COLUMNS, JUDGED, THRESHOLDS, title
from runner.tables.formatting import value_text
from runner.terms.cell import MOST_CELLS, MOST_REPEATS
from runner.terms.record import NOT_ENDED, UNDER_WAY

# Worst first; what is worse is a regression. The words are explained in docs/runs.md.
VERDICTS: Mapping[str, bool] = {
    "broke": True,
    "vanished": True,
    "slower": True,
    "more_memory": True,
    "worse": True,
    "learns_slower": True,
    "learns_faster": False,
    CANNOT_TELL: False,
    "not_ok": False,
    "running": False,
    "left_out": False,
    "recovered": False,
    "appeared": False,
    "faster": False,
    "less_memory": False,
    "better": False,
    "same": False,
}
RULE = (
    "worse: by more than the threshold, and the 95 % interval of the difference, by Welch's t over"
    " the runs of both, leaves 0 out; cannot_tell: a difference of the threshold would not show"
)
LOSS_PERCENT = 5.0  # a difference of final losses that a reader should know of
_NOT_THE_MACHINE = ("campaign", "inventory")


@dataclass(frozen=True)
class Side:
    """One of the two: rows as `collect --format json` has them, and what they ran on.

    `live` says that bench runs it now: what has not ended yet is nothing that it lacks. `hidden`
    says what it keeps and is not compared.
    """

    name: str
    rows: Sequence[Mapping[str, Any]]
    environment: Mapping[str, str] | None = None
    live: bool = False
    hidden: str = ""


@dataclass(frozen=True)
class ComparedCell:
    """One cell on both sides; a status is None where the side has no such cell."""

    name: str
    verdict: str
    status_a: str | None
    status_b: str | None
    steps_a: int | None = None
    steps_b: int | None = None
    measures: Mapping[str, Measure] = field(default_factory=dict)
    learns: Alike | None = None
    notes: tuple[str, ...] = ()

    @property
    def regressed(self) -> bool:
        """Whether the second side is worse."""
        return VERDICTS[self.verdict]


@dataclass(frozen=True)
class CampaignComparison:
    """The whole comparison, worst cells first; `break_even` by cell, where prices were given."""

    a: str
    b: str
    thresholds: Mapping[str, float]
    cells: Sequence[ComparedCell]
    environment: Sequence[tuple[str, str, str]]
    notes: Sequence[str] = ()
    break_even: Mapping[str, BreakEven] = field(default_factory=dict)
    rule: str = RULE  # by which a cell is worse

    @property
    def untold(self) -> int:
        """How many cells nobody can tell of."""
        return sum(cell.verdict == CANNOT_TELL for cell in self.cells)

    @property
    def regressions(self) -> int:
        """How many cells are worse."""
        return sum(cell.regressed for cell in self.cells)


def side(name: str, document: CampaignDocument) -> Side:
    """Return a campaign as one side."""
    table = values(document)
    return Side(name, table["rows"], table["environment"], document.live, document.hidden)


def saved(name: str, document: Any) -> Side:
    """Read what `collect --format json` wrote as one side. Raises UserError for any other JSON."""
    try:
        table = _SAVED.check(document, name)
    except UnfitError as error:
        raise UserError(
            f"{name} is not a saved table ({error}); `python -m runner collect --format json"
            " --output FILE` writes one"
        ) from None
    live = any(row["status"] in UNDER_WAY for row in table["rows"])
    return Side(name, table["rows"], table["environment"], live, table["hidden"])


def _set_fields(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


# What a comparison reads of a saved table.
_FIGURE = Maybe(AnyOf(Whole(-SAFE), Number()))
_COUNTS = (
    *("steps_measured", "iterations_per_line"),
    *("window_first_iteration", "window_last_iteration"),
)
_RUN = Fields(
    {},
    {
        **{
            name: (Maybe(Whole(1)), None) for name in ("iterations_to_target", "iterations_trained")
        },
        "seed": (Maybe(Whole()), None),
        "iterations_per_loss": (_FIGURE, None),
        **dict.fromkeys((key for key, c in COLUMNS.items() if c.by_runs), (_FIGURE, None)),
    },
)
_ROW = Fields(
    {"cell": Text(), "cell_id": Text(), "status": Text(most=100)},
    {
        **{name: (Maybe(Text()), None) for name in ("numbers_from", "verdict")},
        **{name: (Maybe(Whole()), None) for name in ("global_batch_size", *_COUNTS)},
        **{name: (Maybe(Whole(1)), None) for name in ("devices", "nodes")},
        "device": (Maybe(Text()), None),
        **dict.fromkeys(("tokens_per_s", "energy_per_token_j"), (_FIGURE, None)),
        "target_loss": (_FIGURE, None),
        **dict.fromkeys(
            ("samples_per_s_steps_half_percent", "repeats_until_percent"), (_FIGURE, None)
        ),
        "missing": (Maybe(Mapped(Text(), Words())), None),
        "runs": (List(_RUN, MOST_REPEATS), ()),
        **dict.fromkeys(JUDGED, (_FIGURE, None)),
        "reason": (Words(), ""),
        "parameters": (Maybe(Mapped(Text(), Plain())), None),
    },
    make=_set_fields,
)
_SAVED = Fields(
    {"rows": List(_ROW, MOST_CELLS)},
    {"environment": (Maybe(Mapped(Text(), Words())), None), "hidden": (Words(), "")},
)


def thresholds(options: Iterable[str]) -> dict[str, float]:
    """Return the quantities that count, with percent, after `QUANTITY=PERCENT%` words."""
    limits = dict(THRESHOLDS)
    for word in (item for text in options for item in text.split(",")):
        name, _, number = (half.strip() for half in word.partition("="))
        if name not in JUDGED:
            raise UserError(
                f"--threshold {word}: there is no quantity {name!r}{nearest(name, JUDGED)};"
                f" the quantities are {', '.join(JUDGED)}"
            )
        try:
            limits[name] = float(number.removesuffix("%"))
        except ValueError:
            limits[name] = math.nan
        if not 0 <= limits[name] < math.inf:
            raise UserError(f"--threshold {word}: write it as {name}=3%")
    return limits


def compare_campaigns(
    a: Side,
    b: Side,
    limits: Mapping[str, float],
    *,
    only: Sequence[str] = (),
    allow_missing: bool = False,
    prices: Prices | None = None,
    judging: Judging = BY_RUNS,
    rule: str = RULE,
) -> CampaignComparison:
    """Compare the second with the first. Raises UserError where the two have no cell to compare.

    `only` has globs of cells; with `allow_missing` the second may have run less; with `prices` the
    break-even of their machines is worked out. `judging` and `rule` say how, and in words.
    """
    pairs = choose(_pairs(a.rows, b.rows), only, _names_of)
    cells = [_cell(ours, theirs, limits, judging, b.live, allow_missing) for ours, theirs in pairs]
    if not any(ours and theirs for ours, theirs in pairs):
        why = "of those that --only names" if only else "their matrices differ in every one"
        raise UserError(f"{a.name} and {b.name} have no cell in common: {why}")
    if not any(cell.status_a == "ok" or cell.measures for cell in cells):
        raise UserError(f"no cell of {a.name} ended ok: there is nothing to compare with")
    if b.live and not any(theirs and has_ended(theirs) for _, theirs in pairs):
        raise UserError(f"no cell of {b.name} has ended yet; `status` shows its progress")
    even = {}
    for (ours, theirs), cell in zip(pairs, cells, strict=True):
        speed = cell.measures.get("samples_per_s")
        if prices is not None and ours and theirs and speed is not None:
            even[cell.name] = cell_break_even(prices, ours, theirs, speed)
    order = list(VERDICTS)
    cells.sort(key=lambda cell: order.index(cell.verdict))
    notes = _parameter_notes(pairs)
    notes += [
        f"bench runs {campaign.name} now: what has ended is compared"
        for campaign in (a, b)
        if campaign.live
    ]
    notes += [f"{campaign.name}: {campaign.hidden}" for campaign in (a, b) if campaign.hidden]
    if silent := [campaign.name for campaign in (a, b) if campaign.environment is None]:
        does = "does not say what it" if len(silent) == 1 else "do not say what they"
        notes.append(f"{' and '.join(silent)} {does} ran on, so that machines are not compared")
    return CampaignComparison(a.name, b.name, limits, cells, _environments(a, b), notes, even, rule)


_Row = Mapping[str, Any]
_Pair = tuple[_Row | None, _Row | None]


def _pairs(a: Sequence[_Row], b: Sequence[_Row]) -> list[_Pair]:
    """Pair cells that are the same in every parameter, then those that are named alike."""
    by_id = {row["cell_id"]: row for row in b}
    pairs: list[_Pair] = [(row, by_id.pop(row["cell_id"], None)) for row in a]
    names = Counter(row["cell"] for row in by_id.values())
    by_name = {row["cell"]: row for row in by_id.values() if names[row["cell"]] == 1}
    lonely = Counter(
        row["cell"] for row, counterpart in pairs if counterpart is None and row is not None
    )
    for index, (row, counterpart) in enumerate(pairs):
        if row is not None and counterpart is None and lonely[row["cell"]] == 1:
            namesake = by_name.get(row["cell"])
            if namesake is not None:
                pairs[index] = (row, by_id.pop(namesake["cell_id"]))
    return [*pairs, *((None, row) for row in by_id.values())]


def _names_of(pair: _Pair) -> tuple[str, str]:
    row = pair[1] or pair[0] or {}
    return row["cell"], row["cell_id"]


def _cell(
    a: _Row | None,
    b: _Row | None,
    limits: Mapping[str, float],
    judging: Judging,
    live: bool,
    allow_missing: bool,
) -> ComparedCell:
    row = b or a or {}
    measures: Mapping[str, Measure] = {}
    if a and b and _finished(a) and _finished(b):
        measures = _measures(a, b, limits, judging)
    learns = _learns(a, b) if a and b else None
    verdict = _lack(a, b, live, allow_missing) or _verdict(a or {}, b or {}, measures, learns)
    return ComparedCell(
        name=row["cell"],
        verdict=verdict,
        status_a=a["status"] if a else None,
        status_b=b["status"] if b else None,
        steps_a=a.get("steps_measured") if a else None,
        steps_b=b.get("steps_measured") if b else None,
        measures=measures,
        learns=learns,
        notes=tuple(_notes(a, b, measures, learns)) if a and b else (),
    )


def _lack(a: _Row | None, b: _Row | None, live: bool, allow_missing: bool) -> str | None:
    """Say what a side lacks of the cell; None where both ran it, as far as it was to be."""
    if a is None or not has_ended(a):
        if b is not None and has_ended(b):
            return "appeared"
        return "running" if b is not None and live else "not_ok" if a else "appeared"
    if b is not None and has_ended(b) and (live or allow_missing or b["status"] not in NOT_ENDED):
        return None
    if b is not None and live:
        return "running"
    return "left_out" if allow_missing else "vanished"


def _verdict(a: _Row, b: _Row, measures: Mapping[str, Measure], learns: Alike | None) -> str:
    """Judge a cell that both sides ran."""
    was, now = ((ended_well(row), _finished(row)) for row in (a, b))
    if was > now:
        return "broke"
    if was < now:
        return "recovered"
    if not measures and not ended_well(b):
        return "not_ok"
    verdicts = {measure.verdict for measure in measures.values()}
    verdicts |= {f"learns_{learns.verdict}"} if learns else set()
    return next((word for word in VERDICTS if word in verdicts), "same")


def has_ended(row: _Row) -> bool:
    """Whether a repeat of the cell ended."""
    return row["status"] not in NOT_ENDED or _finished(row)


def ended_well(row: _Row) -> bool:
    """Whether every repeat that ended did so well."""
    return row["status"] == "ok" or (row["status"] in NOT_ENDED and _finished(row))


def _finished(row: _Row) -> bool:
    return row.get("numbers_from") == "ok runs"


def _measures(
    a: _Row, b: _Row, limits: Mapping[str, float], judging: Judging
) -> dict[str, Measure]:
    measures = {}
    for name, limit in limits.items():
        judged = measure(JUDGED[name], a, b, limit, judging)
        if judged is not None:
            measures[name] = judged
    return measures


def _learns(a: _Row, b: _Row) -> Alike | None:
    """Return whether the second learns like the first; None where no target loss was asked for."""
    ours, theirs = (row.get("target_loss") for row in (b, a))
    if ours is None or theirs is None:
        return None
    if ours != theirs:
        return Alike(None, why_not=f"target_loss is {theirs:g}, then {ours:g}")
    return learn_alike(_arrivals(b), _arrivals(a))


def _arrivals(row: _Row) -> list[Arrival]:
    """Return where the runs of a row reached the target loss."""
    return [
        Arrival(
            run.get("iterations_to_target"),
            run["iterations_trained"],
            run.get("iterations_per_loss") or 1,
            row.get("global_batch_size") or 1,
            run.get("seed"),
        )
        for run in row.get("runs", ())
        if run.get("iterations_trained")
    ]


def _notes(
    a: _Row, b: _Row, measures: Mapping[str, Measure], learns: Alike | None
) -> Iterable[str]:
    for name, verdict_of_measure in measures.items():
        if verdict_of_measure.verdict in (CANNOT_TELL, NOT_JUDGED):
            yield what_it_takes(title(name), verdict_of_measure)
    lines = a.get("iterations_per_line"), b.get("iterations_per_line")
    if measures and None not in lines and lines[0] != lines[1]:
        yield (
            f"a logged line covers {lines[0]} iterations, then {lines[1]}: medians and percentiles"
            " are not comparable, samples/s is"
        )
    was, now = (
        f"{row.get('window_first_iteration')}-{row.get('window_last_iteration')}" for row in (a, b)
    )
    if measures and was != now:
        yield f"measured over iterations {was}, then {now}"
    if measures and (nodes := _other_nodes(a, b)):
        yield nodes
    ours, theirs = a.get("final_loss"), b.get("final_loss")
    judges_loss = "final_loss" in measures
    if measures and not judges_loss and ours and theirs:
        change = abs(theirs - ours) / abs(ours) * 100
        if change > LOSS_PERCENT:
            yield f"final loss {ours:.4g}, then {theirs:.4g}: do both train the same?"
    if learns and learns.verdict != "alike":
        yield learns.sentence("the first")
    for label, row in (("first", a), ("second", b)):
        if codes := [w for w in (row.get("verdict") or "").split(";") if _signed(w)]:
            yield f"the {label} does not meet the publishing rules: {', '.join(codes)}"
    for label, row in (("first", a), ("second", b)):
        if row["status"] in NOT_ENDED and _finished(row):
            yield f"not every repeat of the {label} has ended"
    if b["status"] != "ok" and b.get("reason"):
        yield str(b["reason"])


def _other_nodes(a: _Row, b: _Row) -> str:
    """Say that two cells ran on nodes of which neither had all of the other's."""
    ours, theirs = ((row.get("hosts") or "").replace(";", "").split() for row in (a, b))
    if not ours or not theirs or set(ours) <= set(theirs) or set(theirs) <= set(ours):
        return ""
    return f"ran on {listing(ours)}, then on {listing(theirs)}"


def _signed(word: str) -> bool:
    """Whether a code makes the speed itself doubtful."""
    return word in CODES and bool(CODES[word].sign)


def _parameter_notes(pairs: Sequence[_Pair]) -> list[str]:
    """Return what was asked for differently in cells that are only named alike."""
    differs: dict[str, int] = {}
    unknown = 0
    for a, b in pairs:
        if a is None or b is None or a["cell_id"] == b["cell_id"]:
            continue
        ours, theirs = a.get("parameters"), b.get("parameters")
        if ours is None or theirs is None:
            unknown += 1
            continue
        for key in {**ours, **theirs}:
            if ours.get(key) != theirs.get(key):
                was, now = (value_text(values.get(key)) for values in (ours, theirs))
                word = f"{key}: {was}, then {now}"
                differs[word] = differs.get(word, 0) + 1
    notes = [f"parameters differ, {word} ({count} cells)" for word, count in differs.items()]
    if unknown:
        notes.append(f"{unknown} cells are named alike, but differ in some parameter")
    return notes


def _environments(a: Side, b: Side) -> list[tuple[str, str, str]]:
    if a.environment is None or b.environment is None:
        return []
    ours, theirs = a.environment, b.environment
    return [
        (key, ours.get(key, "–"), theirs.get(key, "–"))
        for key in {**ours, **theirs}
        if key not in _NOT_THE_MACHINE and ours.get(key) != theirs.get(key)
    ]
