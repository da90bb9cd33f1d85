"""One run's folder: what was planned, what came back of each node, how it ended."""

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from node.causes import Cause, EndedBy
from node.files import create_once
from runner.base.dataclass_schema import shape
from runner.base.masking import Masks
from runner.folder import names
from runner.folder.endings import Ending
from runner.folder.placement import Placement, Started, Submitted
from runner.folder.queued import Queued
from runner.folder.stored import SCHEMA, UnreadableError, load
from runner.terms.orders import Orders
from runner.terms.outcome import Outcome, Sentence, Time, Word
from runner.terms.record import UNREADABLE
from runner.terms.run import Run

Noun = TypeVar("Noun")


def written_at(path: Path) -> float | None:
    """Return when a file was written (epoch seconds), or None."""
    try:
        return path.stat().st_mtime
    except OSError:
        return None


@dataclass(frozen=True)
class Halt:
    """What ended a run first, when by the clock of who wrote it; `host` is None where the control
    node did.
    """

    cause: Word
    host: Word | None
    message: Sentence
    at: Time | None = None


@dataclass(frozen=True)
class Prepared:
    """What a node noted before the run began that may disturb it, in sentences; by how much its
    clock was ahead of bench's.
    """

    noted: tuple[Sentence, ...] = ()
    clock_offset_s: float | None = None


def clock_ahead_s(node: Path) -> float:
    """Return by how much the clock of a node's folder was ahead; 0 where nobody saw it."""
    try:
        ready: Prepared | None = load(node / names.PREPARED, shape(Prepared))
    except UnreadableError:
        return 0.0
    return (ready.clock_offset_s if ready else None) or 0.0


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run, where bench and the launch plugins of its nodes meet."""

    path: Path

    @property
    def orders(self) -> Orders | None:
        """What run.json orders; None before the launch. Raises UnreadableError."""
        return self._planned(Orders)

    def _planned(self, noun: Callable[..., Noun]) -> Noun | None:
        """Return what run.json says: it is written once, and kept once read."""
        planned: Noun | None = self.__dict__.get("planned")
        if planned is None:
            self._refuse_links(*self._above(), self.path)
            planned = load(self.path / names.RUN, shape(noun), names.RUN)
            self.__dict__["planned"] = planned
        return planned

    def _above(self) -> Iterator[Path]:
        """Yield the folders that contain a run's folder: its cell's, its repeat's."""
        if re.fullmatch(r"attempt\d+", self.path.name) and self.path.parent.name.startswith(
            "repeat"
        ):
            yield from (self.path.parents[1], self.path.parent)

    @staticmethod
    def _refuse_links(*folders: Path) -> None:
        """Refuse a folder of a campaign that is a link, which may show files of somebody else's.

        Files themselves are opened so that no link is followed. Raises UnreadableError.
        """
        for folder in folders:
            if folder.is_symlink():
                raise UnreadableError(f"{folder.name} is a link; put the folder itself there")

    @property
    def hosts(self) -> dict[int, str]:
        """Node rank to host, for the nodes of run.json. Raises UnreadableError.

        Where only the job knew its nodes, these are theirs once it has begun.
        """
        planned, placement = self._planned_hosts, self.placement
        if placement is None or len(placement.host) != len(planned):
            return planned
        return dict(zip(sorted(planned), placement.host, strict=True))

    @property
    def placement(self) -> Placement | None:
        """placement.json; None where the nodes were known, or none has begun."""
        where: Placement | None = self.__dict__.get("placed")
        if where is None:  # it is written once, and kept once read
            try:
                where = load(self.path / names.PLACEMENT, shape(Placement), names.PLACEMENT)
            except UnreadableError:
                return None
            self.__dict__["placed"] = where
        return where

    @property
    def submitted(self) -> Submitted | None:
        """slurm.json; None where the run was handed over to nobody. Raises UnreadableError."""
        submitted: Submitted | None = load(
            self.path / names.SUBMITTED, shape(Submitted), names.SUBMITTED
        )
        return submitted

    @property
    def _planned_hosts(self) -> dict[int, str]:
        hosts: dict[int, str] | None = self.__dict__.get("planned_hosts")
        if hosts is None:  # made once: each of thousands of nodes is asked for by it
            orders = self.orders
            self._refuse_links(self.path / names.NODES)
            hosts = {node.node_rank: node.host for node in orders.nodes} if orders else {}
            self._refuse_links(*(self.path / names.node(*node) for node in hosts.items()))
            if orders:
                self.__dict__["planned_hosts"] = hosts
        return hosts

    def node(self, rank: int) -> Path:
        """Return the folder of what came back of a node of run.json, by the name planned for it."""
        return self.path / names.node(rank, self._planned_hosts[rank])

    def log(self, rank: int) -> Path:
        """Return what the node's launcher printed, stdout and stderr together."""
        return self.node(rank) / names.LOG

    def logs(self) -> dict[int, Path]:
        """Map node ranks to logs, for the nodes of run.json."""
        return {rank: self.log(rank) for rank in self._planned_hosts}

    def started(self, rank: int) -> Started | None:
        """Return what a node's job says that it started; None where the plan says it.

        Raises UnreadableError.
        """
        path = self.node(rank) / names.STARTED
        started: Started | None = load(path, shape(Started), self.inside(path))
        return started

    def inside(self, path: Path) -> str:
        """Return what a file of the run is called in its folder: nodes/0000-n1/launcher.log."""
        return path.relative_to(self.path).as_posix()

    def endings(self) -> dict[str, Ending]:
        """Map hosts to how their launchers ended, for the hosts that said so."""
        endings = {}
        for rank, host in self.hosts.items():
            path = self.node(rank) / names.DONE
            try:
                ending = load(path, shape(Ending), self.inside(path))
            except UnreadableError as error:
                ending = Ending(EndedBy.ERROR, message=str(error), own_cause=Cause.LAUNCH_ERROR)
            if ending is not None:
                endings[host] = ending
        return endings

    def clock_ahead_s(self, rank: int) -> float:
        """Return by how much a node's clock was ahead of bench's; 0 where nobody saw it."""
        return clock_ahead_s(self.node(rank))

    def noted(self) -> tuple[str, ...]:
        """Return what the nodes noted before the run began, each sentence after its host."""
        sentences: list[str] = []
        for rank, host in self.hosts.items():
            with contextlib.suppress(UnreadableError):  # a record that a run does without
                ready: Prepared | None = load(self.node(rank) / names.PREPARED, shape(Prepared))
                sentences += (f"{host}: {note}" for note in (ready.noted if ready else ()))
        return tuple(sentences)

    @property
    def halt(self) -> Halt | None:
        """halt: what ended the run first; None where every node ended by itself."""
        try:
            halt: Halt | None = load(self.path / names.HALT, shape(Halt), names.HALT)
        except UnreadableError as error:
            return Halt(Cause.LAUNCH_ERROR, None, str(error))
        return halt

    @property
    def handed_over(self) -> bool:
        """Whether a queue was given it."""
        return (self.path / names.SUBMITTED).exists()

    @property
    def over(self) -> bool:
        """Whether each node of a run that was handed over has said how it ended."""
        return (self.path / names.ENDED).exists()

    @property
    def queue_has_it(self) -> bool:
        """Whether it waits or goes on, as far as its folder says, whatever process follows it."""
        return self.handed_over and not self.over

    @property
    def begun_at(self) -> float | None:
        """When a run that is given its nodes had all of them (epoch seconds); None before that."""
        return written_at(self.path / names.PLACEMENT)

    @property
    def queued(self) -> Queued | None:
        """queue.json: what the queue said of it last; None of one that began, or is in none."""
        if self.begun_at is not None:
            return None
        try:
            queued: Queued | None = load(self.path / names.QUEUE, shape(Queued), names.QUEUE)
        except UnreadableError:  # the run's outcome says what became of it
            return None
        return queued

    def ask_to_halt(self, cause: Cause, message: str, host: str | None = None) -> None:
        """Say why the run ends everywhere, unless something ended it before.

        Signal handlers and timers call this, also at the same time, so that nothing is raised: a
        run that cannot be told so, as where the disk is full, goes on until it ends otherwise.
        """
        content = {"schema": SCHEMA, "cause": cause, "host": host, "message": message}
        with contextlib.suppress(OSError):
            create_once(self.path / names.HALT, json.dumps({**content, "at": time.time()}))


