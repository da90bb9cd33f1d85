"""Speeds that others published, each with its source: plain CSV, one line for each figure.

reference_speeds.csv beside this module is what was read in public sources (a test checks it); a
person's own file has the same columns (docs/how-to/expect.md) and is checked by their types. What
is missing is empty, and means that the source does not say it. Figures are facts in a form of our
own: of a source's words a line quotes the figure with its unit, so that it is found there.
"""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

from node.printable import printable
from runner.base.errors import UserError
from runner.base.files import read_text
from runner.base.suggest import nearest

SHIPPED = Path(__file__).with_name("reference_speeds.csv")
MOST_BYTES = 16 << 20
UNITS = ("tokens_per_s_per_device", "tokens_per_s", "samples_per_s", "step_time_ms", "step_time_s")
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4")
RECOMPUTATIONS = ("none", "selective", "full")


def split_text(sizes: Mapping[str, int]) -> str:
    """Write sizes of 2 and more, in their order: `TP 2, PP 4`; none where nothing is split."""
    return ", ".join(f"{name} {size}" for name, size in sizes.items() if size > 1) or "none"


@dataclass(frozen=True, kw_only=True)
class Speed:
    """A speed and its conditions, as a line of the CSV; None and "" where they are not known."""

    device: Annotated[str, "device by the name of runner/figures/devices.py, else its own"]
    device_detail: Annotated[str, "memory, power limit or system, as the source says"] = ""
    devices: Annotated[int | None, "devices in the job"]
    model: Annotated[str, "model, as it is called"]
    parameters_b: Annotated[float | None, "parameters in billions (10^9), by name or source"] = None
    active_parameters_b: Annotated[float | None, "of experts: those that a token uses"] = None
    precision: Annotated[str, f"one of {', '.join(PRECISIONS)}"] = ""
    micro_batch_size: Annotated[int | None, "samples per data parallel rank and pass"] = None
    global_batch_size: Annotated[int | None, "samples per iteration"] = None
    tokens_per_sample: Annotated[int | None, "sequence length"] = None
    recomputation: Annotated[str, f"one of {', '.join(RECOMPUTATIONS)}"] = ""
    model_parallel: Annotated[
        str, "none, or sizes of 2 and more of TP, PP, CP, EP: `TP 2, PP 4`"
    ] = ""
    trainer: Annotated[str, "what trained"]
    version: Annotated[str, "its version, commit or container"] = ""
    figure: Annotated[float, "the figure, as a plain number"]
    unit: Annotated[str, f"one of {', '.join(UNITS)}"]
    quoted: Annotated[str, "the figure with its unit, in the words of the source"] = ""
    where: Annotated[str, "table and row, or line, at that address"] = ""
    conditions: Annotated[str, "parallel sizes and what else a reader must know"] = ""
    licence: Annotated[str, "licence of the source"] = ""
    address: Annotated[str, "https:// address, pinned to a commit or tag if possible"] = ""
    read: Annotated[str, "day on which it was read"] = ""

    @property
    def is_ours(self) -> bool:
        """Whether this project measured it: nobody else's word for what is normal."""
        return self.licence == "this project"

    @property
    def tokens_per_s_per_device(self) -> float:
        """The figure in the one unit in which figures are compared; 0 without a needed size."""
        tokens, devices = float(self.tokens_per_sample or 0), self.devices or 1
        if self.unit.startswith("step_time"):
            seconds = self.figure / (1000 if self.unit == "step_time_ms" else 1)
            return (self.global_batch_size or 0) * tokens / seconds / devices
        rate = self.figure * (tokens if self.unit == "samples_per_s" else 1)
        return rate if self.unit == "tokens_per_s_per_device" else rate / devices


_HINTS = get_type_hints(Speed, include_extras=True)
MEANINGS: Mapping[str, str] = {name: hint.__metadata__[0] for name, hint in _HINTS.items()}
REQUIRED = tuple(field.name for field in fields(Speed) if field.default is MISSING)
_COUNT = int, r"0{0,9}[1-9]\d{0,11}", "a whole number of at least 1"
_NUMBER = float, r"(?=[0.]*[1-9])\d{0,15}\.?\d{0,15}(?:[eE][+-]?\d{1,2})?", "a number above 0"
_FORMS: Mapping[str, tuple[type, str, str]] = {  # how a field is read, and what it must be
    name: _COUNT if int in get_args(hint) else _NUMBER
    for name, hint in get_type_hints(Speed).items()
    if hint is not str
} | {
    name: (str, form, MEANINGS[name])
    for name, form in (
        ("unit", "|".join(UNITS)),
        ("recomputation", "|".join(RECOMPUTATIONS)),
        ("model_parallel", r"none|(?:[TPCE]P [1-9]\d{0,4}(?:, |$))+"),
    )
}


@cache
def shipped() -> tuple[Speed, ...]:
    """Return the lines that come with the product."""
    return tuple(read_references(SHIPPED))


def chosen_by(globs: Sequence[str], references: Iterable[Speed]) -> list[Speed]:
    """Choose those whose trainer or address a glob matches; !GLOB leaves out those it matches."""
    included = [glob for glob in globs if not glob.startswith("!")] or ["*"]
    refused = [glob[1:] for glob in globs if glob.startswith("!")]

    def matches(of: Speed, kind: Sequence[str]) -> bool:
        return any(fnmatch(of.trainer, glob) or fnmatch(of.address, glob) for glob in kind)

    return [of for of in references if matches(of, included) and not matches(of, refused)]


def read_references(path: Path) -> list[Speed]:
    """Read a file. Raises UserError of one sentence that names line, column and cure."""
    where = printable(str(path))
    return parse_references(read_text(path, MOST_BYTES, "a file of reference speeds"), where)


def parse_references(text: str, where: str) -> list[Speed]:
    """Read the text of a file, which errors call `where`."""
    lines = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        speeds = [_speed(line, f"{where}, line {lines.line_num}") for line in lines]
    except csv.Error as error:
        raise UserError(
            f"{where}, line {lines.line_num + 1} is not valid CSV: {error}; quote a field that has"
            " a comma or a quotation mark"
        ) from None
    if not speeds:
        raise UserError(f"{where} has no figure; its first line names {', '.join(REQUIRED)}")
    return speeds


def _speed(line: Mapping[str, str | None], at: str) -> Speed:
    values: dict[str, Any] = {}
    for name, field in line.items():
        if name not in MEANINGS:
            known = f"{nearest(str(name), MEANINGS)}; the columns are {', '.join(MEANINGS)}"
            raise UserError(f"{at}: there is no column {printable(str(name))[:60]!r}{known}")
        kind, form, must_be = _FORMS.get(name, (str, ".*", ""))
        if not (stripped := (field or "").strip()):
            continue
        if not re.fullmatch(form, text := printable(stripped)):
            raise UserError(f"{at}: {name} is {text[:60]!r}; it must be {must_be}")
        values[name] = kind(text)
    if missing := [name for name in REQUIRED if name not in values]:
        raise UserError(f"{at}: {missing[0]} is missing; write {MEANINGS[missing[0]]}")
    if not (speed := Speed(**values)).tokens_per_s_per_device:
        raise UserError(
            f"{at}: its figure in {speed.unit} does not become tokens/s; fill in tokens_per_sample,"
            " and for a step time global_batch_size"
        )
    return speed
