"""What a bisection knows, with the sizes of the change, and that as text."""

import json
import math
from collections.abc import Sequence
from typing import Protocol

from node.printable import printable
from runner.base.escapes import MarkdownText
from runner.base.text import counted
from runner.figures.between_runs import CellTimes, RateDifference, of_values, paired_difference
from runner.figures.noisy_bisection import BisectEnd, BisectStep, PairReading, Posterior
from runner.folder.campaign import Campaign
from runner.load.installed_facts import differing, installed_facts
from runner.tables.catalogue.every_column import title
from runner.tables.markdown import bulleted
from runner.terms.bisected import BisectAnswer, Bisected, BisectPair
from runner.versions.version import Version, VersionCell

FOUND, NO_CHANGE = "found", "no_change"
MOST_ALSO = 30  # packages that differ, told


class Bisecting(Protocol):
    """What the answer is made of."""

    versions: Sequence[Version]
    pairs: list[BisectPair]

    @property
    def campaign(self) -> Campaign:
        """The campaign."""

    def made(self, place: int) -> VersionCell:
        """Return the cell with a version."""


def answer_of(
    known: Posterior,
    step: BisectStep | BisectEnd,
    stopped: str,
    of: Bisecting,
) -> BisectAnswer:
    """Return what is known."""
    group = step.group if isinstance(step, BisectEnd) else None
    ended = "" if isinstance(step, BisectStep) else FOUND if group else NO_CHANGE
    best = group or (max(known.groups, key=lambda one: one.probability) if known.readings else None)
    across = _difference([r for r in known.readings if (r.a, r.b) == (0, known.count)])
    direct = None
    also: list[str] = []
    if best is not None and ended != NO_CHANGE:
        pairs = [r for r in known.readings if (r.a, r.b) == (best.before, best.last)]
        direct = _difference(pairs)
        nodes = of.campaign.inspections()
        facts = [
            installed_facts(nodes, one.system, one.pin)
            for one in (of.made(best.before).cell, of.made(best.last).cell)
        ]
        also = differing(*facts) if all(facts) else []
    return BisectAnswer(
        ended=ended or stopped,
        first=best.first if best and ended != NO_CHANGE else None,
        last=best.last if best and ended != NO_CHANGE else None,
        probability=best.probability if best and ended != NO_CHANGE else 0.0,
        no_change=known.no_change,
        change_percent=direct.percent if direct else None,
        interval_percent=(direct and direct.interval) or (),
        ends_percent=across.percent if across else None,
        ends_interval_percent=(across and across.interval) or (),
        also_differs=tuple(also[:MOST_ALSO]),
        runs=2 * len(of.pairs),
        versions_run=len({at for pair in of.pairs for at in (pair.a, pair.b)}),
    )


def _difference(readings: Sequence[PairReading]) -> RateDifference | None:
    """Return the change that pairs measured, with an interval as in `ci`; None without any."""
    if not readings:
        return None
    later = of_values([math.exp(-one.change) for one in readings])
    return paired_difference(later, CellTimes((1.0,) * len(readings)))


def lines_of(held: Bisected) -> list[str]:
    """Say it for people, a line each."""
    answer = held.answer
    what = title(held.figure) if held.cell == "" else f"{title(held.figure)} of {held.cell}"
    words = [_words(held, at) for at in range(len(held.versions))]
    lines = []
    if answer.ended == NO_CHANGE:
        lines.append(
            f"no change of {held.smallest_percent:g} % or more from {words[0]} to {words[-1]}:"
            f" probability {answer.no_change:.1%}"
        )
    elif answer.first is None or answer.last is None:
        lines.append("nothing is known yet")
    else:
        verb = "changed with" if answer.ended == FOUND else "probably changed with"
        named = words[answer.last]
        if answer.first < answer.last:
            count = answer.last - answer.first + 1
            named = f"one of {count} versions, {words[answer.first]} to {named}"
        lines.append(f"{what} {verb} {named}: probability {answer.probability:.1%}")
        lines.append(f"before it: {words[answer.first - 1]}")
    if answer.change_percent is not None:
        lines.append(f"change there: {_percent(answer.change_percent, answer.interval_percent)}")
    if answer.ends_percent is not None:
        ends = _percent(answer.ends_percent, answer.ends_interval_percent)
        lines.append(f"from {held.versions[0].label} to {held.versions[-1].label}: {ends}")
    if _differs(answer):
        lines.append("the ends differ by another amount: a further version may change it, too")
    if answer.also_differs:
        lines.append(f"installed: {'; '.join(answer.also_differs)}")
    skipped = [f"{one.label} ({one.skipped})" for one in held.versions if one.skipped]
    if skipped:
        lines.append(f"skipped: {'; '.join(skipped)}")
    lines.append(
        f"{counted(answer.runs, 'run')} of {answer.versions_run} of {len(held.versions)} versions"
    )
    if answer.ended not in (FOUND, NO_CHANGE):
        lines.append(f"not over: {answer.ended or 'the same command goes on'}")
    return [printable(line) for line in lines]


def to_text(held: Bisected, form: str) -> str:
    """Write the answer as table, markdown or json."""
    if form == "json":
        return json.dumps(held.to_json(), indent=1) + "\n"
    first, *others = lines_of(held)
    if form == "markdown":
        return f"**{MarkdownText(first)}**\n\n{bulleted(map(MarkdownText, others))}\n"
    return "".join(f"{line}\n" for line in (first, *(f"  {line}" for line in others)))


def _words(held: Bisected, at: int) -> str:
    one = held.versions[at]
    return Version(one.kind, one.value, one.label, one.subject).words


def _percent(value: float, interval: Sequence[float]) -> str:
    if not interval:
        return f"{value:+.2g} %"
    return f"{value:+.2f} % (95 % interval {interval[0]:+.2f} to {interval[1]:+.2f})"


def _differs(answer: BisectAnswer) -> bool:
    """Whether the change of the version and that of the ends cannot be the same."""
    ours, theirs = answer.interval_percent, answer.ends_interval_percent
    return bool(ours and theirs and (ours[1] < theirs[0] or theirs[1] < ours[0]))
