"""Under which conditions a speed was reached, and how two of them differ. Pure.

Each difference is printed. One of device, size of the model or precision makes two
figures incomparable; so does not knowing one of them. Others leave a percentage, beside the words.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from runner.expect.references import Reference
from runner.figures.devices import DEVICES, find_device
from runner.terms.record import MIXED_FP8

# Ratios of parameters. Up to 1.05 one model has several names (GPT-2 medium: 345M and 355M), up to
# 1.1 names round, and models of one name differ by an input embedding that is counted or not.
ONE_MODEL, SAME_SIZE, SAME_NAME = 1.05, 1.1, 1.25
MOST_STEPS = 6.0  # doublings that count when the nearest figure is looked for
UNKNOWN_HERE = "not known"
UNKNOWN_THERE = "not stated"
RECOMPUTATION = "recomputation"


@dataclass(frozen=True)
class Subject:
    """A speed that is to be judged: tokens/s of one device, and what is known of its run.

    `device` is what nvidia-smi or npu-smi prints, or a name of runner/figures/devices.py;
    `parameters_b` are in billions, `active_parameters_b` those that a token uses, None where it is
    all of them. `recomputation` is none, selective or full, `model_parallel` as Reference has it.
    "" and None: not known.
    """

    tokens_per_s_per_device: float
    device: str
    devices: int | None = None
    model: str = ""
    parameters_b: float | None = None
    active_parameters_b: float | None = None
    precision: str = ""
    micro_batch_size: int | None = None
    global_batch_size: int | None = None
    tokens_per_sample: int | None = None
    trainer: str = ""
    recomputation: str = ""
    model_parallel: str | None = None


@dataclass(frozen=True)
class ConditionDifference:
    """One condition that is not the same, with both sides in words.

    `weight` orders figures from near to far; `incomparable` ends any percentage; `ratio` says
    theirs in ours, where that is a word.
    """

    what: str
    here: str
    there: str
    weight: float
    incomparable: bool = False
    ratio: str = ""

    @property
    def words(self) -> str:
        """The difference as a clause: `global batch 64 here, 32 there (half)`."""
        here = f"{self.what} {self.here} here"
        if not self.there:
            return here
        return f"{here}, {self.there} there" + (f" ({self.ratio})" if self.ratio else "")


def differences(subject: Subject, reference: Reference) -> tuple[ConditionDifference, ...]:
    """Return all conditions in which the two differ, or of which one side says nothing."""
    return tuple(
        difference for compare in _CONDITIONS for difference in compare(subject, reference)
    )


def device_kind(name: str) -> str:
    """Return a device by the name of our table of devices, else as it is called."""
    short = name.strip().removeprefix("NVIDIA ")
    device = find_device(short)
    return device.name if device else short


def precision_of(arithmetic: str | None) -> str:
    """Return a cell's arithmetic in the words of the reference speeds."""
    return "fp8" if arithmetic == MIXED_FP8 else arithmetic or ""


_Differences = Iterator[ConditionDifference]


def _device(subject: Subject, reference: Reference) -> _Differences:
    here, there = device_kind(subject.device), device_kind(reference.device)
    if here == there:
        return
    own_name, their_name = (name.replace("-", " ") + " " for name in (here, there))
    variant = own_name.startswith(their_name) or their_name.startswith(own_name)
    yield ConditionDifference("device", here, there, 3 if variant else 100, not variant)


def _memory(subject: Subject, reference: Reference) -> _Differences:
    here, there = _gigabytes(subject.device), _gigabytes(reference.device_detail)
    same_kind = device_kind(subject.device).split()[0] == device_kind(reference.device).split()[0]
    if same_kind and here and there and here != there:
        yield ConditionDifference("device memory", f"{here} GB", f"{there} GB", 2)


def _gigabytes(text: str) -> int | None:
    tokens = text.replace("GB", " GB ").replace("-", " ").split()
    sizes = [token for token, unit in pairwise(tokens) if unit == "GB"]
    return int(sizes[0]) if sizes and sizes[0].isdigit() else None


def _size(subject: Subject, reference: Reference) -> _Differences:
    here, there = _parameters(subject), _parameters(reference)
    ours, theirs = _plain(subject.model), _plain(reference.model)
    incomparable = True
    if here and there:
        ratio = max(max(a / b, b / a) for a, b in zip(here, there, strict=True))
        one_name = bool(ours) and (ours in theirs or theirs in ours)
        if ratio <= (SAME_NAME if one_name else ONE_MODEL):
            return
        incomparable = ratio > SAME_SIZE
        weight = 40 * min(math.log2(ratio), MOST_STEPS)
    elif ours == theirs:
        return
    else:
        weight = 30
    names = _model(subject, UNKNOWN_HERE), _model(reference, UNKNOWN_THERE)
    yield ConditionDifference("model", *names, weight, incomparable)


