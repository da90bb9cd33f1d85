"""One run: plan it, have it carried out, judge it, and record all of that in its folder."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from node.causes import Cause
from runner.folder import names
from runner.folder.attempt import Attempt, RunFolder
from runner.folder.campaign import Campaign
from runner.folder.checkup import checkup_of
from runner.folder.lock import HeldFolder
from runner.folder.products import load_products
from runner.folder.stored import UnreadableError, write_json
from runner.judge.judge import judged
from runner.launch.engine import Engine
from runner.launch.interrupts import Interrupts
from runner.launch.view import View
from runner.plan.make import make_run
from runner.plan.script import launch_script
from runner.terms.cell import Cell, Matrix
from runner.terms.cluster import Cluster
from runner.terms.orders import Orders
from runner.terms.outcome import Outcome
from runner.terms.run import Run

PORT_TRIES = 3


class Caused(Protocol):
    """What has ended, and why."""

    @property
    def cause(self) -> str:
        """The cause word; empty where it ended well."""


Ended = TypeVar("Ended", bound=Caused)


def on_a_free_port(launch: Callable[[int], Ended], interrupts: Interrupts) -> Ended:
    """Launch, and with the next port (0, 1, ...) where that one was in use."""
    for port_try in range(PORT_TRIES):
        ended = launch(port_try)
        if ended.cause != Cause.PORT_IN_USE or interrupts.over:
            break
    return ended


def carry_out(
    engine: Engine, folder: HeldFolder, run: RunFolder, orders: Orders, interrupts: Interrupts
) -> str:
    """Have a run carried out whose run.json is written; return the engine's words, if all else is
    silent.

    Ctrl-C ends it on every node; a second one does not wait for that.
    """
    interrupts.begin(run)
    try:
        return engine.run(folder, run, orders, interrupts.twice)
    finally:
        interrupts.running = None


@dataclass(frozen=True)
class Launcher:
    """Launches the runs of a campaign."""

    engine: Engine
    cluster: Cluster
    campaign: Campaign
    view: View
    interrupts: Interrupts

    def launch(
        self,
        matrix: Matrix,
        cell: Cell,
        repeat: int,
        sizes: Mapping[str, Mapping[str, int]],
    ) -> Outcome:
        """Plan and launch one repeat of a cell; `sizes` are those of the datasets' files."""

        def attempt_with(port_try: int) -> Outcome:
            attempt = self.campaign.new_attempt(cell.id, repeat)
            run = make_run(
                matrix,
                cell,
                self.cluster,
                campaign=self.campaign.name,
                repeat=repeat,
                attempt=attempt.number,
                port_try=port_try,
                dataset_sizes=sizes[cell.dataset],
            )
            return self.once(attempt, run)

        return on_a_free_port(attempt_with, self.interrupts)

    def once(self, attempt: Attempt, run: Run) -> Outcome:
        """Launch one planned run and judge it; all of it is written into the attempt's folder."""
        cell = run.cell
        write_json(attempt.path / names.RUN, run.to_json())
        script = attempt.path / names.SCRIPT
        script.write_text(launch_script(run), encoding="utf-8")
        script.chmod(0o700)
        began, clock = time.time(), time.monotonic()
        self._take_products(attempt, run, began)
        with self.view.running(cell, run.repeat, attempt):
            message = carry_out(self.engine, self.campaign, attempt, run.orders, self.interrupts)
        measured, ended = judged(attempt, cell, message)
        ended = replace(ended, started_at=began, wall_s=round(time.monotonic() - clock, 3))
        write_json(attempt.path / names.OUTCOME, ended.to_json())
        self.view.ended(cell, run.repeat, attempt, ended, measured)
        return ended

    def _take_products(self, attempt: Attempt, run: Run, began: float) -> None:
        """Take along what doctor measured of the run's nodes lately, where it can be read."""
        checkup = checkup_of(self.campaign.path.parent, self.cluster.label)
        with suppress(UnreadableError):
            products = load_products(checkup.path).fresh(began, [node.host for node in run.nodes])
            if products.nodes:
                write_json(attempt.path / names.PRODUCTS, products.to_json())
