"""What a reader of a comparison should know beside its verdicts, and what may be said. Pure.

Any word of a cell's speed but NONE needs two publishable cells that did the same work and end with
the same loss; `faster` and `slower` need a difference beyond the threshold and the noise of both.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from runner.base.text import listing
from runner.compare.quantity import CANNOT_TELL, NOT_JUDGED, Measure, what_it_takes
from runner.compare.side import Pair, Side, differing
from runner.figures.parity import RELATIVE
from runner.figures.publishable import CODES
from runner.figures.target import Alike
from runner.tables.columns import title
from runner.tables.formatting import value_text
from runner.tables.row import PUBLISHABLE, Row, finished
from runner.terms.cell import SEED
from runner.terms.record import NOT_ENDED

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
