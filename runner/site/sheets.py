"""Tables of a site's pages as data for templates/site/macros.html.j2. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from node.printable import printable
from runner.history.cell_points import Point
from runner.tables.catalogue.every_column import COLUMNS
from runner.tables.formatting import MISSING, number_text, value_text


@dataclass(frozen=True)
class PageColumn:
    """A column: `number` ones stand right and sort by value; `filtered` ones can be chosen."""

    key: str
    title: str
    number: bool = False
    filtered: bool = False


@dataclass(frozen=True)
class PageCell:
    """A cell: its text, the value that it sorts by, a class, where it leads; a status is a pill."""

    text: str
    value: str | float | None = None
    kind: str = ""
    href: str = ""
    status: bool = False


@dataclass(frozen=True)
class PageRow:
    """A row; a `faint` one has figures that do not count."""

    cells: Sequence[PageCell]
    id: str = ""
    faint: bool = False


@dataclass(frozen=True)
class PageSheet:
    """A table of a page; `interactive` ones sort and filter by the page's script, which shows the
    first `most` rows until a person asks for all.
    """

    id: str
    label: str
    columns: Sequence[PageColumn]
    rows: Sequence[PageRow] = field(default_factory=list)
    interactive: bool = True
    most: int = 200


def figure(point: Point, quantity: str, href: str = "") -> PageCell:
    """Return a figure of a point."""
    value = point.figure(quantity)
    if value is None:
        return PageCell(MISSING, "", "number")
    return PageCell(number_text(value, COLUMNS[quantity].decimals), value, "number", href)


def with_interval(point: Point, quantity: str, href: str = "") -> PageCell:
    """Return a figure with the larger half of its 95 % interval in percent."""
    cell, interval = figure(point, quantity, href), point.interval(quantity)
    value = point.figure(quantity)
    if interval is None or not value:
        return cell
    half = max(value - interval[0], interval[1] - value) / value * 100
    return PageCell(f"{cell.text} ±{half:.1f}%", value, "number", href)


def text_cell(text: object, kind: str = "", href: str = "") -> PageCell:
    """Return a text."""
    return PageCell(printable(str(text)) or MISSING, None, kind, href)


def status(point: Point) -> PageCell:
    """Return how a point's cell ended."""
    return PageCell(printable(str(point.row["status"])), status=True)


def why_not(point: Point) -> str:
    """Say what speaks against a point's figures, or why it has none."""
    row = point.row
    parts = [str(row["reason"])] if row.get("reason") else []
    if point.finished:
        parts += [f"{code}: {why}" for code, why in row.get("verdict_reasons", {}).items()]
    return "; ".join(parts)


def axes(point: Point) -> Mapping[str, Any]:
    """Return the axes of a point's cell, except the system's."""
    return {name: v for name, v in point.row.get("axes", {}).items() if name != "system"}


def axis_cell(point: Point, name: str) -> PageCell:
    """Return a point's value of an axis, or of the parameter of that name."""
    sources = point.row.get("axes", {}), point.row.get("parameters", {}), point.row
    value = next((source[name] for source in sources if name in source), None)
    if value is None:
        return PageCell(MISSING)
    text = value_text(value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return PageCell(text, value if number else None, "number" if number else "spread")
