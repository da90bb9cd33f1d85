"""Plan one run, have the engine execute it, judge it, and record all that in its folder."""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple, Protocol, TypeVar

from node.causes import Cause
from runner.base.errors import UserError
from runner.folder import names
from runner.folder.attempt import Attempt, RunFolder
from runner.folder.campaign import Campaign
from runner.folder.checkup import checkup_of
from runner.folder.lock import HeldFolder
from runner.folder.products import load_products
from runner.folder.stored import UnreadableError, write_json, write_script
from runner.launch.engine import Engine
from runner.launch.interrupts import Interrupts
from runner.launch.recovery import RecoveryPlan
from runner.launch.times import timed
from runner.launch.view import View
from runner.plan.make import make_run
from runner.results.judge import judged
from runner.terms.cell import Cell, Matrix
from runner.terms.cluster import Cluster
from runner.terms.orders import Orders
from runner.terms.outcome import Outcome
from runner.terms.record import Measurement
from runner.terms.run import Run

PORT_TRIES = 3


class Caused(Protocol):
    """Anything that ended with a cause, such as an Outcome."""

    @property
    def cause(self) -> str:
        """The cause; empty if it ended well."""


Ended = TypeVar("Ended", bound=Caused)


def on_a_free_port(launch: Callable[[int], Ended], interrupts: Interrupts) -> Ended:
    """Launch on the first port that is free: call `launch` with 0, 1, ... until none is in use."""
    for port_try in range(PORT_TRIES):
        ended = launch(port_try)
        if ended.cause != Cause.PORT_IN_USE or interrupts.over:
            break
    return ended


def carry_out(
    engine: Engine, folder: HeldFolder, run: RunFolder, orders: Orders, interrupts: Interrupts
) -> str:
    """Have the engine execute a run whose run.json is written; return the engine's message.

    The message is for a run whose nodes give no reason. Ctrl-C ends the run on every node; a
    second Ctrl-C does not wait for that.
    """
    with interrupts.watching(run):
        return engine.run(folder, run, orders, interrupts.twice)


class Planned(NamedTuple):
    """A run to execute, or to follow if it still runs, and its attempt's folder."""

    attempt: Attempt
    run: Run


@dataclass(frozen=True)
class Launcher:
    """Launches the runs of a campaign."""

    engine: Engine
    cluster: Cluster
    campaign: Campaign
    view: View
    interrupts: Interrupts
    watching: Callable[[Attempt, Run], AbstractContextManager[None]] = lambda *_: nullcontext()

    def plan(
        self,
        matrix: Matrix,
        cell: Cell,
        repeat: int,
        sizes: Mapping[str, Mapping[str, int]],
        port_try: int = 0,
        recovery: RecoveryPlan | None = None,
    ) -> Planned:
        """Write a repeat of a cell as a new attempt's plan; `sizes`: dataset to file to bytes.

        With `recovery` it resumes an earlier attempt, possibly on other nodes.
        """
        attempt = self.campaign.new_attempt(cell.id, repeat)
        run = make_run(
            matrix,
            recovery.cell if recovery else cell,
            recovery.cluster if recovery else self.cluster,
            begun=recovery.begun if recovery else None,
            campaign=self.campaign.name,
            repeat=repeat,
            attempt=attempt.number,
            port_try=port_try,
            dataset_sizes=sizes[cell.dataset] if cell.dataset else {},
            folder=PurePosixPath(attempt.path.resolve()),
        )
        write_json(attempt.path / names.RUN, run.to_json())
        name, text = self.engine.by_hand(run)
        write_script(attempt.path / name, text)
        return Planned(attempt, run)

    def going_on(self, cell_id: str, repeat: int) -> Planned | None:
        """Return the last attempt of a repeat if it still runs in the queue; else None."""
        attempts = self.campaign.attempts(cell_id, repeat)
        if not attempts or attempts[-1].outcome is not None:
            return None
        try:
            run = attempts[-1].run
        except UnreadableError:
            return None
        goes_on = run is not None and self.engine.goes_on(attempts[-1])
        return Planned(attempts[-1], run) if run is not None and goes_on else None

    def once(self, planned: Planned) -> Outcome:
        """Execute a run and judge it; the attempt's folder gets the outcome.

        A run that goes on after a second Ctrl-C gets none: a later bench follows it.
        """
        attempt, run = planned
        cell = run.cell
        began, clock = time.time(), time.monotonic()
        with (
            self.view.running(cell, run.repeat, attempt, self.engine.waiting),
            self.watching(attempt, run),
        ):
            message = carry_out(self.engine, self.campaign, attempt, run.orders, self.interrupts)
        if self.interrupts.twice() and self._may_go_on(attempt):
            message_text = f"it goes on, and the same command follows it; {message}".rstrip("; ")
            ended = Outcome(Cause.INTERRUPTED.status, Cause.INTERRUPTED, message_text)
            self.view.ended(cell, run.repeat, attempt, ended, Measurement())
            return ended
        measured, ended = judged(attempt, cell, message)
        ended = timed(ended, attempt, began, time.monotonic() - clock)
        self._take_products(attempt, ended.started_at or began)
        write_json(attempt.path / names.OUTCOME, ended.to_json())
        self.campaign.share(attempt.path)
        self.view.ended(cell, run.repeat, attempt, ended, measured)
        return ended

    def refused(self, planned: Planned) -> Outcome:
        """Record the outcome of a run that the queue refused."""
        attempt, run = planned
        measured, ended = judged(attempt, run.cell, "")
        ended = timed(ended, attempt, time.time(), 0.0)
        write_json(attempt.path / names.OUTCOME, ended.to_json())
        self.view.ended(run.cell, run.repeat, attempt, ended, measured)
        return ended

    def _may_go_on(self, attempt: Attempt) -> bool:
        try:
            return self.engine.goes_on(attempt)
        except UserError:  # the queue cannot be asked now: the next bench asks again
            return True

    def _take_products(self, attempt: Attempt, began: float) -> None:
        """Copy what doctor last measured on the run's nodes into its folder, if it can be read."""
        checkup = checkup_of(self.campaign.path.parent, self.cluster.label)
        with suppress(UnreadableError):
            products = load_products(checkup.path).fresh(began, set(attempt.hosts.values()))
            if products.nodes:
                write_json(attempt.path / names.PRODUCTS, products.to_json())
