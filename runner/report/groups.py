"""What cells are called on a page, and groups of them that one plot can show. Pure.

Seven curves can be distinguished, forty cannot: cells are grouped by as few of their axes as give
groups of at most `most` members, one panel each, titled by those axes, its curves named by the
others.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from node.printable import printable
from runner.report.svg import SERIES
from runner.tables.formatting import axis_text
from runner.tables.row import Row, axis_names

BETWEEN = " · "
_UNNAMED = ("true", "false", "on", "off", "yes", "no", "none", "null")
_NUMBER = re.compile(r"[-+]?\d[\d.]*(e[-+]?\d+)?", re.IGNORECASE)
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


def varying_of(axes: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the axes in which cells differ."""
    names = dict.fromkeys(name for cell_axes in axes for name in cell_axes)
    return [name for name in names if len({cell_axes.get(name) for cell_axes in axes}) > 1]


def labels(table: Sequence[Row]) -> list[str]:
    """Name each row by the axes in which the rows differ: `345M · nanoGPT · zero_stage 1`.

    A value that is not a word is named with its axis. Rows that no axes distinguish have their
    cells' names, and their campaigns' where two cells have one name.
    """
    axes = axes_of(table)
    varying = varying_of(axes)
    cell_labels = [_label(cell_axes, varying) for cell_axes in axes]
    if varying and len(set(cell_labels)) == len(cell_labels):
        return cell_labels
    often = Counter(row["cell"] for row in table)
    return [
        printable(name if often[name] == 1 else f"{name} of {row['campaign']}")
        for row in table
        for name in [row["cell"]]
    ]


def _label(axes: dict[str, str], names: Sequence[str]) -> str:
    return BETWEEN.join(
        text if _is_word(text) else f"{name} {text}"
        for name in names
        if (text := axes.get(name)) is not None
    )


def _is_word(text: str) -> bool:
    """Whether a value says by itself what it is of: 345M, nanoGPT; not 4, 0.1, true."""
    return text not in _UNNAMED and any(map(str.isalpha, text)) and not _NUMBER.fullmatch(text)


def groups(axes: Sequence[Mapping[str, str]], most: int = MOST_CURVES) -> list[Group]:
    """Group cells by their axes (name to text), in their order; one group without a label
    if few.
    """
    varying = varying_of(axes)
    for count in range(min(len(varying), _MOST_AXES) + 1):
        splits = {names: _split(axes, names) for names in combinations(varying, count)}
        useful = [
            names
            for names, split in splits.items()
            if max(map(len, split), default=0) <= most
            and len(split) <= max(len(axes) / 2, 1)  # not one plot for each cell
        ]
        if useful:
            by = min(useful, key=lambda names: len(splits[names]))
            # An axis that tells no two members of any group apart would only make names longer.
            remaining = [
                name
                for name in varying
                if any(len({axes[at].get(name) for at in members}) > 1 for members in splits[by])
            ]
            return [
                _group(_axes_text(axes[members[0]], by), axes, members, remaining)
                for members in splits[by]
            ]
    return [
        _group(_numbered(members), axes, members, varying)
        for begin in range(0, len(axes), most)
        for members in [range(begin, min(begin + most, len(axes)))]
    ]


def _split(axes: Sequence[Mapping[str, str]], names: Sequence[str]) -> list[list[int]]:
    members: dict[tuple[str | None, ...], list[int]] = {}
    for at, cell_axes in enumerate(axes):
        members.setdefault(tuple(cell_axes.get(name) for name in names), []).append(at)
    return list(members.values())


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


def places(grouped: Sequence[Group]) -> tuple[dict[int, int], dict[str, int]]:
    """Give each member a colour: by its name, where the same few names are in all groups, which are
    returned then; else by its place in the group.
    """
    names = dict.fromkeys(name for group in grouped for name in group.names)
    by_name = {name: at for at, name in enumerate(names)} if len(names) <= 2 * MOST_CURVES else {}
    return {
        member: by_name.get(name, index)
        for group in grouped
        for index, (member, name) in enumerate(zip(group.members, group.names, strict=True))
    }, by_name
