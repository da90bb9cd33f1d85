"""What of a campaign ran, and what of that its matrix names no more: kept, and not shown."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from runner.base.text import some
from runner.folder import names
from runner.terms.settings import Settings


@dataclass(frozen=True)
class Hidden:
    """How much of a campaign is kept and not shown: `cells` by their names, and all their `runs`.

    Runs are repeats that ran; `repeats` of them are of cells that the matrix still names.
    """

    cells: tuple[str, ...] = ()
    runs: int = 0
    repeats: int = 0

    @property
    def words(self) -> str:
        """Say it in a line; nothing where nothing is hidden."""
        if not self.runs:
            return ""
        what = [f"{_count(len(self.cells), 'cell')} ({some(self.cells)})"] if self.cells else []
        what += [f"{_count(self.repeats, 'repeat')} of other cells"] if self.repeats else []
        return (
            f"hidden: {_count(self.runs, 'run')} that the matrix names no more,"
            f" {' and '.join(what)}; kept, and shown again where it names them"
        )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def hidden_of(campaign: Path, settings: Settings) -> Hidden:
    """Count what is hidden of a campaign, by the folders of its runs."""
    cells = {cell.name: repeats_that_ran(campaign, cell.id) for cell in settings.hidden}
    left_out = set(settings.left_out)
    others = [repeats_that_ran(campaign, cell.id) for cell in settings.cells] if left_out else []
    repeats = sum(len(ran & left_out) for ran in others)
    return Hidden(tuple(cells), sum(map(len, cells.values())) + repeats, repeats)


def repeats_that_ran(campaign: Path, cell_id: str) -> set[int]:
    """Return the numbers of a cell's repeats that ever ran."""
    return _numbers((campaign / cell_id).glob("repeat*/attempt*"))


def ran(campaign: Path) -> dict[str, int]:
    """Map the ids of the cells that ever ran to the last of their repeats that did."""
    cells = {path.parents[1].name for path in campaign.glob(names.ATTEMPTS)}
    last = {cell_id: max(repeats_that_ran(campaign, cell_id), default=0) for cell_id in cells}
    return {cell_id: number for cell_id, number in last.items() if number}


def _numbers(attempts: Iterable[Path]) -> set[int]:
    found = (re.fullmatch(r"repeat(\d{1,9})", path.parent.name) for path in attempts)
    return {int(match[1]) for match in found if match}