@dataclass(frozen=True)
class Attempt(RunFolder):
    """The folder of one attempt of a cell's repeat."""

    cell_id: str
    repeat: int
    number: int

    @property
    def run(self) -> Run | None:
        """run.json: what was asked for; None before the launch. Raises UnreadableError."""
        return self._planned(Run)

    @property
    def orders(self) -> Orders | None:
        """What of it an engine needs. Raises UnreadableError."""
        return self.run.orders if self.run else None

    def devices(self, rank: int) -> Sequence[int]:
        """Return which devices of a node the run had, by number; none before the launch."""
        if (placement := self.placement) is not None:
            return placement.devices[rank]
        if (run := self.run) is None:
            return ()
        planned = next((node.device_ids for node in run.nodes if node.node_rank == rank), ())
        return planned or range(run.cell.devices_per_node)

    def without_secrets(self, outcome: Outcome) -> Outcome:
        """Return an outcome without the secrets that a log's own words may hold."""
        masks = Masks()
        with contextlib.suppress(UnreadableError):
            for node in self.run.nodes if self.run and outcome.reason else ():
                masks.learn_run(node)
        return replace(
            outcome,
            reason=masks.text(outcome.reason),
            ending=masks.text(outcome.ending),
            last_words=masks.text(outcome.last_words),
        )

    @property
    def outcome(self) -> Outcome | None:
        """outcome.json: how it ended; None while it runs, or where bench died.

        Where it cannot be read, the status is `unreadable`, and the reason says why.
        """
        try:
            self._refuse_links(*self._above(), self.path)
            ended: Outcome | None = load(self.path / names.OUTCOME, shape(Outcome), names.OUTCOME)
        except UnreadableError as error:
            return Outcome(UNREADABLE, "", str(error))
        return self.without_secrets(ended) if ended and ended.reason else ended

    @property
    def unended(self) -> bool:
        """Whether it was planned, and has no outcome."""
        return (self.path / names.RUN).exists() and not (self.path / names.OUTCOME).exists()

    @property
    def planned_at(self) -> float:
        """When run.json was written, just before the launch (epoch seconds)."""
        path = self.path / names.RUN
        return (path if path.exists() else self.path).stat().st_mtime
