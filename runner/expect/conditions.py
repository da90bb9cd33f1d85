"""Under which conditions a speed was reached, and how two of them differ. Pure.

Each difference is printed. One of device, size of the model or precision makes two
figures incomparable; so does not knowing one of them. Others leave a percentage, beside the words.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from runner.expect.references import Speed
from runner.figures.devices import DEVICES, find_device

# Ratios of parameters. Up to 1.05 one model has several names (GPT-2 medium: 345M and 355M), up to
# 1.1 names round, and models of one name differ by an input embedding that is counted or not.
ONE_MODEL, SAME_SIZE, SAME_NAME = 1.05, 1.1, 1.25
MOST_STEPS = 6.0  # doublings that count when the nearest figure is looked for
UNKNOWN_HERE, UNKNOWN_THERE = "not known", "not stated"
_MEMORY = re.compile(r"(\d+) ?GB")
_COUNTS = (  # and what a doubling weighs
    ("sequence length", "tokens_per_sample", 4),
    ("devices", "devices", 2),
    ("global batch", "global_batch_size", 1),
    ("micro batch", "micro_batch_size", 1),
)
# How the other figure was reached, by the condition, or by it and its value
_TOLD = {
    "device": "runs on {}",
    "device memory": "has devices of {}",
    "model": "trains {}",
    "precision": "computes in {}",
    "sequence length": "has a sequence length of {}",
    "devices": "uses {} devices",
    "devices 1": "uses one device",
    "global batch": "has a global batch of {}",
    "micro batch": "has a micro batch of {}",
    "micro batches": "accumulates {} micro batches",
    "micro batches 1": "accumulates nothing",
    "recomputation none": "recomputes nothing",
    "recomputation selective": "recomputes selected parts",
    "recomputation full": "recomputes all layers",
    "model parallelism": "splits the model by {}",
    "model parallelism none": "does not split the model",
}


@dataclass(frozen=True)
class ConditionDifference:
    """One condition that is not the same, with both sides in words.

    `weight` orders figures from near to far; `incomparable` ends any percentage.
    """

    what: str
    here: str
    there: str
    weight: float = field(compare=False)
    incomparable: bool = False

    @property
    def words(self) -> str:
        """What the other one does: `has a global batch of 32 (here 64)`."""
        told = _TOLD.get(f"{self.what} {self.there}") or _TOLD[self.what].format(self.there)
        return f"{told} (here {self.here})"


def difference_words(found: Sequence[ConditionDifference], who: str = "it") -> str:
    """Say in one sentence what `who` does otherwise, then what one side does not say."""
    told = [each.words for each in found if each.there not in ("", UNKNOWN_THERE)]
    for at in range(len(told) - 1, 0, -1):  # it has a batch of 2, a sequence length of 8,192
        if told[at - 1].startswith("has "):
            told[at] = told[at].removeprefix("has ")
    here, there = (
        ", ".join(each.what for each in found if each.there == silent)
        for silent in ("", UNKNOWN_THERE)
    )
    said = " and ".join(filter(None, (", ".join(told[:-1]), *told[-1:])))
    parts = ((f"{who} ", said), ("not known here: ", here), ("not stated there: ", there))
    return "; ".join(begin + words for begin, words in parts if words)


def device_kind(name: str) -> str:
    """Return a device by the name of our table of devices, else as it is called."""
    device = find_device(name)
    return device.name if device else name.strip().removeprefix("NVIDIA ")


def differences(ours: Speed, theirs: Speed) -> Iterator[ConditionDifference]:
    """Yield all conditions in which the two differ, or of which one side says nothing.

    Micro batch, recomputation and split are no others where the source does not state them.
    """
    yield from _device(ours, theirs)
    yield from _size(ours, theirs)
    here, there = ours.precision, theirs.precision
    if not here or here != there:
        yield _words("precision", here, there, 20 if here and there else 8, True)
    for what, name, weight in _COUNTS:
        own, their = getattr(ours, name), getattr(theirs, name)
        if their is None and what == "micro batch":
            continue
        if own is None:  # what is known there alone splits no figures
            names = UNKNOWN_HERE, UNKNOWN_THERE if their is None else ""
            yield ConditionDifference(what, *names, weight)
        elif own != their:
            steps = min(abs(math.log2(own / their)), MOST_STEPS) if their else 1
            yield _words(what, f"{own:,}", f"{their:,}" if their else "", weight * steps)
    own, their = _micro_batches(ours), _micro_batches(theirs)
    if own and their and own != their:  # by sizes that have their weight
        yield _words("micro batches", f"{own:,}", f"{their:,}", 0)
    here, there = ours.recomputation, theirs.recomputation
    if there and here != there:
        yield _words("recomputation", here, there, 1 if here else 0.5)
    here, there = ours.model_parallel, theirs.model_parallel
    if there and (here or "none") != there:
        yield _words("model parallelism", here, there, 1 if here else 0.5)


def _words(
    what: str, here: str, there: str, weight: float, incomparable: bool = False
) -> ConditionDifference:
    names = here or UNKNOWN_HERE, there or UNKNOWN_THERE
    return ConditionDifference(what, *names, weight, incomparable)


def _device(ours: Speed, theirs: Speed) -> Iterator[ConditionDifference]:
    here, there = device_kind(ours.device), device_kind(theirs.device)
    if here != there:
        own_name, their_name = (name.replace("-", " ") + " " for name in (here, there))
        variant = own_name.startswith(their_name) or their_name.startswith(own_name)
        yield ConditionDifference("device", here, there, 3 if variant else 100, not variant)
    own, their = (_MEMORY.search(f"{of.device} {of.device_detail}") for of in (ours, theirs))
    if own and their and own[1] != their[1] and here.split()[0] == there.split()[0]:
        yield ConditionDifference("device memory", f"{own[1]} GB", f"{their[1]} GB", 2)


def _size(ours: Speed, theirs: Speed) -> Iterator[ConditionDifference]:
    here, there = _parameters(ours), _parameters(theirs)
    own_name, their_name = _plain(ours.model), _plain(theirs.model)
    weight, incomparable = 30.0, True
    if here and there:
        ratio = max(max(a / b, b / a) for a, b in zip(here, there, strict=True))
        one_name = bool(own_name) and (own_name in their_name or their_name in own_name)
        if ratio <= (SAME_NAME if one_name else ONE_MODEL):
            return
        weight, incomparable = 40 * min(math.log2(ratio), MOST_STEPS), ratio > SAME_SIZE
    elif own_name == their_name:
        return
    yield _words("model", _model(ours), _model(theirs), weight, incomparable)


def _parameters(of: Speed) -> tuple[float, float] | None:
    """Return all parameters and the active ones; None where they are not known."""
    size = of.parameters_b
    return (size, of.active_parameters_b or size) if size else None


def _model(of: Speed) -> str:
    """Name a model with its size, as names have it: 345M, 1.3B, 70B."""
    size = of.parameters_b or 0.0
    words = f"{size * 1000:.3g}M" if size < 1 else f"{size:.3g}B"
    if not size or (of.model and _plain(words) in _plain(of.model)):
        return of.model
    return f"{of.model} ({words})" if of.model else words


def _plain(name: str) -> str:
    """Reduce a name to its letters and digits, and Llama 3.1 to Llama 3."""
    return re.sub(r"[\W_]", "", re.sub(r"(?<=\d)\.\d+(?=[ -])", "", name.casefold()))


def _micro_batches(of: Speed) -> int:
    """Return how many a data parallel rank takes in a step; 0 where it is not known."""
    if not (of.devices and of.global_batch_size and of.micro_batch_size and of.model_parallel):
        return 0
    split = math.prod(map(int, re.findall(r"[TPC]P (\d+)", of.model_parallel)))
    count, rest = divmod(of.global_batch_size * split, of.micro_batch_size * of.devices)
    return 0 if rest else count


def why_impossible(speed: Speed) -> str:
    """Say that no device can be so fast, by 6 FLOPs a weight and token; empty where it may be."""
    kind, size = device_kind(speed.device).replace("-", " "), _parameters(speed)
    devices = (of for of in DEVICES if f"{of.name} ".replace("-", " ").startswith(f"{kind} "))
    peak = max((of.peak.get(speed.precision) or max(of.peak.values()) for of in devices), default=0)
    needed = 6e-3 * size[1] * speed.tokens_per_s_per_device if size else 0
    if not peak or "fp4" in speed.precision or needed <= peak:
        return ""
    return (
        f"impossible: it needs {needed:,.0f} TFLOP/s of each device, and the peak of {kind} is"
        f" {peak:,.0f}; give tokens/s of one device, not of all, and of a mixture of experts"
        " both sizes, such as 30B-A3B"
    )
