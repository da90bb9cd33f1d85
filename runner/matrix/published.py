"""What a document printed, beside what we measure: the `published` list of a matrix. Pure.

    published:                        # a list, or the name of a file that holds it
      - source: "DLPerf 945014ce, OneFlow/Megatron-LM/README.md"
        hardware: 8x Tesla V100-SXM2-16GB a node
        labels: {date: 20201208}      # texts that all its rows share, by a shape's own columns
        baseline: {optimization: off} # the rows that the document's differences are against
        rows:
          - cell: {nodes: 1, optimization: on}   # the cells to compare with; every key counts
            ours: false               # no cell of the matrix has these values, and none need have
            labels: {test_num: test-10-2}
            samples_per_s: 89         # figures by our columns' names, in their units
            printed: {samples_per_s: {percent: -14.4}}   # a difference as the document printed it

A row without `cell` stands by itself: a competitor that nobody here runs. A difference that the
document printed is kept and shown; what its own figures give is computed beside it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runner.base.errors import UserError
from runner.base.suggest import alike, comparable, nearest
from runner.terms.memory import MEMORY

# Figures that a document may give, as the machine columns name them; `steps` are the iterations
# that it says it trained.
FIGURES = (
    "samples_per_s",
    "tokens_per_s",
    "step_time_ms",
    "model_tflop_per_s_per_device",
    *MEMORY,
    "utilisation_percent",
    "final_loss",
    "perplexity",
    "steps",
)
_DOCUMENT_KEYS = ("source", "hardware", "labels", "baseline", "rows")
_ROW_KEYS = ("cell", "ours", "labels", "printed", *FIGURES)
_PARTS = ("difference", "percent")
MOST_ROWS = 1_000  # of all documents of a matrix


@dataclass(frozen=True)
class Printed:
    """A difference as the document printed it; None: that part it did not print."""

    difference: float | None = None
    percent: float | None = None


@dataclass(frozen=True)
class PublishedRow:
    """One row of a document's table. `is_baseline`: the document's differences are against it."""

    source: str
    hardware: str = ""
    cell: Mapping[str, Any] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    printed: Mapping[str, Printed] = field(default_factory=dict)
    baseline: Mapping[str, Any] | None = None

    @property
    def is_baseline(self) -> bool:
        """Whether its own document compares with it."""
        return bool(self.baseline) and all(
            key in (self.cell or {}) and alike((self.cell or {})[key], value)
            for key, value in (self.baseline or {}).items()
        )

    def stands_beside(self, facts: Mapping[str, Any]) -> bool:
        """Return whether a cell with these facts (axes, parameters, sizes) is the one that it is
        about.
        """
        return self.cell is not None and all(
            key in facts and alike(facts[key], value) for key, value in self.cell.items()
        )


def base_of(row: PublishedRow, rows: Sequence[PublishedRow]) -> PublishedRow | None:
    """Find the row that the document compares this one with: the same cell except for the
    baseline's keys.

    None where there is not exactly one, or where it is the row itself.
    """
    if row.baseline is None or row.cell is None or row.is_baseline:
        return None
    facts = {**row.cell, **row.baseline}
    bases = [
        candidate
        for candidate in rows
        if candidate.is_baseline
        and candidate.source == row.source
        and candidate.cell is not None
        and set(candidate.cell) == set(facts)
        and all(alike(candidate.cell[key], value) for key, value in facts.items())
    ]
    return bases[0] if len(bases) == 1 else None


def published_rows(documents: Sequence[Mapping[str, Any]]) -> list[PublishedRow]:
    """Build the rows of documents that were checked (or that campaign.json has kept)."""
    built = []
    for document in documents:
        shared = {key: _text(value) for key, value in (document.get("labels") or {}).items()}
        for row in document["rows"]:
            labels = {key: _text(value) for key, value in (row.get("labels") or {}).items()}
            built.append(
                PublishedRow(
                    source=document["source"],
                    hardware=document.get("hardware") or "",
                    cell=row.get("cell"),
                    labels={**shared, **labels},
                    figures={name: float(row[name]) for name in FIGURES if name in row},
                    printed={
                        name: Printed(**parts) for name, parts in (row.get("printed") or {}).items()
                    },
                    baseline=document.get("baseline"),
                )
            )
    return built


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class _Cells:
    """The facts of a matrix's cells, by key and value: each row looks there, not at each cell."""

    def __init__(self, cells: Sequence[Mapping[str, Any]]) -> None:
        # Key to value to the cells that have it, as bits.
        self._having: dict[str, dict[str | float, int]] = {}
        self._written: dict[str, dict[str, None]] = {}
        for number, facts in enumerate(cells):
            for key, value in facts.items():
                having = self._having.setdefault(key, {})
                same = comparable(value)
                having[same] = having.get(same, 0) | 1 << number
                self._written.setdefault(key, {})[str(value)] = None

    def check(self, cell: Mapping[str, Any], where: str) -> None:
        """Refuse a row that would silently stand nowhere."""
        common = -1
        for key, value in cell.items():
            if key not in self._having:
                hint = nearest(key, self._having)
                raise UserError(f"{where}: cell: no cell has the key {key!r}{hint}")
            if comparable(value) not in self._having[key]:
                names = list(self._written[key])
                raise UserError(
                    f"{where}: cell: no cell has {key}: {value}{nearest(str(value), names)}; values"
                    f" are {', '.join(names)} (`ours: false` for a row that no cell here stands"
                    " for)"
                )
            common &= self._having[key][comparable(value)]
        if not common:
            raise UserError(
                f"{where}: cell: no cell has all of"
                f" {', '.join(f'{k}: {v}' for k, v in cell.items())};"
                " add the cell, or `ours: false` for a row that no cell here stands for"
            )


