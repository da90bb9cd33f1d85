"""Speeds that others published, each with its source: plain CSV, one line for each figure.

reference_speeds.csv beside this module is what was read in public sources; a person's own file
has the same columns (docs/how-to/expect.md). What is missing is empty, and means that the source
does not say it. Figures are facts in a form of our own: of a source's words
a line quotes the figure with its unit, so that it is found there. sources_without_figures.csv names
sources whose rules forbid to copy a figure, or that publish none.
"""

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

from node.printable import printable
from runner.base.errors import UserError
from runner.base.files import read_text
from runner.base.suggest import nearest

SHIPPED = Path(__file__).with_name("reference_speeds.csv")
WITHOUT_FIGURES = Path(__file__).with_name("sources_without_figures.csv")
MOST_BYTES = 16 << 20
UNITS = {
    "tokens_per_s_per_device": "tokens/s of one device",
    "tokens_per_s": "tokens/s of all devices",
    "samples_per_s": "samples (sequences)/s of all devices",
    "step_time_ms": "milliseconds for one iteration",
    "step_time_s": "seconds for one iteration",
}
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4")
_WHAT = "a file of reference speeds"


# What the words of `conditions` say of recomputation, and of how the model is split.
_RECOMPUTED = (
    ("full", re.compile(r"all layers recomputed|full (?:activation )?checkp|checkpointing on")),
    ("selective", re.compile(r"selective")),
    ("none", re.compile(r"nothing recomputed|checkpointing off|no activation checkp")),
)
_SPLIT = re.compile(r"\b(TP|PP|CP|EP) (\d{1,5})\b")
_NAMED_SPLIT = re.compile(r"\b(tensor|pipeline|context|expert) parallel (\d{1,5})\b")
_PRODUCT = re.compile(r"data x tensor x pipeline parallel \d+x(\d{1,5})x(\d{1,5})")


def split_text(sizes: Mapping[str, int]) -> str:
    """Write sizes of 2 and more, by TP, PP, CP and EP: `TP 2, PP 4`."""
    order = ("TP", "PP", "CP", "EP")
    return ", ".join(f"{name} {sizes[name]}" for name in order if sizes.get(name, 1) > 1)


@dataclass(frozen=True)
class Reference:
    """One figure as COLUMNS has it; None and "" where the source does not say it."""

    device: str
    devices: int
    model: str
    trainer: str
    figure: float
    unit: str
    quoted: str = ""
    where: str = ""
    address: str = ""
    read: str = ""
    device_detail: str = ""
    parameters_b: float | None = None
    active_parameters_b: float | None = None
    precision: str = ""
    micro_batch_size: int | None = None
    global_batch_size: int | None = None
    tokens_per_sample: int | None = None
    version: str = ""
    conditions: str = ""
    licence: str = ""

    @property
    def is_ours(self) -> bool:
        """Whether this project measured it: nobody else's word for what is normal."""
        return self.licence == "this project"

    @property
    def recomputation(self) -> str:
        """What is recomputed in backward, as far as `conditions` say: none, selective, full."""
        return next((word for word, said in _RECOMPUTED if said.search(self.conditions)), "")

    @property
    def model_parallel(self) -> str:
        """How the model is split, as `TP 2, PP 4`; empty where it is not."""
        sizes = dict(_SPLIT.findall(self.conditions))
        if named := _NAMED_SPLIT.findall(self.conditions):
            sizes |= {name[0].upper() + "P": size for name, size in named}
        if product := _PRODUCT.search(self.conditions):
            sizes |= {"TP": product[1], "PP": product[2]}
        return split_text({name: int(size) for name, size in sizes.items()})

    @property
    def tokens_per_s_per_device(self) -> float:
        """The figure in the one unit in which figures are compared."""
        if self.unit == "tokens_per_s_per_device":
            return self.figure
        if self.unit == "tokens_per_s":
            return self.figure / self.devices
        tokens = float(self.tokens_per_sample or 0)
        if self.unit == "samples_per_s":
            return self.figure * tokens / self.devices
        seconds = self.figure / (1000 if self.unit == "step_time_ms" else 1)
        return (self.global_batch_size or 0) * tokens / seconds / self.devices


