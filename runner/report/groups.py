"""Cells in groups that one plot can show: seven curves can be distinguished, forty cannot. Pure.

Cells are grouped by as few of their axes as give groups of at most `most` members: one panel each,
titled by those axes, its curves named by the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from runner.report.svg import SERIES
from runner.tables.formatting import axis_text
from runner.tables.row import Row, axis_names

MOST_CURVES = len(SERIES)  # curves in one plot, each in a colour of its own
MOST_PANELS = 12  # of one quantity; what is beyond is counted, not drawn
_MOST_AXES = 3


@dataclass(frozen=True)
class Group:
    """Some of the cells: their places, what they share, and what each is called among them."""

    label: str
    members: tuple[int, ...]
    names: tuple[str, ...]


def axes_of(table: Sequence[Row]) -> list[dict[str, str]]:
    """Return each row's axes as text, by which rows are grouped and named.

    The system is not among them where the matrix names other axes that tell all rows apart.
    """
    names = axis_names(table)
    others = [name for name in names if name != "system"]
    values = [tuple(axis_text(row, name) for name in others) for row in table]
    names = others if others and len(set(values)) == len(values) else names
    return [
        {name: text for name in names if (text := axis_text(row, name)) is not None}
        for row in table
    ]


def groups(axes: Sequence[Mapping[str, str]], most: int = MOST_CURVES) -> list[Group]:
    """Group cells by their axes (name to text), in their order; one group without a label
    if few.
    """
    varying = [
        name
        for name in dict.fromkeys(name for cell_axes in axes for name in cell_axes)
        if len({cell_axes.get(name) for cell_axes in axes}) > 1
    ]
    best: dict[tuple[str | None, ...], list[int]] | None = None
    by: tuple[str, ...] = ()
    for count in range(min(len(varying), _MOST_AXES) + 1):
        for names in combinations(varying, count):
            places_by_values: dict[tuple[str | None, ...], list[int]] = {}
            for index, cell_axes in enumerate(axes):
                places_by_values.setdefault(
                    tuple(cell_axes.get(name) for name in names), []
                ).append(index)
            small = max(map(len, places_by_values.values()), default=0) <= most
            useful = len(places_by_values) <= max(len(axes) / 2, 1)  # not one plot for each cell
            if small and useful and (best is None or len(places_by_values) < len(best)):
                best, by = places_by_values, names
        if best is not None:
            break
    if best is None:
        return [
            _group(_numbered(places), axes, places, varying)
            for begin in range(0, len(axes), most)
            for places in [range(begin, min(begin + most, len(axes)))]
        ]
    # An axis that tells no two members of any group apart would only make names longer.
    remaining = [
        name
        for name in varying
        if any(len({axes[index].get(name) for index in places}) > 1 for places in best.values())
    ]
    return [
        _group(_axes_text(axes[places[0]], by), axes, places, remaining)
        for places in best.values()
        if places
    ]


def _numbered(places: Sequence[int]) -> str:
    begin, end = places[0] + 1, places[-1] + 1
    return f"cell {begin}" if begin == end else f"cells {begin} to {end}"


def _group(
    label: str, axes: Sequence[Mapping[str, str]], places: Sequence[int], names: Sequence[str]
) -> Group:
    member_names = [_axes_text(axes[index], names) or label for index in places]
    return Group(label, tuple(places), tuple(member_names))


def _axes_text(axes: Mapping[str, str], names: Sequence[str]) -> str:
    return ", ".join(f"{name} {axes[name]}" for name in names if name in axes)


def colours(drawn: Sequence[Group]) -> dict[str, int] | None:
    """Give each name a colour, if the same few names are in all groups; None: by their places."""
    names = dict.fromkeys(name for group in drawn for name in group.names)
    return (
        {name: index for index, name in enumerate(names)} if len(names) <= 2 * MOST_CURVES else None
    )
