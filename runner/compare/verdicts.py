"""Two campaigns, cell by cell: what got slower beyond noise, what broke, what is gone. Pure.

How one quantity is judged: quantity.py. Only runs that ended ok are compared. Where both have the
same target_loss, a cell that needs more samples to it, beyond chance, learns slower
(figures/target.py). A cell that was ok and is not, or is gone, is a regression, too: a benchmark
that silently ran less must not pass. Where bench runs a side now, what has ended is compared.

What may be said: any word of a cell's speed but NONE needs two publishable cells that did the same
work and end with the same loss; `faster` and `slower` need a difference beyond the threshold and
the noise of both.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from runner.base.errors import UserError
from runner.base.suggest import nearest
from runner.base.text import listing
from runner.compare.quantity import (
    BY_RUNS,
    CANNOT_TELL,
    NOT_JUDGED,
    Judging,
    Measure,
    measure,
    what_it_takes,
)
from runner.compare.side import Pair, Side, differing, ended_well, has_ended
from runner.figures.parity import RELATIVE
from runner.figures.publishable import CODES
from runner.figures.target import Alike, Arrival, learn_alike
from runner.matrix.select import choose
from runner.tables.columns import JUDGED, THRESHOLDS, title
from runner.tables.formatting import value_text
from runner.tables.row import PUBLISHABLE, Row, finished
from runner.terms.cell import SEED
from runner.terms.record import NOT_ENDED

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
NONE = "none"
WORDS: Mapping[str, str] = {"faster": "faster", "slower": "slower", "same": "no_difference_shown"}
WORK = (
    *("model", "num_layers", "hidden_size", "num_attention_heads", "seq_length", "vocab_size"),
    *("global_batch_size", "train_iters", "lr", "lr_warmup_iters", "dataset", "split", SEED),
)


def cell_notes(
    a: Row, b: Row, measures: Mapping[str, Measure], learns: Alike | None
) -> Iterable[str]:
    """Yield what a reader should know of a cell that is on both sides."""
    for name, judged in measures.items():
        if judged.verdict in (CANNOT_TELL, NOT_JUDGED):
            yield what_it_takes(title(name), judged)
    if measures:
        yield from _unlike(a, b, judges_loss="final_loss" in measures)
    if learns and learns.verdict != "alike":
        yield learns.sentence("the first")
    sides = (("first", a), ("second", b))
    for label, row in sides:
        # Those codes that make the speed itself doubtful.
        if codes := [word for word in row["verdict_reasons"] if word in CODES and CODES[word].sign]:
            yield f"the {label} does not meet the publishing rules: {', '.join(codes)}"
    for label, row in sides:
        if row["status"] in NOT_ENDED and finished(row):
            yield f"not every repeat of the {label} has ended"
    if b["status"] != "ok" and b["reason"]:
        yield b["reason"]


def _unlike(a: Row, b: Row, *, judges_loss: bool) -> Iterator[str]:
    """Yield in what two measured cells differ: their steps, all of their nodes, their losses."""
    was, now = (
        "-".join(str(row["figures"][f"window_{end}_iteration"]) for end in ("first", "last"))
        for row in (a, b)
    )
    if was != now:
        yield f"measured over iterations {was}, then {now}"
    ours, theirs = (dict.fromkeys(chain.from_iterable(row["hosts"])) for row in (a, b))
    if ours and theirs and not (ours.keys() <= theirs.keys() or ours.keys() >= theirs.keys()):
        yield f"ran on {listing([*ours])}, then on {listing([*theirs])}"
    losses = a["figures"]["final_loss"], b["figures"]["final_loss"]
    change = abs(losses[1] - losses[0]) / abs(losses[0]) * 100 if all(losses) else 0.0
    if change > LOSS_PERCENT and not judges_loss:
        yield f"final loss {losses[0]:.4g}, then {losses[1]:.4g}: do both train the same?"


def may_say(a: Row | None, b: Row | None, speed: Measure | None) -> tuple[str, tuple[str, ...]]:
    """Return the word of WORDS that may be said, or NONE and what forbids any."""
    why = tuple(_against(a, b, speed))
    return (NONE, why) if why or speed is None else (WORDS[speed.verdict], ())


def _against(a: Row | None, b: Row | None, speed: Measure | None) -> Iterator[str]:
    for label, row in (("first", a), ("second", b)):
        if row is None or not finished(row):
            yield f"not_ok: the {label} has no run that ended ok"
        elif row["verdict"] != PUBLISHABLE:
            yield f"not_publishable: the {label}: {row['verdict']}"
    if a is None or b is None:
        return
    if a["system"] != b["system"]:
        yield f"other_work: system is {a['system']}, then {b['system']}"
    ours, theirs = a["parameters"], b["parameters"]
    if other := [key for key in WORK if ours.get(key) != theirs.get(key)]:
        yield f"other_work: {', '.join(other)} differ"
    losses = a["figures"]["final_loss"], b["figures"]["final_loss"]
    if losses[0] is None or losses[1] is None:
        yield "no_loss: nobody can tell whether both learned the same"
    elif not abs(losses[1] - losses[0]) <= RELATIVE * abs(losses[0]):
        yield f"other_loss: {losses[0]:.4g}, then {losses[1]:.4g}"
    if speed is None:
        yield "no_speed: a side has no samples/s"
    elif speed.verdict not in WORDS:
        yield "cannot_tell: too few runs, or too much noise"


def parameter_notes(pairs: Sequence[Pair]) -> list[str]:
    """Return what was asked for differently in cells that are only named alike."""
    differs: dict[str, int] = {}
    for a, b in pairs:
        if a is None or b is None or a["cell_id"] == b["cell_id"]:
            continue
        ours, theirs = a["parameters"], b["parameters"]
        for key in {**ours, **theirs}:
            if ours.get(key) != theirs.get(key):
                was, now = (value_text(values.get(key)) for values in (ours, theirs))
                word = f"{key}: {was}, then {now}"
                differs[word] = differs.get(word, 0) + 1
    return [f"parameters differ, {word} ({count} cells)" for word, count in differs.items()]


def differing_environments(a: Side, b: Side) -> list[tuple[str, str, str]]:
    """Return what differs between the machines of both sides: (what, the first's, the second's)."""
    if a.environment is None or b.environment is None:
        return []
    return differing(a.environment, b.environment, but=("campaign", "inventory"))


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
    may_say: str = NONE  # of its speed in B: a word of may_say.WORDS, or NONE
    why_not: tuple[str, ...] = ()  # what forbids to say anything

    @property
    def regressed(self) -> bool:
        """Whether the second side is worse."""
        return VERDICTS[self.verdict]


@dataclass(frozen=True)
class CampaignComparison:
    """The whole comparison, worst cells first."""

    a: str
    b: str
    thresholds: Mapping[str, float]
    cells: Sequence[ComparedCell]
    environment: Sequence[tuple[str, str, str]]
    notes: Sequence[str] = ()
    rule: str = RULE  # by which a cell is worse

    @property
    def untold(self) -> int:
        """How many cells nobody can tell of."""
        return sum(cell.verdict == CANNOT_TELL for cell in self.cells)

    @property
    def regressions(self) -> int:
        """How many cells are worse."""
        return sum(cell.regressed for cell in self.cells)


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
    judging: Judging = BY_RUNS,
    rule: str = RULE,
) -> CampaignComparison:
    """Compare the second with the first. Raises UserError where the two have no cell to compare.

    `only` has globs of cells; with `allow_missing` the second may have run less. `judging` and
    `rule` say how, and in words.
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
    order = list(VERDICTS)
    cells.sort(key=lambda cell: order.index(cell.verdict))
    notes = parameter_notes(pairs)
    notes += [
        f"bench runs {campaign.name} now: what has ended is compared"
        for campaign in (a, b)
        if campaign.live
    ]
    notes += [f"{campaign.name}: {campaign.hidden}" for campaign in (a, b) if campaign.hidden]
    if silent := [campaign.name for campaign in (a, b) if campaign.environment is None]:
        does = "does not say what it" if len(silent) == 1 else "do not say what they"
        notes.append(f"{' and '.join(silent)} {does} ran on, so that machines are not compared")
    environment = differing_environments(a, b)
    return CampaignComparison(a.name, b.name, limits, cells, environment, notes, rule)