MEANINGS: Mapping[str, str] = {
    "device": "device by the name of runner/figures/devices.py, else its own",
    "device_detail": "memory, power limit or system, as far as the source says",
    "devices": "devices in the job",
    "model": "model, as it is called",
    "parameters_b": "parameters in billions (10^9), by its name or the source",
    "active_parameters_b": "of a mixture of experts: those that a token uses",
    "precision": f"one of {', '.join(PRECISIONS)}",
    "micro_batch_size": "samples per data parallel rank and pass",
    "global_batch_size": "samples per iteration",
    "tokens_per_sample": "sequence length",
    "trainer": "what trained",
    "version": "its version, commit or container",
    "figure": "the figure, as a plain number",
    "unit": f"one of {', '.join(UNITS)}",
    "quoted": "the figure with its unit, in the words of the source",
    "where": "table and row, or line, at that address",
    "conditions": "parallel sizes, recomputation, what else a reader must know",
    "licence": "licence of the source",
    "address": "https:// address, pinned to a commit where there is one",
    "read": "day on which it was read",
}
REQUIRED = tuple(field.name for field in fields(Reference) if field.default is MISSING)


def _number(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise ValueError
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


# How a field is read, and what it must be; all others are text.
_KINDS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    **dict.fromkeys(
        ("figure", "parameters_b", "active_parameters_b"), (_number, "a number above 0")
    ),
    **dict.fromkeys(
        ("devices", "micro_batch_size", "global_batch_size", "tokens_per_sample"),
        (_count, "a whole number of at least 1"),
    ),
}


@cache
def shipped() -> tuple[Reference, ...]:
    """Return the lines that come with the product."""
    return tuple(read_references(SHIPPED))


def chosen_by(globs: Sequence[str], references: Iterable[Reference]) -> list[Reference]:
    """Choose those whose trainer or address a glob matches; !GLOB leaves out those it matches."""
    included = [glob for glob in globs if not glob.startswith("!")]
    refused = [glob[1:] for glob in globs if glob.startswith("!")]

    def matches(reference: Reference, globs_of_kind: Sequence[str]) -> bool:
        return any(
            fnmatch(text, glob)
            for glob in globs_of_kind
            for text in (reference.trainer, reference.address)
        )

    return [
        reference
        for reference in references
        if (not included or matches(reference, included)) and not matches(reference, refused)
    ]


def read_references(path: Path) -> list[Reference]:
    """Read a file. Raises UserError of one sentence that names line, column and cure."""
    where = printable(str(path))
    return parse_references(read_text(path, MOST_BYTES, _WHAT), where)


def parse_references(text: str, where: str) -> list[Reference]:
    """Read the text of a file, which errors call `where`."""
    lines = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        references = [_reference(line, f"{where}, line {lines.line_num}") for line in lines]
    except csv.Error as error:
        raise UserError(
            f"{where}, line {lines.line_num + 1} is not valid CSV: {error}; quote a field that has"
            " a comma or a quotation mark"
        ) from None
    if not references:
        raise UserError(
            f"{where} has no figure; its first line has the names of columns"
            f" ({', '.join(REQUIRED)}), each other line a figure"
        )
    return references


def _reference(line: Mapping[str, str | None], at: str) -> Reference:
    values: dict[str, Any] = {}
    for name, field in line.items():
        if name not in MEANINGS:
            raise UserError(
                f"{at}: there is no column {printable(str(name))[:60]!r}"
                f"{nearest(str(name), MEANINGS)}; the columns are {', '.join(MEANINGS)}"
            )
        read, kind = _KINDS.get(name, (printable, "text"))
        if text := (field or "").strip():
            try:
                values[name] = read(text)
            except ValueError:
                raise UserError(
                    f"{at}: {name} is {printable(text)[:60]!r}; it must be {kind}"
                ) from None
    for name in REQUIRED:
        if name not in values:
            raise UserError(f"{at}: {name} is missing; write {MEANINGS[name]}")
    if values["unit"] not in UNITS:
        unit = values["unit"][:60]
        raise UserError(
            f"{at}: unit is {unit!r}{nearest(unit, UNITS)}; it must be {MEANINGS['unit']}"
        )
    reference = Reference(**values)
    if not 0 < reference.tokens_per_s_per_device < math.inf:
        raise UserError(
            f"{at}: its figure in {reference.unit} does not become tokens/s; fill in"
            " tokens_per_sample, and for a step time global_batch_size"
        )
    return reference
