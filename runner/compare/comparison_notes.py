"""What a reader of a comparison should know beside its verdicts. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from runner.base.text import listing
from runner.compare.quantity import CANNOT_TELL, NOT_JUDGED, Measure, what_it_takes
from runner.compare.side import Pair, Side
from runner.figures.publishable import CODES
from runner.figures.target import Alike
from runner.tables.columns import title
from runner.tables.formatting import value_text
from runner.tables.row import Row, finished
from runner.terms.record import NOT_ENDED

LOSS_PERCENT = 5.0  # a difference of final losses that a reader should know of
_NOT_THE_MACHINE = ("campaign", "inventory")


def cell_notes(
    a: Row, b: Row, measures: Mapping[str, Measure], learns: Alike | None
) -> Iterable[str]:
    """Yield what a reader should know of a cell that is on both sides."""
    for name, verdict_of_measure in measures.items():
        if verdict_of_measure.verdict in (CANNOT_TELL, NOT_JUDGED):
            yield what_it_takes(title(name), verdict_of_measure)
    was, now = (
        "-".join(str(row["figures"][f"window_{end}_iteration"]) for end in ("first", "last"))
        for row in (a, b)
    )
    if measures and was != now:
        yield f"measured over iterations {was}, then {now}"
    if measures and (nodes := _other_nodes(a, b)):
        yield nodes
    ours, theirs = a["figures"]["final_loss"], b["figures"]["final_loss"]
    judges_loss = "final_loss" in measures
    if measures and not judges_loss and ours and theirs:
        change = abs(theirs - ours) / abs(ours) * 100
        if change > LOSS_PERCENT:
            yield f"final loss {ours:.4g}, then {theirs:.4g}: do both train the same?"
    if learns and learns.verdict != "alike":
        yield learns.sentence("the first")
    for label, row in (("first", a), ("second", b)):
        if codes := [word for word in row["verdict_reasons"] if _signed(word)]:
            yield f"the {label} does not meet the publishing rules: {', '.join(codes)}"
    for label, row in (("first", a), ("second", b)):
        if row["status"] in NOT_ENDED and finished(row):
            yield f"not every repeat of the {label} has ended"
    if b["status"] != "ok" and b["reason"]:
        yield b["reason"]


def _other_nodes(a: Row, b: Row) -> str:
    """Say that two cells ran on nodes of which neither had all of the other's."""
    ours, theirs = (
        list(dict.fromkeys(host for run in row["hosts"] for host in run)) for row in (a, b)
    )
    if not ours or not theirs or set(ours) <= set(theirs) or set(theirs) <= set(ours):
        return ""
    return f"ran on {listing(ours)}, then on {listing(theirs)}"


def _signed(word: str) -> bool:
    """Whether a code makes the speed itself doubtful."""
    return word in CODES and bool(CODES[word].sign)


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
    ours, theirs = a.environment, b.environment
    return [
        (key, ours.get(key, "–"), theirs.get(key, "–"))
        for key in {**ours, **theirs}
        if key not in _NOT_THE_MACHINE and ours.get(key) != theirs.get(key)
    ]