def check_published(
    value: Any, where: str, cells: Sequence[Mapping[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """Check the documents as plain data. Raises UserError that names the row, the key and the cure.

    `cells` are the facts of a matrix's cells, which each row with a `cell` must meet; None where
    there is no matrix.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise UserError(f"{where}: published must be a list of documents, or name a file beside it")
    by_facts = None if cells is None else _Cells(cells)
    documents = [
        _document(document, f"{where}: published {number}", by_facts)
        for number, document in enumerate(value, 1)
    ]
    if sum(len(document["rows"]) for document in documents) > MOST_ROWS:
        raise UserError(f"{where}: published has more than {MOST_ROWS} rows; leave some out")
    return documents


def _document(document: Any, where: str, cells: _Cells | None) -> dict[str, Any]:
    _keys(document, _DOCUMENT_KEYS, where)
    source = document.get("source")
    if not isinstance(source, str) or not source.strip():
        raise UserError(f"{where} has no source; say which document printed the figures, and where")
    hardware = document.get("hardware")
    if hardware is not None and not isinstance(hardware, str):
        raise UserError(f"{where}: hardware is {hardware!r}; write it as text")
    rows = document.get("rows")
    if not isinstance(rows, list) or not rows:
        raise UserError(f"{where} has no rows; list them under `rows`, one per line with `- `")
    _mapping(document.get("labels"), f"{where}: labels")
    _mapping(document.get("baseline"), f"{where}: baseline")
    for number, row in enumerate(rows, 1):
        _row(row, f"{where}: row {number}", cells)
    return dict(document)


def _row(row: Any, where: str, cells: _Cells | None) -> None:
    _keys(row, _ROW_KEYS, where)
    _mapping(row.get("labels"), f"{where}: labels")
    cell = row.get("cell")
    _mapping(cell, f"{where}: cell")
    if not isinstance(row.get("ours", True), bool):
        raise UserError(f"{where}: ours is {row['ours']!r}; it must be true or false")
    figures = [name for name in FIGURES if name in row]
    if not figures:
        raise UserError(f"{where} has no figure; give at least one of {', '.join(FIGURES)}")
    for name in figures:
        _number(row[name], f"{where}: {name}", positive=True)
    printed = row.get("printed") or {}
    _mapping(printed, f"{where}: printed")
    for name, parts in printed.items():
        if name not in figures:
            raise UserError(f"{where}: printed: the row has no figure {name!r}")
        _keys(parts, _PARTS, f"{where}: printed: {name}")
        for name_of_number, number in parts.items():
            _number(number, f"{where}: printed: {name}: {name_of_number}", positive=False)
    if cell and cells is not None and row.get("ours", True):
        cells.check(cell, where)


def _keys(value: Any, allowed: Sequence[str], where: str) -> None:
    if not isinstance(value, dict):
        raise UserError(f"{where} must be a mapping with keys of {', '.join(allowed)}")
    for key in value:
        if key not in allowed:
            hint = nearest(str(key), allowed)
            raise UserError(f"{where}: unknown key {key!r}{hint}; keys are {', '.join(allowed)}")


def _mapping(value: Any, where: str) -> None:
    if value is not None and not isinstance(value, dict):
        raise UserError(f"{where} must be a mapping of keys to values")
    for key, item in (value or {}).items():
        if not isinstance(key, str):
            raise UserError(f"{where}: the key {key!r} is not text; quote it")
        if isinstance(item, dict | list) and not where.endswith("printed"):
            raise UserError(f"{where}: {key} must be one value, not {type(item).__name__}")


def _number(value: Any, where: str, *, positive: bool) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or (positive and value <= 0):
        kind = "a number above zero" if positive else "a number"
        raise UserError(f"{where} is {value!r}; it must be {kind} (leave out what is not printed)")
