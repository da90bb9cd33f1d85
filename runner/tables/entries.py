"""What a table of a document's shape may hold: our rows and published ones, alike to ask.

Pure. An *entry* answers for numbers by their machine names and for keys (axes, parameters, sizes,
labels), whichever of the two it is.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from node.printable import printable
from runner.matrix.published import Printed, PublishedRow
from runner.tables.baseline import difference
from runner.tables.formatting import MISSING, decimals, difference_text, number_text, value_text
from runner.tables.row import Row, RowDifference, facts, finished

PUBLISHED = "published"
PRINTED_OTHERWISE = "¶"
# Decimals of percent that documents print, and half a unit of it: what rounding may hide.
_HALF = 0.05 + 1e-9


@dataclass(frozen=True)
class Entry:
    """One of our rows, or one of a document's. `number` counts our rows from 1.

    `beside` is the counterpart, where there is one: a document's row has our cell's sizes
    where it does not give them, and our row goes into the document's table.
    """

    row: Row | None = None
    published: PublishedRow | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    number: int = 0
    beside: Row | PublishedRow | None = None

    @property
    def status(self) -> str:
        """How our runs ended, or "published"."""
        return self.row["status"] if self.row else PUBLISHED

    @property
    def source(self) -> str | None:
        """The document, of a published one."""
        return self.published.source if self.published else None

    @property
    def name(self) -> str:
        """For notes."""
        if self.row:
            return printable(self.row["cell"])
        labels = self.published.labels if self.published else {}
        label = next((labels[key] for key in ("test_num", "name") if key in labels), "")
        return label or ", ".join(labels.values()) or PUBLISHED

    def figure(self, key: str) -> float | None:
        """Return a number by its machine name; what a run that did not end ok has is not one."""
        if self.published is not None:
            return self.published.figures.get(key)
        if self.row is None or not finished(self.row):
            return None
        value = self.row["figures"].get(key)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def value(self, key: str) -> Any:
        """Return a label, axis, parameter or size, or None."""
        if self.row is not None:
            if key in self.labels:
                return self.text(key)
            if key == "table" and isinstance(self.beside, PublishedRow):
                return self.beside.labels.get(key)
            return facts(self.row).get(key)
        assert self.published is not None
        values = facts(self.beside) if isinstance(self.beside, dict) else {}
        values |= self.published.cell or {}
        return self.published.labels.get(key, values.get(key))

    def text(self, label: str) -> str | None:
        """Return a label: the document's, or ours with the keys in braces filled in; None: not
        given.
        """
        if self.published is not None:
            return self.published.labels.get(label)
        template = self.labels.get(label)
        if template is None or self.row is None:
            return None
        fields = {**facts(self.row), "number": self.number, "cell": self.row["cell"]}

        def fill(match: re.Match[str]) -> str:
            return value_text(fields[match[1]]) if match[1] in fields else match[0]

        return printable(re.sub(r"\{(\w+)\}", fill, template))


def entries(
    table: Sequence[Row], published: Sequence[PublishedRow], labels: Mapping[str, str]
) -> list[Entry]:
    """List ours in their order, each after the documents' rows that are its counterparts.

    A document's row without a counterpart goes with the next of its rows that does, so that a
    competitor stays where the document has it; the rest comes last, in the documents' order.
    """
    row_facts = [facts(row) for row in table]
    beside = [
        next((index for index, cell in enumerate(row_facts) if document.stands_beside(cell)), None)
        for document in published
    ]
    placed: list[tuple[int, int, Entry]] = []
    following = len(table)
    for index_published in reversed(range(len(published))):
        index = beside[index_published]
        following = following if index is None else index
        neighbour = None if index is None else table[index]
        placed.append(
            (following, index_published, Entry(None, published[index_published], beside=neighbour))
        )
    for index, row in enumerate(table):
        document = next((d for d in published if d.stands_beside(row_facts[index])), None)
        placed.append((index, len(published), Entry(row, None, labels, index + 1, document)))
    return [entry for _, _, entry in sorted(placed, key=lambda item: item[:2])]


def split_by(
    listed: Sequence[Entry], keys: Sequence[str]
) -> dict[tuple[tuple[str, str], ...], list[Entry]]:
    """Split the entries by their values of `keys`, in the order first seen."""
    groups: dict[tuple[tuple[str, str], ...], list[Entry]] = {}
    for entry in listed:
        values = ((key, entry.value(key)) for key in keys)
        name = tuple((key, value_text(value)) for key, value in values if value is not None)
        groups.setdefault(name, []).append(entry)
    return groups


def title(name: Sequence[tuple[str, str]], default: str) -> str:
    """Name a split table."""
    titles = dict(name)
    if set(titles) == {"nodes", "devices_per_node"}:
        return " x ".join(
            f"{titles[key]} {word}{'' if titles[key] == '1' else 's'}"
            for key, word in (("nodes", "node"), ("devices_per_node", "device"))
        )
    return ", ".join(v if k == "table" else f"{k} {v}" for k, v in name) or default


def difference_of(ours: float | None, base: float | None) -> RowDifference | None:
    """Subtract the baseline's figure from ours; also in percent of it."""
    return difference(ours, base) if ours is not None and base else None


def deviation(printed: Printed, computed: RowDifference) -> list[str]:
    """List what a document printed that its own figures do not give, beyond rounding; [] is
    right.
    """
    wrong = []
    if printed.difference is not None and abs(printed.difference - computed["absolute"]) > 0.5:
        wrong.append(f"{printed.difference:+g} (its figures give {computed['absolute']:+g})")
    if printed.percent is not None and abs(printed.percent - computed["percent"]) > _HALF:
        wrong.append(f"{printed.percent:+.1f} % (its figures give {computed['percent']:+.1f} %)")
    return wrong


def with_difference(value: float | None, change: RowDifference | None, places: int | None) -> str:
    """Write a figure as document 003 does: `3849(-1754,↓31.3%)`."""
    text = number_text(value, places)
    if value is None or change is None:
        return text
    digits = places if places is not None else decimals(value)
    return f"{text}({difference_text(change['absolute'], change['percent'], digits)})"


def document_number(value: float | None, places: int | None = None) -> str:
    """Write a number as documents print them: no more digits than it has."""
    if value is None:
        return MISSING
    return (
        f"{value:g}" if places is None and value == round(value, 3) else number_text(value, places)
    )
