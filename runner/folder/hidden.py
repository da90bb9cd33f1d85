"""What of a campaign ran, and what of that its matrix no longer names: kept, and not shown."""

import re
from dataclasses import dataclass
from pathlib import Path

from runner.base.text import listing
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.terms.settings import Settings


@dataclass(frozen=True)
class Hidden:
    """How much of a campaign is kept and not shown: `cells` by their names, and all their `runs`.

    Runs are repeats that ran; `repeats` of them are of cells that the matrix still names. `queued`
    counts those that may still go on in a queue, which nobody follows.
    """

    cells: tuple[str, ...] = ()
    runs: int = 0
    repeats: int = 0
    queued: int = 0

    @property
    def words(self) -> str:
        """Say it in a line; nothing where nothing is hidden."""
        if not self.runs:
            return ""
        counts = (
            [f"{_count(len(self.cells), 'cell')} ({listing(self.cells)})"] if self.cells else []
        )
        counts += [f"{_count(self.repeats, 'repeat')} of other cells"] if self.repeats else []
        end = "; `python -m runner stop --campaign NAME` ends what of them is in the queue"
        return (
            f"hidden: {_count(self.runs, 'run')} not in this matrix any more,"
            f" {' and '.join(counts)}; they stay on disk, and come back with their values"
            f"{end if self.queued else ''}"
        )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def hidden_of(campaign: Path, settings: Settings) -> Hidden:
    """Count what is hidden of a campaign, by the folders of its runs."""
    cells = [
        campaign / cell.id / f"repeat{number}"
        for cell in settings.hidden
        for number in repeats_that_ran(campaign, cell.id)
    ]
    left_out = set(settings.left_out)
    hidden_repeats = [
        campaign / cell.id / f"repeat{number}"
        for cell in (settings.cells if left_out else ())
        for number in repeats_that_ran(campaign, cell.id) & left_out
    ]
    return Hidden(
        cells=tuple(cell.name for cell in settings.hidden),
        runs=len(cells) + len(hidden_repeats),
        repeats=len(hidden_repeats),
        queued=sum(map(_in_queue, (*cells, *hidden_repeats))),
    )


def _in_queue(repeat: Path) -> bool:
    """Return whether an attempt of a repeat was handed over and, by these files, has not ended."""
    return any(
        RunFolder(path).queue_has_it and not (path / names.OUTCOME).exists()
        for path in repeat.glob("attempt*")
    )


def repeats_that_ran(campaign: Path, cell_id: str) -> set[int]:
    """Return the numbers of a cell's repeats that ever ran."""
    attempts = (campaign / cell_id).glob("repeat*/attempt*")
    matches = (re.fullmatch(r"repeat(\d{1,9})", path.parent.name) for path in attempts)
    return {int(match[1]) for match in matches if match}


def ran(campaign: Path) -> dict[str, int]:
    """Map the ids of the cells that ever ran to the last of their repeats that did."""
    cells = {path.parents[1].name for path in campaign.glob(names.ATTEMPTS)}
    last_repeats = {
        cell_id: max(repeats_that_ran(campaign, cell_id), default=0) for cell_id in cells
    }
    return {cell_id: number for cell_id, number in last_repeats.items() if number}
