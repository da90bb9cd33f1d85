"""Speeds that others published, each with its source: plain CSV, one line for each figure.

reference_speeds.csv beside this module is what was read in public sources; a person's own file
has the same columns (docs/how-to/expect.md). COLUMNS is the schema: what is missing is empty, and
means that the source does not say it. Figures are facts in a form of our own: of a source's words
a line quotes the figure with its unit, so that it is found there. sources_without_figures.csv names
sources whose rules forbid to copy a figure, or that publish none.
"""

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
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
MOST_LINES = 20_000
MOST_TEXT = 500  # letters of a field
LARGEST = 1e12
UNITS = {
    "tokens_per_s_per_device": "tokens/s of one device",
    "tokens_per_s": "tokens/s of all devices",
    "samples_per_s": "samples (sequences)/s of all devices",
    "step_time_ms": "milliseconds for one iteration",
    "step_time_s": "seconds for one iteration",
}
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4")
_WHAT = "a file of reference speeds"
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_ADDRESS = re.compile(r"https://[^\s/]+/\S*|docs/[\w./-]+")


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


@dataclass(frozen=True)
class ReferenceField:
    """One column of the CSV: how a field is read (ValueError: what it must be), what it means."""

    read: Callable[[str], Any]
    meaning: str
    required: bool = False


def _text(field: str) -> str:
    if len(field) > MOST_TEXT:
        raise ValueError(f"a text of at most {MOST_TEXT} characters")
    if field != printable(field):
        raise ValueError("text without control characters")
    return field


def _number(field: str) -> float:
    try:
        value = float(field)
    except ValueError:
        value = math.nan
    if not 0 < value <= LARGEST:
        raise ValueError("a number above 0, without separators")
    return value


def _whole_number(field: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,11}", field):
        raise ValueError("a whole number of at least 1, without separators")
    return int(field)


def _day(field: str) -> str:
    try:
        day = date.fromisoformat(field)
    except ValueError:
        raise ValueError("a day as 2026-11-24") from None
    return day.isoformat()


def _address(field: str) -> str:
    if not _ADDRESS.fullmatch(_text(field)):
        raise ValueError("an https:// address, or a path below docs/")
    return field


def _one_of(choices: Iterable[str]) -> Callable[[str], str]:
    allowed = tuple(choices)

    def read(field: str) -> str:
        if field not in allowed:
            raise ValueError(f"one of {', '.join(allowed)}{nearest(field, allowed)}")
        return field

    return read


COLUMNS: Mapping[str, ReferenceField] = {
    "device": ReferenceField(
        _text, "device by the name of runner/figures/devices.py, else its own", True
    ),
    "device_detail": ReferenceField(
        _text, "memory, power limit or system, as far as the source says"
    ),
    "devices": ReferenceField(_whole_number, "devices in the job", True),
    "model": ReferenceField(_text, "model, as it is called", True),
    "parameters_b": ReferenceField(
        _number, "parameters in billions (10^9), by its name or the source"
    ),
    "active_parameters_b": ReferenceField(
        _number, "of a mixture of experts: those that a token uses"
    ),
    "precision": ReferenceField(_one_of(PRECISIONS), f"one of {', '.join(PRECISIONS)}"),
    "micro_batch_size": ReferenceField(_whole_number, "samples per data parallel rank and pass"),
    "global_batch_size": ReferenceField(_whole_number, "samples per iteration"),
    "tokens_per_sample": ReferenceField(_whole_number, "sequence length"),
    "trainer": ReferenceField(_text, "what trained", True),
    "version": ReferenceField(_text, "its version, commit or container"),
    "figure": ReferenceField(_number, "the figure, as a plain number", True),
    "unit": ReferenceField(_one_of(UNITS), f"one of {', '.join(UNITS)}", True),
    "quoted": ReferenceField(_text, "the figure with its unit, in the words of the source", True),
    "where": ReferenceField(_text, "table and row, or line, at that address", True),
    "conditions": ReferenceField(
        _text, "parallel sizes, recomputation, what else a reader must know"
    ),
    "licence": ReferenceField(_text, "licence of the source"),
    "address": ReferenceField(
        _address, "https:// address, pinned to a commit where there is one", True
    ),
    "read": ReferenceField(_day, "day on which it was read", True),
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
    lines = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        header = next(lines, None)
        _check_header(header, where)
        references: dict[Reference, int] = {}
        for fields in lines:
            at = f"{where}, line {lines.line_num}"
            if not fields:
                continue
            reference = _reference(header or [], fields, at)
            if reference in references:
                raise UserError(f"{at} is the same as line {references[reference]}; remove one")
            references[reference] = lines.line_num
            if len(references) > MOST_LINES:
                raise UserError(f"{where} has more than {MOST_LINES} lines; split it")
    except csv.Error as error:
        raise UserError(
            f"{where}, line {lines.line_num} is not valid CSV: {error}; quote a field that has a"
            " comma or a quotation mark"
        ) from None
    if not references:
        raise UserError(f"{where} has no figure; write one line below the column names for each")
    return list(references)


def _check_header(header: Sequence[str] | None, where: str) -> None:
    if not header:
        raise UserError(f"{where} is empty; its first line has the column names: {_required()}")
    for name in header:
        if name not in COLUMNS:
            raise UserError(
                f"{where}, line 1: there is no column {printable(name)[:60]!r}"
                f"{nearest(name, COLUMNS)}; the columns are {', '.join(COLUMNS)}"
            )
        if header.count(name) > 1:
            raise UserError(f"{where}, line 1: the column {name} is there twice; remove one")
    for name, column in COLUMNS.items():
        if column.required and name not in header:
            raise UserError(
                f"{where}, line 1: the column {name} is missing; required: {_required()}"
            )


def _required() -> str:
    return ", ".join(name for name, column in COLUMNS.items() if column.required)


def _reference(header: Sequence[str], fields: Sequence[str], at: str) -> Reference:
    if len(fields) != len(header):
        raise UserError(
            f"{at} has {len(fields)} fields, but line 1 names {len(header)} columns; quote a field"
            " that has a comma"
        )
    values: dict[str, Any] = {}
    for name, field in zip(header, fields, strict=True):
        if not field.strip():
            if COLUMNS[name].required:
                raise UserError(f"{at}: {name} is empty; write {COLUMNS[name].meaning}")
            continue
        try:
            values[name] = COLUMNS[name].read(field.strip())
        except ValueError as error:
            field_text = printable(field)[:60]
            raise UserError(f"{at}: {name} is {field_text!r}; it must be {error}") from None
    reference = Reference(**values)
    _check_whole(reference, at)
    return reference


def _check_whole(reference: Reference, at: str) -> None:
    """Refuse what no single field shows."""
    needed = {"samples_per_s": ("tokens_per_sample",)}
    step = ("global_batch_size", "tokens_per_sample")
    for name in needed.get(reference.unit, step if reference.unit.startswith("step_time") else ()):
        if getattr(reference, name) is None:
            raise UserError(
                f"{at}: a figure in {reference.unit} needs {name} to become tokens/s; fill it in"
            )
    active, total = reference.active_parameters_b, reference.parameters_b
    if active is not None and (total is None or active > total):
        raise UserError(f"{at}: active_parameters_b must not exceed parameters_b; fill in both")
    printed = [float(number.replace(",", "")) for number in _NUMBER.findall(reference.quoted)]
    if reference.figure not in printed:
        raise UserError(
            f"{at}: quoted has no {reference.figure:g}; quote the figure as its source prints it"
        )
