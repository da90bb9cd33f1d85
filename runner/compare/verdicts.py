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

from runner.base.errors import UserError
from runner.base.suggest import nearest
from runner.compare.comparison_notes import (
    NONE,
    cell_notes,
    differing_environments,
    may_say,
    parameter_notes,
)
from runner.compare.quantity import BY_RUNS, CANNOT_TELL, Judging, Measure, measure
from runner.compare.side import Pair, Side, ended_well, has_ended
from runner.figures.target import Alike, Arrival, learn_alike
from runner.matrix.select import choose
from runner.tables.columns import JUDGED, THRESHOLDS
from runner.tables.row import Row, finished
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
