"""What bench, rerun and doctor ask of what starts their runs; launch/engines.py chooses one."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from runner.folder.attempt import RunFolder
from runner.folder.lock import HeldFolder
from runner.terms.cell import Cell
from runner.terms.orders import Orders


class Engine(Protocol):
    """Starts runs on the nodes of a cluster, and asks these what they have.

    `cancelled` says that the user does not wait for the nodes any more.
    """

    @property
    def at_once(self) -> int:
        """How many runs may go on side by side: 1, or `run` is called from as many threads."""

    def claimed(self, cells: Sequence[Cell], campaign: Path) -> AbstractContextManager[None]:
        """Hold what a campaign's cells need while the block lasts.

        Raises UserError where another bench has it.
        """

    def inspect(
        self,
        hosts: Sequence[str],
        paths: Mapping[str, str],
        folder: Path,
        cancelled: Callable[[], bool],
    ) -> None:
        """Leave what each host is, and its JSON files `paths` (name to path), in `folder`.

        A host that is out of reach is said there, too. Raises UserError where none could be asked,
        KeyboardInterrupt where it was cancelled.
        """

    def run(
        self, folder: HeldFolder, run: RunFolder, orders: Orders, cancelled: Callable[[], bool]
    ) -> str:
        """Carry out what run.json of a held folder's run orders, until it has ended on each node.

        Leaves logs and endings in the run's folder; ends everywhere once there is a `halt`. Returns
        the engine's own words, for where the nodes said nothing. A run that `goes_on` is followed,
        and nothing of it is started twice.
        """

    def goes_on(self, run: RunFolder) -> bool:
        """Say whether a run without an outcome was handed over, so that `run` can follow it."""

    def waiting(self, run: RunFolder) -> str:
        """Say what a run that has not begun waits for: `queued, 3rd, Priority, expected 12:40`.

        Nothing of one that goes on, or waits for nothing. Asks nobody: views call it all the time.
        """
