"""One cluster for a run of the suite: pytest's workers borrow its nodes, a test at a time.

The process that runs the suite owns the clusters, whichever worker brings them up: a worker that
dies takes none with it, and what a killed run leaves is removed by the next ``up``.  Who holds the
lock of a node's file has the node; the kernel takes it back from a worker that died.  The file says
whether the node was healed since.
"""

import fcntl
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from time import sleep
from typing import TypeVar

from . import registry
from .cluster import Cluster, remove
from .node import Node
from .slurm import SlurmCluster

NODES = 4
POLL_S = 0.05
T = TypeVar("T")


class Lock:
    """A lock that workers share, and a mark in its file that outlives them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIOWrapper | None = None

    def taken(self, *, wait: bool) -> bool:
        """Take it; False where another worker has it and we shall not wait."""
        file = self._path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            file.close()
            return False
        self._file = file
        return True

    @property
    def marked(self) -> bool:
        """Whether its last holder left a mark."""
        return self._path.stat().st_size > 0

    def mark(self) -> None:
        """Leave a mark, until ``unmark``."""
        self._path.write_text("in use")

    def unmark(self) -> None:
        """Take the mark away."""
        self._path.write_text("")

    def release(self) -> None:
        """Let others have it."""
        assert self._file is not None
        self._file.close()
        self._file = None


@contextmanager
def _untimed() -> Iterator[None]:
    """What others take of their time is not taken of ours: pytest-timeout's alarm waits."""
    left_s, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        if left_s:
            signal.setitimer(signal.ITIMER_REAL, left_s)


@dataclass
class Loan:
    """Nodes of the run's cluster, which no other test has meanwhile."""

    cluster: Cluster
    nodes: list[Node]
    locks: list[Lock]

    def give_back(self) -> list[str]:
        """Undo every fault and kill what still runs; returns what was left running, in words."""
        try:
            left = self.cluster.heal(self.nodes)
            for lock in self.locks:
                lock.unmark()
        finally:
            for lock in self.locks:
                lock.release()
        return [
            f"{host}: pid {pid}: {' '.join(argv)}"
            for host, processes in left.items()
            for pid, argv in processes
        ]


@dataclass
class Lender:
    """The clusters of one run; ``folder`` is the run's own, the same in each of its workers."""

    folder: Path
    owner: int  # the process that runs the suite

    def lend(self, count: int) -> Loan:
        """So many nodes, once they are free: of any pair, or the first ones where it takes more."""
        # one waits at a time: nobody who needs all is overtaken for ever by those who need a pair
        with _untimed(), self._turn("nodes"):
            cluster = self._standing(f"r{self.owner:x}", self._bring_up, Cluster.load)
            locks = [Lock(self.folder / f"pair{number}") for number in range(NODES // 2)]
            first = 0
            if count > 2:
                locks = locks[: (count + 1) // 2]
                for lock in locks:
                    lock.taken(wait=True)
            else:
                while not locks[first].taken(wait=False):
                    first = (first + 1) % len(locks)
                    sleep(POLL_S)
                locks = [locks[first]]
        loan = Loan(cluster, cluster.nodes[2 * first :][: 2 * len(locks)], locks)
        if any(lock.marked for lock in locks):
            cluster.heal(loan.nodes)  # a worker died with them
        for lock in locks:
            lock.mark()
        return loan

    @contextmanager
    def slurm(self) -> Iterator[SlurmCluster]:
        """The run's Slurm cluster: all of it, for one worker."""
        with ExitStack() as stack:
            with _untimed():
                lock = stack.enter_context(self._turn("slurm"))
            name = f"s{self.owner:x}"
            slurm = self._standing(name, self._bring_slurm_up, SlurmCluster.load)
            if lock.marked:
                slurm.heal()
            lock.mark()
            yield slurm
            lock.unmark()

    @contextmanager
    def _turn(self, name: str) -> Iterator[Lock]:
        lock = Lock(self.folder / name)
        lock.taken(wait=True)
        try:
            yield lock
        finally:
            lock.release()

    def _standing(self, name: str, up: Callable[[str], None], load: Callable[[str], T]) -> T:
        """The cluster, brought up by whoever needs it first."""
        is_up = self.folder / f"{name}.up"
        if not is_up.exists():
            begun = registry.load(name)
            if begun is not None:
                remove(begun)  # by a worker that died over it
            up(name)
            is_up.touch()
        return load(name)

    def _bring_up(self, name: str) -> None:
        Cluster(NODES, name=name, owner=self.owner).up()

    def _bring_slurm_up(self, name: str) -> None:
        SlurmCluster(NODES, name=name, owner=self.owner).up()