def _pairs(a: Sequence[Row], b: Sequence[Row]) -> list[Pair]:
    """Pair cells that are the same in every parameter, then those that are named alike."""
    by_id = {row["cell_id"]: row for row in b}
    pairs: list[Pair] = [(row, by_id.pop(row["cell_id"], None)) for row in a]
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


def _names_of(pair: Pair) -> tuple[str, str]:
    row = pair[1] or pair[0]
    return (row["cell"], row["cell_id"]) if row else ("", "")


def _cell(
    a: Row | None,
    b: Row | None,
    limits: Mapping[str, float],
    judging: Judging,
    live: bool,
    allow_missing: bool,
) -> ComparedCell:
    row = b or a
    assert row is not None
    measures: Mapping[str, Measure] = {}
    if a and b and finished(a) and finished(b):
        measures = _measures(a, b, limits, judging)
    learns = _learns(a, b) if a and b else None
    said, why_not = may_say(a, b, measures.get("samples_per_s"))
    verdict = _lack(a, b, live, allow_missing) or _verdict(a, b, measures, learns)
    return ComparedCell(
        name=row["cell"],
        verdict=verdict,
        status_a=a["status"] if a else None,
        status_b=b["status"] if b else None,
        steps_a=a["figures"]["steps_measured"] if a else None,
        steps_b=b["figures"]["steps_measured"] if b else None,
        measures=measures,
        learns=learns,
        notes=tuple(cell_notes(a, b, measures, learns)) if a and b else (),
        may_say=said,
        why_not=why_not,
    )


