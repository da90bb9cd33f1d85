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
HEADERS = ("candidate", "state", "runs", "measured", "predicted", "MiB")


def text_of(tuned: Tuned, form: Form = "table") -> str:
    """Write the answer."""
    lines = [*head_lines(tuned), "", *_differences(tuned, form), ""]
    lines += [*_table(tuned, form), ""]
    lines += [*refusal_lines(tuned), *cost_lines(tuned)]
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
    fast = [
        candidate
        for candidate in tuned.candidates
        if candidate.state in ("refused", "failed") and candidate.figure
    ]
    for candidate in fast:
        if tuned.figure and candidate.figure and candidate.figure < tuned.figure:
            speed = f"{candidate.figure:.4g} {tuned.unit}"
            yield f"faster, but refused: {candidate.name}, {speed}: {candidate.reason}"


def _differences(tuned: Tuned, form: Form) -> list[str]:
    rows = [
        [f"faster than {difference.to}", difference_text(difference), difference.candidate]
        for difference in tuned.differences
    ]
    return _grid(rows, ("", "by (95 % interval)", "which is"), form) if rows else []


def difference_text(difference: TunedDifference) -> str:
    """Write `+12.3 % (10.1 to 14.6)`, or why there is no such figure."""
    if difference.percent is None:
        return difference.missing
    if difference.low is None or difference.high is None:
        return f"{difference.percent:+.1f} % ({difference.missing})"
    return f"{difference.percent:+.1f} % ({difference.low:.1f} to {difference.high:.1f})"


def in_order(tuned: Tuned) -> list[TunedCandidate]:
    """Return the candidates that could run, winner first."""
    legal = [candidate for candidate in tuned.candidates if candidate.state != "illegal"]
    return sorted(
        legal,
        key=lambda candidate: (
            ORDER.index(candidate.state),
            candidate.figure or candidate.predicted or 0.0,
        ),
    )


def row_of(candidate: TunedCandidate) -> list[str]:
    """Return the texts of a candidate, as HEADERS names them."""
    state = NAMES.get(candidate.state, candidate.state)
    return [
        candidate.name,
        f"{state}: {candidate.reason}" if candidate.reason else state,
        str(candidate.runs or ""),
        "" if candidate.figure is None else f"{candidate.figure:.4g}",
        "" if candidate.predicted is None else f"{candidate.predicted:.4g}",
        "" if candidate.memory_mib is None else f"{candidate.memory_mib:.0f}",
    ]


def _table(tuned: Tuned, form: Form) -> list[str]:
    rows = [row_of(candidate) for candidate in in_order(tuned)]
    printed = rows if form == "markdown" else rows[:MOST_ROWS]
    lines = [f"Candidates, in {tuned.unit}; predicted with all measurements:", ""]
    lines += _grid([[_cut(text) for text in row] for row in printed], HEADERS, form)
    if len(rows) > len(printed):
        lines.append(f"and {len(rows) - len(printed)} more, in the report and in --format markdown")
    return lines if rows else []


def _cut(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:99]}…"


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
    candidates = {run.candidate for run in tuned.runs}
    legal = len(tuned.candidates) - tuned.count("illegal")
    if not tuned.runs:
        return
    cost = f"{tuned.cost:.3g} {tuned.cost_unit}, {lasts(tuned.took_s)}"
    yield f"search: {len(tuned.runs)} runs of {len(candidates)} of {legal} candidates, {cost}"
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
