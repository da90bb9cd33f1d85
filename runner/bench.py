"""The campaign loop: launch what is not finished yet, one cell after the other."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from types import FrameType
from typing import Any

from runner import checks, claim, inspection, outcome, plan, rundir, systems
from runner.cluster import Cluster
from runner.errors import UserError
from runner.judge import judge, measure
from runner.matrix import Cell, Matrix
from runner.play import play
from runner.render import launch_script
from runner.rundir import Attempt, Campaign
from runner.view import View

PORT_TRIES = 3


@dataclass(frozen=True)
class Tally:
    """What a bench did: how many cells' repeats ended how. `exit_code` is the command's.

    `expired`: the campaign's limit ended it, and not every cell has run. `resumes`: the same
    command goes on with what has not run; with --again it begins anew.
    """

    ok: int
    failed: int
    kept: int
    interrupted: bool
    expired: bool = False
    resumes: bool = True

    @property
    def exit_code(self) -> int:
        """0 all ok, 1 a cell failed or did not get to run, 130 after Ctrl-C."""
        if self.interrupted:
            return 130
        return 1 if self.failed or self.expired or not self.ok else 0


class Interrupts:
    """Ctrl-C: once ends the run on every node and keeps all, twice does not wait for that.

    `limit_s` does what one Ctrl-C does, so many seconds after `handled` began.
    """

    def __init__(self, limit_s: float | None = None) -> None:
        self.count = 0
        self.limit_s = limit_s
        self.expired = False
        self.running: Attempt | None = None

    def expire(self) -> None:
        """The campaign's time is up."""
        self.expired = True
        self._halt()

    @property
    def over(self) -> bool:
        """Whether no further run is to start."""
        return self.count > 0 or self.expired

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """The signal's handler."""
        self.count += 1
        self._halt()

    def begin(self, attempt: Attempt) -> None:
        """This runs now; what came before counts for it, too."""
        self.running = attempt
        if self.over:
            self._halt()

    def _halt(self) -> None:
        if self.running is not None:
            by = "by Ctrl-C" if self.count else f"after --stop-after {self.limit_s:g}"
            self.running.ask_to_halt("interrupted", f"stopped {by}")

    def once(self) -> bool:
        """Whether the user wants to stop."""
        return self.count > 0

    def twice(self) -> bool:
        """Whether the user will not wait."""
        return self.count > 1

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Take SIGINT and SIGTERM while a campaign runs."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self) for number in (signal.SIGINT, signal.SIGTERM)}
        timer = threading.Timer(self.limit_s or 0.0, self.expire)
        timer.daemon = True
        if self.limit_s is not None:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()
            for number, handler in before.items():
                signal.signal(number, handler)


def select(matrix: Matrix, only: Sequence[str]) -> list[Cell]:
    """The cells whose readable name or id matches one of the globs; all of them without one."""
    if not only:
        return list(matrix.cells)
    chosen = [
        cell
        for cell in matrix.cells
        if any(fnmatch(cell.name, glob) or fnmatch(cell.id, glob) for glob in only)
    ]
    if not chosen:
        names = ", ".join(cell.name for cell in matrix.cells[:5])
        raise UserError(f"--only {' '.join(only)} matches no cell; cells are named like {names}")
    return chosen


def campaign_name(matrix: Matrix, cluster: Cluster) -> str:
    """A campaign is one matrix on one inventory, so it is named after both."""
    return f"{matrix.name}-{cluster.name}"


def bench(
    matrix: Matrix,
    cluster: Cluster,
    runs: Path,
    *,
    only: Sequence[str] = (),
    again: bool = False,
    retry: int = 0,
    limit_s: float | None = None,
    view: View,
) -> Tally:
    """Run what is unfinished or, `again`, all that is selected. Raises UserError for bad input.

    A run that does not end well is tried up to `retry` times more. After `limit_s` seconds the
    running cell is ended and no further one starts; the next bench goes on there.
    """
    cells = select(matrix, only)
    checks.check_cells(cells, cluster, matrix.warmup_iters)
    campaign = Campaign(runs / campaign_name(matrix, cluster))
    interrupts = Interrupts(limit_s)
    with campaign.locked(), interrupts.handled():
        campaign.open(matrix, cluster)
        repeats = [(cell, repeat) for cell in cells for repeat in range(1, matrix.repeats + 1)]
        kept = {} if again else _finished(campaign, repeats)
        todo = [(cell, repeat) for cell, repeat in repeats if (cell.id, repeat) not in kept]
        view.begin(campaign, len(repeats), kept)
        counts = {"ok": 0, "failed": 0}
        for state in kept.values():
            counts["ok" if state == "ok" else "failed"] += 1
        if todo:
            wanted = [cell for cell, _ in todo]
            used = cluster.nodes[: max(cell.nodes for cell in wanted)]
            with claim.claimed(used, campaign.path):
                sizes = inspection.inspect(campaign, cluster, wanted, runs, interrupts.once)
                for cell, repeat in todo:
                    if interrupts.over:
                        break
                    for _ in range(1 + retry):
                        ended = _launch(
                            campaign, matrix, cell, repeat, cluster, sizes, runs, view, interrupts
                        )
                        if ended.status == "ok" or interrupts.over:
                            break
                    counts["ok" if ended.status == "ok" else "failed"] += 1
        all_ok = counts["ok"] == len(repeats)
        tally = Tally(
            counts["ok"],
            counts["failed"],
            len(kept),
            interrupted=interrupts.count > 0,
            expired=interrupts.expired and not all_ok,
            resumes=not again,
        )
        view.end(tally)
        return tally


