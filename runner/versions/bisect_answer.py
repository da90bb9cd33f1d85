"""What a bisection knows, with the sizes of the change, and that as text."""

import json
import math
from collections.abc import Sequence
from typing import Protocol

from node.printable import printable
from runner.base.escapes import MarkdownText
from runner.base.text import counted
from runner.figures.between_runs import CellTimes, RateDifference, of_values, paired_difference
from runner.folder.campaign import Campaign
from runner.results.machines import differing, installed_facts
from runner.tables.columns import title
from runner.tables.text import bulleted
from runner.terms.bisected import BisectAnswer, Bisected, BisectPair
from runner.versions.noisy_bisection import BisectEnd, BisectStep, PairReading, Posterior
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

    def version_cell(self, number: int) -> VersionCell:
        """Return the cell with a version."""


def answer_of(
    posterior: Posterior,
    step: BisectStep | BisectEnd,
    stopped: str,
    of: Bisecting,
) -> BisectAnswer:
    """Return what is known."""
    group = step.group if isinstance(step, BisectEnd) else None
    ended = "" if isinstance(step, BisectStep) else FOUND if group else NO_CHANGE
    best = group or (
        max(posterior.groups, key=lambda item: item.probability) if posterior.readings else None
    )
    across = _difference([r for r in posterior.readings if (r.a, r.b) == (0, posterior.count)])
    direct = None
    also: list[str] = []
    if best is not None and ended != NO_CHANGE:
        pairs = [r for r in posterior.readings if (r.a, r.b) == (best.before, best.final)]
        direct = _difference(pairs)
        nodes = of.campaign.inspections()
        facts = [
            installed_facts(nodes, item.system, item.pin)
            for item in (of.version_cell(best.before).cell, of.version_cell(best.final).cell)
        ]
        also = differing(*facts) if all(facts) else []
    return BisectAnswer(
        ended=ended or stopped,
        earliest=best.earliest if best and ended != NO_CHANGE else None,
        final=best.final if best and ended != NO_CHANGE else None,
        probability=best.probability if best and ended != NO_CHANGE else 0.0,
        no_change=posterior.no_change,
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
    later = of_values([math.exp(-item.change) for item in readings])
    return paired_difference(later, CellTimes((1.0,) * len(readings)))


def lines_of(bisected: Bisected) -> list[str]:
    """Say it for people, a line each."""
    answer = bisected.answer
    figure = (
        title(bisected.figure)
        if bisected.cell == ""
        else f"{title(bisected.figure)} of {bisected.cell}"
    )
    names = [_version_name(bisected, at) for at in range(len(bisected.versions))]
    lines = []
    if answer.ended == NO_CHANGE:
        lines.append(
            f"no change of {bisected.smallest_percent:g} % or more from {names[0]} to {names[-1]}:"
            f" probability {answer.no_change:.1%}"
        )
    elif answer.earliest is None or answer.final is None:
        lines.append("nothing is known yet")
    else:
        verb = "changed with" if answer.ended == FOUND else "probably changed with"
        name = names[answer.final]
        if answer.earliest < answer.final:
            count = answer.final - answer.earliest + 1
            name = f"one of {count} versions, {names[answer.earliest]} to {name}"
        lines.append(f"{figure} {verb} {name}: probability {answer.probability:.1%}")
        lines.append(f"before it: {names[answer.earliest - 1]}")
    if answer.change_percent is not None:
        lines.append(f"change there: {_percent(answer.change_percent, answer.interval_percent)}")
    if answer.ends_percent is not None:
        ends = _percent(answer.ends_percent, answer.ends_interval_percent)
        lines.append(f"from {bisected.versions[0].label} to {bisected.versions[-1].label}: {ends}")
    if _differs(answer):
        lines.append("the ends differ by another amount: a further version may change it, too")
    if answer.also_differs:
        lines.append(f"installed: {'; '.join(answer.also_differs)}")
    skipped = [f"{item.label} ({item.skipped})" for item in bisected.versions if item.skipped]
    if skipped:
        lines.append(f"skipped: {'; '.join(skipped)}")
    ran = f"{answer.versions_run} of {len(bisected.versions)} versions"
    lines.append(f"{counted(answer.runs, 'run')} of {ran}")
    if answer.ended not in (FOUND, NO_CHANGE):
        lines.append(f"not over: {answer.ended or 'the same command goes on'}")
    return [printable(line) for line in lines]


def to_text(bisected: Bisected, form: str) -> str:
    """Write the answer as table, markdown or json."""
    if form == "json":
        return json.dumps(bisected.to_json(), indent=1) + "\n"
    first_line, *other_lines = lines_of(bisected)
    if form == "markdown":
        return f"**{MarkdownText(first_line)}**\n\n{bulleted(other_lines)}\n"
    return "".join(f"{line}\n" for line in (first_line, *(f"  {line}" for line in other_lines)))


def _version_name(bisected: Bisected, at: int) -> str:
    item = bisected.versions[at]
    return Version(item.kind, item.value, item.label, item.subject).title


def _percent(value: float, interval: Sequence[float]) -> str:
    if not interval:
        return f"{value:+.2g} %"
    return f"{value:+.2f} % (95 % interval {interval[0]:+.2f} to {interval[1]:+.2f})"


def _differs(answer: BisectAnswer) -> bool:
    """Whether the change of the version and that of the ends cannot be the same."""
    ours, theirs = answer.interval_percent, answer.ends_interval_percent
    return bool(ours and theirs and (ours[1] < theirs[0] or theirs[1] < ours[0]))
