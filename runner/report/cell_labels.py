"""What cells are called on a page: the values in which they differ, short. Pure."""

import re
from collections import Counter
from collections.abc import Sequence

from node.printable import printable
from runner.report.groups import axes_of
from runner.tables.row import Row

BETWEEN = " · "
_UNNAMED = ("true", "false", "on", "off", "yes", "no", "none", "null")
_NUMBER = re.compile(r"[-+]?\d[\d.]*(e[-+]?\d+)?", re.IGNORECASE)


def labels(table: Sequence[Row]) -> list[str]:
    """Name each row by the axes in which the rows differ: `345M · nanoGPT · zero_stage 1`.

    A value that is not a word is named with its axis. Rows that no axes distinguish have their
    cells' names, and their campaigns' where two cells have one name.
    """
    axes = axes_of(table)
    names = dict.fromkeys(name for cell_axes in axes for name in cell_axes)
    varying = [name for name in names if len({cell_axes.get(name) for cell_axes in axes}) > 1]
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
