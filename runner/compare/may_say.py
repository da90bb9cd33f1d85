"""What a person may say of a cell's speed in B against A: a verdict alone is not enough. Pure.

Any word but NONE needs two publishable cells that did the same work and end with the same loss;
`faster` and `slower` need a difference beyond the threshold and the noise of both, too.
"""

from collections.abc import Iterator, Mapping

from runner.compare.quantity import Measure
from runner.figures.parity import RELATIVE
from runner.tables.row import PUBLISHABLE, Row, finished
from runner.terms.cell import SEED

NONE = "none"
WORDS: Mapping[str, str] = {"faster": "faster", "slower": "slower", "same": "no_difference_shown"}
WORK = (
    *("model", "num_layers", "hidden_size", "num_attention_heads", "seq_length", "vocab_size"),
    *("global_batch_size", "train_iters", "lr", "lr_warmup_iters", "dataset", "split", SEED),
)


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
