"""One run: plan it, play it, judge it, and record all of that in its folder."""

from __future__ import annotations

import time
from pathlib import Path

from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.folder.stored import write_json
from runner.judge.decide import Outcome
from runner.judge.judge import judge, measure
from runner.launch.interrupts import Interrupts
from runner.launch.ssh.play import play
from runner.launch.view import View
from runner.plan.make import make_run
from runner.plan.script import launch_script
from runner.terms.cell import Cell, Matrix
from runner.terms.cluster import Cluster
from runner.terms.run import Run

PORT_TRIES = 3


def launch(
    campaign: Campaign,
    matrix: Matrix,
    cell: Cell,
    repeat: int,
    cluster: Cluster,
    sizes: dict[str, dict[str, int]],
    runs: Path,
    view: View,
    interrupts: Interrupts,
) -> Outcome:
    """One run: plan it, play it, judge it. Another port is tried where the first was in use."""
    for port_try in range(PORT_TRIES):
        attempt = campaign.new_attempt(cell.id, repeat)
        run = make_run(
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
    run: Run,
    cluster: Cluster,
    runs: Path,
    view: View,
    interrupts: Interrupts,
) -> Outcome:
    """Play one planned run and judge it; all of it is written into the attempt's folder."""
    cell = run.cell
    write_json(attempt.path / "run.json", run.to_json())
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
    write_json(attempt.path / "outcome.json", {**vars(ended), **times})
    view.ended(cell, run.repeat, attempt, ended, measured)
    return ended
