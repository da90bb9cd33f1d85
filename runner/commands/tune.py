"""`python -m runner tune`: find the fastest setting by racing real runs."""

from __future__ import annotations

import argparse
from functools import cache, partial
from typing import TYPE_CHECKING

from runner.base.options import Commands, add_inventory, add_runs, new_command
from runner.base.paths import existing_path
from runner.base.streams import say
from runner.commands.study_options import FORMATS, add_study_options, run_study, session_of
from runner.folder.names import WINNER

if TYPE_CHECKING:
    from runner.launch.view import View
    from runner.study.running import Session

DESCRIPTION = """\
Find the fastest setting of a training, and say how sure that is. FILE is a matrix with `tune:`,
which names knobs with their values in place of `axes:`. Every combination that can run is a
candidate. Predictions decide which ones run, in which order; only measurements decide who wins.

  python -m runner tune matrices/start/tune.yaml --plan           how many runs, how long
  python -m runner tune matrices/start/tune.yaml --dry-run        the commands of the first runs
  python -m runner tune m.yaml -i inventory/mine
  python -m runner tune m.yaml -i inventory/mine --budget 12      node-hours
  python -m runner tune m.yaml -i inventory/mine --budget 96dh    device-hours

Its runs form an ordinary campaign: the same command resumes it, also after you edit `tune:`, and
`status`, `stop`, `collect` and `export` work as usual. RUNS/<matrix>-
<inventory>/ gets answer.json and winner.yaml, a matrix of the winner alone. docs/how-to/tune.md

exit codes: 0 winner found, 1 none or not over, 2 bad input, 3 none is surely faster than the
default, which is kept, 130 Ctrl-C
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands,
        "tune",
        "find the fastest setting of a training, by racing runs",
        DESCRIPTION,
        answers=("answer", "dry_run"),
        formats=FORMATS,
    )
    command.add_argument("file", type=existing_path, metavar="FILE", help="a matrix with `tune:`")
    add_inventory(command)
    add_runs(command)
    add_study_options(command)
    command.add_argument(
        "--no-measure",
        action="store_true",
        help="do not measure the machine first; the first predictions are less accurate",
    )


def run(chosen: argparse.Namespace) -> int:
    """Search, or say what a search would do; the exit code."""
    from runner.launch.view import View

    view = View()
    session = _session(chosen, view)
    code = run_study(session, chosen, view)
    winner = session.campaign.path / WINNER
    if chosen.format == "table" and not (chosen.plan or chosen.dry_run) and winner.is_file():
        say(f"\nits matrix: {winner}; all runs: trainbench collect {session.campaign.name}")
    return code


def _session(chosen: argparse.Namespace, view: View) -> Session:
    from runner.base.console import one_line
    from runner.inventory.inventory import load_inventory
    from runner.matrix.file import load_matrix
    from runner.tune.asked_search import tune_study

    inventory = cache(partial(load_inventory, chosen.inventory))
    matrix = load_matrix(chosen.file, lambda nodes: inventory().devices_of(nodes))
    cluster = inventory().knowing(matrix.pins)
    runs = not (chosen.plan or chosen.dry_run or chosen.answer or chosen.no_measure)
    study = tune_study(
        matrix,
        cluster,
        chosen.runs,
        inventory=chosen.inventory if runs else None,
        say=lambda line: view.console.print(one_line(line)),
    )
    return session_of(study, cluster, chosen, view, builds=False)