def _finished(
    campaign: Campaign, repeats: Sequence[tuple[Cell, int]]
) -> dict[tuple[str, int], str]:
    """The repeats whose last attempt is finished, with its status."""
    found = {}
    for cell, repeat in repeats:
        attempts = campaign.attempts(cell.id, repeat)
        ended = attempts[-1].outcome if attempts else None
        if ended is not None and outcome.is_finished(ended):
            found[cell.id, repeat] = str(ended["status"])
    return found


def _launch(
    campaign: Campaign,
    matrix: Matrix,
    cell: Cell,
    repeat: int,
    cluster: Cluster,
    sizes: dict[str, dict[str, int]],
    runs: Path,
    view: View,
    interrupts: Interrupts,
) -> outcome.Outcome:
    """One run: plan it, play it, judge it. Another port is tried where the first was in use."""
    for port_try in range(PORT_TRIES):
        attempt = campaign.new_attempt(cell.id, repeat)
        run = plan.make(
            matrix,
            cell,
            cluster,
            campaign=campaign.name,
            repeat=repeat,
            attempt=attempt.number,
            port_try=port_try,
            dataset_sizes=sizes[cell.dataset],
        )
        ended = run_once(campaign, attempt, run, cluster, runs, view, interrupts)
        if ended.cause != "port_in_use" or interrupts.over:
            break
    return ended


def run_once(
    campaign: Campaign,
    attempt: Attempt,
    run: plan.Run,
    cluster: Cluster,
    runs: Path,
    view: View,
    interrupts: Interrupts,
) -> outcome.Outcome:
    """Play one planned run and judge it; all of it is written into the attempt's folder."""
    cell = run.cell
    rundir.write_json(attempt.path / "run.json", run.to_json())
    script = attempt.path / "launch.sh"
    script.write_text(launch_script(run), encoding="utf-8")
    script.chmod(0o700)
    interrupts.begin(attempt)
    began, clock = time.time(), time.monotonic()
    with view.running(cell, run.repeat, attempt):
        played = play(
            "bench.yml",
            cluster.path,
            hosts=[node.host for node in run.nodes],
            variables={
                "launch_run_dir": str(attempt.path.resolve()),
                "launch_lock": str(campaign.lock.resolve()),
                "launch_holder": campaign.holder,
            },
            private=runs / ".ansible",
            cancelled=interrupts.twice,
        )
    interrupts.running = None
    measured = measure(cell.system, attempt.logs())
    ended = judge(attempt, cell, measured, played.words)
    times = {"started_at": began, "wall_s": round(time.monotonic() - clock, 3)}
    rundir.write_json(attempt.path / "outcome.json", {**vars(ended), **times})
    view.ended(cell, run.repeat, attempt, ended, measured)
    return ended


def dry_run(matrix: Matrix, cluster: Cluster, only: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Every cell's plan, as data: what each node would run. Connects to nothing."""
    cells = select(matrix, only)
    checks.check_cells(cells, cluster, matrix.warmup_iters)
    campaign = campaign_name(matrix, cluster)
    plans = []
    for cell in cells:
        run = plan.make(matrix, cell, cluster, campaign=campaign)
        expected = systems.load(cell.system).estimate(cell, cluster)
        plans.append(
            {
                "cell": cell.name,
                "id": cell.id,
                "system": cell.system,
                "nodes": [
                    {
                        "host": node.host,
                        "node_rank": node.node_rank,
                        "cwd": node.cwd,
                        "env": dict(node.env),
                        "argv": list(node.argv),
                    }
                    for node in run.nodes
                ],
                "files": {node.host: dict(node.files) for node in run.nodes if node.files},
                "run_dir": run.nodes[0].dir,
                "estimate": {
                    "memory_mib": round(expected.memory_mib, 1),
                    "time_s": round(expected.time_s, 1),
                    "basis": expected.basis,
                },
            }
        )
    return plans
