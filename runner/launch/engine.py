"""What bench, rerun and doctor ask of what starts their runs. runner/launch/ssh is one."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from runner.folder.attempt import RunFolder
from runner.folder.lock import HeldFolder
from runner.terms.cluster import Node
from runner.terms.orders import Orders


class Engine(Protocol):
    """Starts runs on the nodes of a cluster, and asks these what they have.

    `cancelled` says that the user does not wait for the nodes any more.
    """

    def claimed(self, nodes: Sequence[Node], campaign: Path) -> AbstractContextManager[None]:
        """Hold the nodes for a campaign's folder. Raises UserError where another bench has one."""

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
        """Return carry out what run.json of a held folder's run orders, until it has ended on each
        node.

        Leaves logs and endings in the run's folder; ends everywhere once there is a `halt`. Returns
        the engine's own words, for where the nodes said nothing.
        """