def _parameters(of: Subject | Reference) -> tuple[float, float] | None:
    """Return all parameters and the active ones; None where they are not known."""
    if of.parameters_b is None:
        return None
    return of.parameters_b, of.active_parameters_b or of.parameters_b


def _model(of: Subject | Reference, unknown: str) -> str:
    size = "" if of.parameters_b is None else billions(of.parameters_b)
    if not of.model:
        return size or unknown
    return of.model if not size or _plain(size) in _plain(of.model) else f"{of.model} ({size})"


def billions(parameters_b: float) -> str:
    """Write parameters as names have them: 345M, 1.3B, 70B."""
    if parameters_b < 1:
        return f"{parameters_b * 1000:.3g}M"
    return f"{parameters_b:.3g}B"


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _precision(subject: Subject, reference: Reference) -> _Differences:
    if subject.precision and subject.precision == reference.precision:
        return
    is_known = bool(subject.precision and reference.precision)
    yield ConditionDifference(
        "precision",
        subject.precision or UNKNOWN_HERE,
        reference.precision or UNKNOWN_THERE,
        20 if is_known else 8,
        incomparable=True,
    )


def _recomputation(subject: Subject, reference: Reference) -> _Differences:
    here, there = subject.recomputation, reference.recomputation
    if here != there and (here or there):
        weight = 1.0 if here and there else 0.5
        names = here or UNKNOWN_HERE, there or UNKNOWN_THERE
        yield ConditionDifference(RECOMPUTATION, *names, weight)


def _split(subject: Subject, reference: Reference) -> _Differences:
    here, there = subject.model_parallel, reference.model_parallel
    if here is None and there:
        yield ConditionDifference("model parallelism", UNKNOWN_HERE, there, 0.5)
    elif here is not None and here != there:
        yield ConditionDifference("model parallelism", here or "none", there or "none", 1)


def _count(
    quantity: str, name: str, weight: float
) -> Callable[[Subject, Reference], Iterator[ConditionDifference]]:
    """Compare a whole number, such as the batch; how much more or less is in brackets."""

    def compare(subject: Subject, reference: Reference) -> _Differences:
        here, there = getattr(subject, name), getattr(reference, name)
        if here is not None and here == there:
            return
        if here is None:
            there_text = (
                UNKNOWN_THERE if there is None else ""
            )  # one that is known splits no figures
            yield ConditionDifference(quantity, UNKNOWN_HERE, there_text, weight)
        elif there is None:
            yield ConditionDifference(quantity, f"{here:,}", UNKNOWN_THERE, weight)
        else:
            steps = min(abs(math.log2(here / there)), MOST_STEPS)
            ratio = {2.0: "twice", 0.5: "half"}.get(there / here, "")
            yield ConditionDifference(
                quantity, f"{here:,}", f"{there:,}", weight * steps, ratio=ratio
            )

    return compare


_CONDITIONS: tuple[Callable[[Subject, Reference], _Differences], ...] = (
    _device,
    _memory,
    _size,
    _precision,
    _count("sequence length", "tokens_per_sample", 4),
    _count("devices", "devices", 2),
    _count("global batch", "global_batch_size", 1),
    _count("micro batch", "micro_batch_size", 1),
    _recomputation,
    _split,
)


def why_impossible(subject: Subject) -> str:
    """Say that no device can be so fast, by 6 FLOPs a weight and token; empty where it may be."""
    kind = device_kind(subject.device).replace("-", " ")
    names = {device.name.replace("-", " "): device for device in DEVICES}
    peaks = [
        device.peak.get(subject.precision) or max(device.peak.values())
        for name, device in names.items()
        if name == kind or name.startswith(f"{kind} ")
    ]
    size = _parameters(subject)
    if size is None or not peaks or "fp4" in subject.precision:
        return ""
    needed = 6e-3 * size[1] * subject.tokens_per_s_per_device
    if needed <= max(peaks):
        return ""
    return (
        f"impossible: it needs {needed:,.0f} TFLOP/s of each device, and the peak of {kind} is"
        f" {max(peaks):,.0f}; give tokens/s of one device, not of all, and of a mixture of experts"
        " the size that a token uses"
    )
