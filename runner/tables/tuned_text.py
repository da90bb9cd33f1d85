"""The answer of a search as text: for a terminal, or as Markdown. Pure."""

from collections.abc import Iterator, Sequence
from typing import Literal

from node.time_words import lasts
from runner.base.escapes import TerminalLine
from runner.base.grid import aligned
from runner.terms.tuned import State, Tuned, TunedCandidate, TunedDifference

Form = Literal["table", "markdown"]
MOST_ROWS = 30  # of the table of candidates, in a terminal
ORDER: Sequence[State] = (
    *("winner", "finalist", "tried", "ended_early", "refused", "failed"),
    *("predicted_out", "not_tried", "illegal"),
)
NAMES: dict[State, str] = {
    "ended_early": "ended early",
    "predicted_out": "predicted out",
    "not_tried": "not tried",
    "illegal": "cannot run",
}
MOST_ILLEGAL = 5  # reasons that are named
HEADERS = ("candidate", "state", "runs", "measured", "predicted", "MiB", "best")


def text_of(tuned: Tuned, form: Form = "table") -> str:
    """Write the answer."""
    lines = [*head_lines(tuned), "", *_differences(tuned, form), ""]
    lines += [*_table(tuned, form), ""]
    lines += [*_effects(tuned, form), *refusal_lines(tuned), *cost_lines(tuned)]
    lines += [f"note: {note}" for note in tuned.notes]
    lines += _commands(tuned, form)
    text = "\n".join(map(TerminalLine, lines))
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.strip() + "\n"


def head_lines(tuned: Tuned) -> Iterator[str]:
    """Say who wins, how sure that is, and which faster one was refused."""
    if tuned.winner is None:
        yield f"no winner: {tuned.words}"
        return
    figure = f", {tuned.figure:.4g} {tuned.unit}" if tuned.figure else ""
    yield f"fastest: {tuned.winner}{figure}"
    yield f"{tuned.words}."
    fast = [one for one in tuned.candidates if one.state in ("refused", "failed") and one.figure]
    for one in fast:
        if tuned.figure and one.figure and one.figure < tuned.figure:
            yield f"faster, but refused: {one.name}, {one.figure:.4g} {tuned.unit}: {one.reason}"


def _differences(tuned: Tuned, form: Form) -> list[str]:
    rows = [
        [f"faster than {one.to}", difference_text(one), one.candidate] for one in tuned.differences
    ]
    return _grid(rows, ("", "by (95 % interval)", "which is"), form) if rows else []


def difference_text(one: TunedDifference) -> str:
    """Write `+12.3 % (10.1 to 14.6)`, or why there is no such figure."""
    if one.percent is None:
        return one.missing
    if one.low is None or one.high is None:
        return f"{one.percent:+.1f} % ({one.missing})"
    return f"{one.percent:+.1f} % ({one.low:.1f} to {one.high:.1f})"


def in_order(tuned: Tuned) -> list[TunedCandidate]:
    """Return the candidates that could run, winner first."""
    legal = [one for one in tuned.candidates if one.state != "illegal"]
    return sorted(
        legal, key=lambda one: (ORDER.index(one.state), one.figure or one.predicted or 0.0)
    )


def row_of(one: TunedCandidate) -> list[str]:
    """Return the texts of a candidate, as HEADERS names them."""
    state = NAMES.get(one.state, one.state)
    return [
        one.name,
        f"{state}: {one.reason}" if one.reason else state,
        str(one.runs or ""),
        "" if one.figure is None else f"{one.figure:.4g}",
        "" if one.predicted is None else f"{one.predicted:.4g}",
        "" if one.memory_mib is None else f"{one.memory_mib:.0f}",
        "speed and memory" if one.pareto else "",
    ]


def _table(tuned: Tuned, form: Form) -> list[str]:
    rows = [row_of(one) for one in in_order(tuned)]
    shown = rows if form == "markdown" else rows[:MOST_ROWS]
    lines = [f"Candidates, in {tuned.unit}; predicted with all measurements:", ""]
    lines += _grid([[_cut(text) for text in row] for row in shown], HEADERS, form)
    if len(rows) > len(shown):
        lines.append(f"and {len(rows) - len(shown)} more, in the report and in --format markdown")
    return lines if rows else []


def _cut(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:99]}…"


def _effects(tuned: Tuned, form: Form) -> list[str]:
    if not tuned.effects:
        return []
    rows = [
        [one.knob, one.value, f"{one.percent:+.1f} %", "measured" if one.measured else "predicted"]
        for one in tuned.effects
    ]
    headers = ("knob", "value", "time", "")
    return ["The winner with one knob changed:", "", *_grid(rows, headers, form), ""]


def refusal_lines(tuned: Tuned) -> Iterator[str]:
    """Say how many combinations cannot run, and why."""
    total = sum(tuned.refusals.values())
    if not total:
        return
    yield f"{total} of {len(tuned.candidates)} combinations cannot run:"
    for reason, count in list(tuned.refusals.items())[:MOST_ILLEGAL]:
        yield f"  {count}: {reason}"
    if len(tuned.refusals) > MOST_ILLEGAL:
        yield f"  and {len(tuned.refusals) - MOST_ILLEGAL} more reasons"


def cost_lines(tuned: Tuned) -> Iterator[str]:
    """Say what the search cost, and when it has paid for itself."""
    tried = {run.candidate for run in tuned.runs}
    legal = len(tuned.candidates) - tuned.count("illegal")
    if not tuned.runs:
        return
    cost = f"{tuned.cost:.3g} {tuned.cost_unit}, {lasts(tuned.took_s)}"
    yield f"search: {len(tuned.runs)} runs of {len(tried)} of {legal} candidates, {cost}"
    if tuned.pays_after:
        yield f"it has paid for itself, beside the default, after {tuned.pays_after:,} steps"


def _commands(tuned: Tuned, form: Form) -> Iterator[str]:
    if not tuned.commands:
        return
    yield from ("", "The winner on each node:")
    fence = ["```"] if form == "markdown" else []
    yield from fence
    for host, cwd, env, command in tuned.commands:
        yield f"  {host}: cd {cwd}; {env} {command}"
    yield from fence


def _grid(rows: Sequence[Sequence[str]], headers: Sequence[str], form: Form) -> list[str]:
    return aligned(rows, "simple" if form == "table" else "pipe", headers).splitlines()
