"""`python -m runner tune`: find the fastest setting by racing real runs."""

from __future__ import annotations

import argparse
import json
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from runner.base.errors import UserError
from runner.base.options import Commands, add_inventory, add_runs, new_command
from runner.base.paths import existing_path
from runner.base.streams import say
from runner.commands.study_options import FORMATS, NO_BUDGET, add_study_options

if TYPE_CHECKING:
    from runner.tune.tune_session import TuneSession

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
<inventory>/ gets tune.json and winner.yaml, a matrix of the winner alone. docs/how-to/tune.md

exit codes: 0 winner found; 1 none, or none that is surely faster than the default, or nodes were
lost; 2 bad input; 130 Ctrl-C
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands,
        "tune",
        "find the fastest setting of a training, by racing runs",
        DESCRIPTION,
        answers=("tune", "tune_plan", "dry_run"),
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
    from runner.base.console import one_line
    from runner.launch.view import View

    view = View()
    session = _session(chosen, lambda line: view.console.print(one_line(line)))
    session.refuse_objective()
    if chosen.plan:
        _print_plan(session, as_json=chosen.format == "json")
        return 0
    session.refuse_unusable()
    if chosen.dry_run:
        _print_dry_run(session, as_json=chosen.format == "json")
        return 0
    if chosen.answer:
        if not session.campaign.begun:
            raise UserError(f"nothing of campaign {session.campaign.name} has run yet")
        tuned = session.answering.answer(session.look())
        _print(tuned, chosen.format)
        return 0 if tuned.winner else 1
    view.console.print(one_line(session.words(session.look())))
    try:
        tally, tuned = session.run(view, chosen.stop_after)
    except BaseException as error:
        view.broken_off(error)
        raise
    _print(tuned, chosen.format)
    if session.campaign.begun and chosen.format == "table":
        folder = session.campaign.path
        matrix = f", the winner's matrix: {folder}/winner.yaml" if tuned.winner else ""
        say(f"\nall runs: trainbench collect {session.campaign.name}")
        say(f"all figures: {folder}/tune.json{matrix}")
    if tally.interrupted:
        return 130
    return 0 if tuned.winner and not tally.expired else 1


def _session(chosen: argparse.Namespace, tell: Any) -> TuneSession:
    from runner.inventory.inventory import load_inventory
    from runner.matrix.file import load_matrix
    from runner.tune.tune_session import TuneOptions, TuneSession

    inventory = cache(partial(load_inventory, chosen.inventory))
    matrix = load_matrix(chosen.file, lambda nodes: inventory().devices_of(nodes))
    budget, unit = chosen.budget or NO_BUDGET
    options = TuneOptions(budget, unit, not chosen.no_measure)
    return TuneSession(
        matrix, inventory().knowing(matrix.pins), chosen.inventory, chosen.runs, options, tell
    )


def _print(tuned: Any, form: Any) -> None:
    from runner.tables.tuned_text import text_of

    say(json.dumps(tuned.to_json(), indent=1) if form == "json" else text_of(tuned, form), end="")


def _print_plan(session: TuneSession, *, as_json: bool) -> None:
    state = session.look()
    plan = session.plan(state)
    say(json.dumps(plan, indent=1) if as_json else session.plan_text(plan))


def _print_dry_run(session: TuneSession, *, as_json: bool) -> None:
    from dataclasses import replace

    from runner.launch.engines import engine_of
    from runner.plan.dryrun import describe, dry_run
    from runner.tune.tune_session import first_cells

    state = session.look()
    matrix = replace(session.held, cells=tuple(first_cells(session, state)), repeats=1)
    engine = engine_of(session.cluster, session.runs)
    plans = dry_run(matrix, session.cluster, preview=partial(engine.preview, session.campaign))
    if as_json:
        say(json.dumps(plans, indent=1))
        return
    say(session.plan_text(session.plan(state)))
    say("\nthe runs, if each takes what is predicted now:\n")
    say(describe(plans, matrix, session.cluster))