def _lack(a: Row | None, b: Row | None, live: bool, allow_missing: bool) -> str | None:
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


def _verdict(
    a: Row | None, b: Row | None, measures: Mapping[str, Measure], learns: Alike | None
) -> str:
    """Judge a cell that both sides ran."""
    assert a is not None
    assert b is not None
    was, now = ((ended_well(row), finished(row)) for row in (a, b))
    if was > now:
        return "broke"
    if was < now:
        return "recovered"
    if not measures and not ended_well(b):
        return "not_ok"
    verdicts = {measure.verdict for measure in measures.values()}
    verdicts |= {f"learns_{learns.verdict}"} if learns else set()
    return next((word for word in VERDICTS if word in verdicts), "same")


def _measures(a: Row, b: Row, limits: Mapping[str, float], judging: Judging) -> dict[str, Measure]:
    measures = {}
    for name, limit in limits.items():
        judged = measure(JUDGED[name], a, b, limit, judging)
        if judged is not None:
            measures[name] = judged
    return measures


def _learns(a: Row, b: Row) -> Alike | None:
    """Return whether the second learns like the first; None where no target loss was asked for."""
    ours, theirs = (row["figures"]["target_loss"] for row in (b, a))
    if ours is None or theirs is None:
        return None
    if ours != theirs:
        return Alike(None, why_not=f"target_loss is {theirs:g}, then {ours:g}")
    return learn_alike(_arrivals(b), _arrivals(a))


def _arrivals(row: Row) -> list[Arrival]:
    """Return where the runs of a row reached the target loss."""
    return [
        Arrival(
            run["iterations_to_target"],
            trained,
            run["iterations_per_loss"] or 1,
            row["figures"]["global_batch_size"] or 1,
            run["seed"],
        )
        for run in row["runs"]
        if (trained := run["iterations_trained"])
    ]
