"""What bench, doctor and stop ask of what starts runs; launch/engines.py makes it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from runner.folder.attempt import RunFolder
from runner.folder.campaign import Campaign
from runner.folder.checkup import Checkup
from runner.folder.lock import HeldFolder
from runner.terms.cell import Cell
from runner.terms.cluster import Cluster
from runner.terms.inspected import Inspected, Sought
from runner.terms.orders import Orders
from runner.terms.run import Run

Stopped = tuple[Sequence[str], Sequence[Campaign]]  # a line for each run, and the campaigns meant
NO_QUEUE = (
    "--submit leaves jobs in a queue: that needs cluster_engine: slurm and slurm_mode: job in the"
    " inventory; with this one use --detach"
)


@dataclass(frozen=True)
class Wanted:
    """What a bench is about to run: a cell for each run, and what one of them may take."""

    cells: Sequence[Cell]
    time_limit_s: float

    @property
    def nodes(self) -> int:
        """The most nodes that one of them has."""
        return max(cell.nodes_held for cell in self.cells)

    @property
    def devices(self) -> int:
        """The most devices of a node that one of them uses."""
        return max(cell.devices_per_node for cell in self.cells)


@dataclass(frozen=True)
class Surveyed:
    """The hosts that doctor asked, and what can be said of those that gave no answer."""

    hosts: Sequence[str]
    words: str = ""


class Engine(Protocol):
    """Starts runs on the nodes of a cluster, and asks these what they have.

    `cancelled` says that the user does not wait for the nodes any more.
    """

    @property
    def at_once(self) -> int:
        """How many runs may go on side by side: 1, or `run` is called from as many threads."""

    def claimed(
        self, wanted: Wanted, campaign: Path, cancelled: Callable[[], bool]
    ) -> AbstractContextManager[None]:
        """Hold what a campaign's cells need while the block lasts.

        Raises UserError where another bench has it, or it cannot be had; KeyboardInterrupt.
        """

    def inspect(
        self,
        hosts: Sequence[str],
        asked: Sought,
        campaign: Campaign,
        cancelled: Callable[[], bool],
    ) -> Mapping[str, Inspected]:
        """Return what the hosts have of what is asked, each by its name.

        Where nodes are known beforehand, the facts of each are in the campaign's folder afterwards,
        also which hosts cannot be reached. Raises UserError where none could be asked,
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

    def hand_over(self, folder: HeldFolder, run: RunFolder, orders: Orders) -> bool:
        """Hand a run to the queue and do not wait for it; False where it refused, as its `halt`
        says.

        Raises UserError where no queue would carry it out without bench.
        """

    def goes_on(self, run: RunFolder) -> bool:
        """Say whether a run without an outcome was handed over, so that `run` can follow it."""

    def by_hand(self, run: Run) -> tuple[str, str]:
        """Return a script by which a person repeats a run without bench: its name, its text."""

    def waiting(self, run: RunFolder) -> str:
        """Say what a run that has not begun waits for: `queued, 3rd, Priority, expected 12:40`.

        Nothing of one that goes on, or waits for nothing. Asks nobody: views call it all the time.
        """


class Surveyor(Engine, Protocol):
    """An engine that answers doctor, dry runs and stop, too."""

    def gathered(self, folder: Path, cancelled: Callable[[], bool]) -> AbstractContextManager[None]:
        """Hold the nodes that doctor asks and measures while the block lasts.

        `folder` is the checkup's. Raises UserError where they cannot be had; KeyboardInterrupt.
        """

    def survey(self, checkup: Checkup, roles: bool, cancelled: Callable[[], bool]) -> Surveyed:
        """Leave in a checkup's folder what each of these nodes is.

        With `roles`, the answers of each role's verify entry are there, too, where nodes are set up
        one by one.
        """

    def preview(
        self, campaign: Campaign, runs: Sequence[Run], repeats: int
    ) -> Iterator[Mapping[str, Any]]:
        """Yield what a scheduler would be given for each run: its `script`, and its `step` if any.

        Nothing without a scheduler. Writes nothing, and asks nobody.
        """

    def stop(self, cancelled: Callable[[], bool]) -> Stopped:
        """End what the cluster still has of campaigns: its nodes, or all campaigns' jobs.

        Nodes that are named by an inventory know of no campaign, and end whatever they run.
        """


class EngineMaker(Protocol):
    """The class of an engine, as the `launcher` of its EngineSettings names it."""

    def __call__(self, cluster: Cluster, runs: Path, /) -> Surveyor:
        """Make the engine of a cluster; `runs` is the folder of all campaigns."""

    def stop_campaigns(
        self, campaigns: Sequence[Campaign], cancelled: Callable[[], bool]
    ) -> Stopped:
        """End the jobs of those campaigns that ever had any, without an inventory."""

    def look_in(self, campaign: Campaign) -> None:
        """Write down where jobs stand that no bench follows; nothing where nobody can say."""
