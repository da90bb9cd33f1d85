"""`python -m runner bench`: run a matrix, or show what would run; the table at the end."""

from __future__ import annotations

import argparse
import functools
import json
import shlex
import shutil
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from runner.base.errors import UserError
from runner.base.options import Commands, add_inventory, add_only, add_runs, new_command
from runner.base.paths import existing_path
from runner.base.streams import complain, nobody_reads, reader_is_gone, say, say_json
from runner.commands.study_options import add_stop_after
from runner.terms.printed_answers import ScriptAnswer

if TYPE_CHECKING:
    from runner.folder.events import Event

EXIT_CODES = "exit codes: 0 all ok or queued, 1 a cell failed or none ran, 2 bad input, 130 Ctrl-C"

DESCRIPTION = f"""\
Run a matrix of training cells on the nodes of an inventory, one run after the other (side by side
where a queue takes them): all cells once, then their repeats in turn.

Before anything starts, every cell is checked, and every node is asked whether it is set up.
Finished cells do not run again: after an interruption, run the same command to resume. More values,
repeats or tables in the matrix add to the campaign; results of values you removed are kept, but not
shown. Logs, plans and outcomes go to RUNS/<matrix name>-<inventory name>/; `collect` turns them
into tables. Closing the terminal ends nothing: `status --watch` shows progress, `stop` ends it.
docs/matrix.md explains the matrix file, key by key.

  python -m runner bench matrix.yaml                      the quickstart, on this machine
  python -m runner bench matrix.yaml --dry-run            what would run, exactly
  python -m runner bench matrix.yaml --plan               results kept, new, hidden; time needed
  python -m runner bench matrix.yaml --report report.html a page that is rewritten after each run
  python -m runner bench m.yaml -i inventory/mine --only '*zero_stage=1*'

{EXIT_CODES}
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands,
        "bench",
        "run a matrix of training cells",
        DESCRIPTION,
        answers=("table", "plan", "dry_run", "bench_script", "bench_detached"),
        formats=("table", "json"),
    )
    which = command.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "file",
        type=existing_path,
        nargs="?",
        metavar="FILE",
        help="the matrix file (docs/matrix.md)",
    )
    which.add_argument(
        "-m", "--matrix", type=existing_path, metavar="FILE", help="the same as FILE"
    )
    add_inventory(command)
    add_runs(command)
    before = command.add_mutually_exclusive_group()
    before.add_argument("--dry-run", action="store_true", help="show what would run; no connection")
    command.add_argument(
        "--script",
        action="store_true",
        help="with --dry-run: print a script that runs the chosen cell without bench, by sbatch on"
        " Slurm (one cell: --only)",
    )
    before.add_argument(
        "--plan",
        action="store_true",
        help="show which results are kept, new or hidden, and the time needed; no connection",
    )
    command.add_argument(
        "--report",
        type=_writable,
        metavar="FILE",
        help="write the report (collect --format html) to FILE after each run (docs/report.md)",
    )
    command.add_argument(
        "--metrics",
        type=_writable,
        metavar="FILE",
        help="write the progress to FILE every 5 s, for node_exporter's textfile collector"
        " (docs/how-to/other-tools.md)",
    )
    command.add_argument(
        "--detach",
        action="store_true",
        help="after the checks, continue in the background; prints how to follow it"
        " (docs/how-to/cluster.md)",
    )
    command.add_argument(
        "--queue",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="on Slurm: override an inventory key for this call: qos=debug, account=a1 or"
        " gpus_per_node=cell (docs/slurm.md)",
    )
    command.add_argument(
        "--submit",
        action="store_true",
        help="on Slurm: queue the runs and exit; later the same command without --submit, or"
        " `status`, collects their results (docs/slurm.md)",
    )
    add_only(command)
    once_more = command.add_mutually_exclusive_group()
    once_more.add_argument("--again", action="store_true", help="also run finished cells again")
    once_more.add_argument(
        "--failed", action="store_true", help="also run again the cells that did not end ok"
    )
    command.add_argument(
        "--name",
        help="start or resume the campaign of this name (default: the matrix's name), for example"
        " after a change to the trainer",
    )
    command.add_argument(
        "--retry", type=_count, default=0, metavar="N", help="retry a failed run up to N times"
    )
    add_stop_after(command)
    command.add_argument(
        "--notify",
        type=_argv,
        default=[],
        metavar="COMMAND",
        help="run COMMAND (without a shell) at the end and when a run fails; it gets the event in"
        " TRAINBENCH_* variables and as JSON on standard input (docs/runs.md)",
    )


def _count(word: str) -> int:
    """Read a whole number of at least 0."""
    if not word.isdecimal():
        raise argparse.ArgumentTypeError(f"{word!r} is not a whole number of at least 0")
    return int(word)


def _argv(command_line: str) -> list[str]:
    """Split a command as a shell would, without one."""
    try:
        argv = shlex.split(command_line)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{command_line!r}: {error}; close its quotes") from None
    if not argv or shutil.which(argv[0]) is None:
        raise argparse.ArgumentTypeError(
            f"{command_line!r} does not begin with a program of this machine; name one in PATH,"
            " or by its path"
        )
    return argv


def run(chosen: argparse.Namespace) -> int:
    """Run the matrix, or show what would run; the exit code."""
    from runner.commands.collect import print_campaign
    from runner.folder.campaign import Campaign
    from runner.inventory.engine_keys import asked_keys
    from runner.inventory.inventory import load_inventory
    from runner.launch import plan_summary
    from runner.launch.bench import bench
    from runner.launch.detached import Detached
    from runner.launch.engine import NO_QUEUE
    from runner.launch.engines import engine_of
    from runner.launch.notify import Notifier
    from runner.launch.view import View
    from runner.matrix.file import campaign_word, load_matrix
    from runner.plan.dryrun import describe, dry_run, runs_of
    from runner.plan.make import campaign_name

    for path in (chosen.runs, chosen.inventory):
        # These pass through Ansible's variables, where a template would be resolved.
        if any(mark in str(path.resolve()) for mark in ("{{", "{%", "{#")):
            raise UserError(f"the path {path} holds a template mark; name one without {{{{ or {{%")
    # A mistake in the matrix is told at once: the inventory is read when a cell asks for it.
    instead = asked_keys(chosen.queue, "--queue")
    inventory = functools.cache(functools.partial(load_inventory, chosen.inventory, instead))
    matrix = load_matrix(chosen.file or chosen.matrix, lambda nodes: inventory().devices_of(nodes))
    if chosen.name is not None:
        matrix = replace(matrix, name=campaign_word(chosen.name, "--name"))
    if matrix.tune is not None:
        raise UserError(
            f"the matrix {matrix.name} has `tune`, knobs in place of axes; run it with"
            " `python -m runner tune`, or name axes in their place"
        )
    machines = inventory().knowing(matrix.pins)
    campaign = Campaign(chosen.runs / campaign_name(matrix, machines))
    as_json = chosen.format == "json"
    if chosen.submit and not machines.engine.queues:
        raise UserError(NO_QUEUE)
    if chosen.script and not chosen.dry_run:
        raise UserError("--script prints a part of a dry run; add --dry-run")
    if chosen.dry_run and chosen.script:
        runs = runs_of(
            matrix,
            machines,
            chosen.only,
            lambda cell: PurePosixPath(campaign.attempt_path(cell.id).resolve()),
        )
        if len(runs) > 1:
            raise UserError(
                f"--script prints one cell, and {len(runs)} are chosen; choose one, such as --only"
                f" '{runs[0].cell.name}'"
            )
        script = engine_of(machines, chosen.runs).by_hand(runs[0])[1].rstrip("\n")
        if as_json:
            say_json(ScriptAnswer(cell=runs[0].cell.name, script=script))
        else:
            say(script)
        return 0
    if chosen.dry_run:
        plans = dry_run(
            matrix,
            machines,
            chosen.only,
            folder=lambda cell: PurePosixPath(campaign.attempt_path(cell.id).resolve()),
            preview=functools.partial(engine_of(machines, chosen.runs).preview, campaign),
            inspected=campaign.inspections(),
        )
        say(json.dumps(plans, indent=1) if as_json else describe(plans, matrix, machines))
        return 0
    if chosen.plan:
        plan = plan_summary.look(
            campaign, matrix, machines, chosen.only, chosen.again, chosen.failed
        )
        say(json.dumps(plan.to_json(), indent=1) if as_json else plan.words())
        return 0
    detached = Detached(campaign) if chosen.detach else None
    if detached and detached.process:
        return detached.see_off(as_json=as_json)
    with Notifier(chosen.notify, complain) as notify, ExitStack() as stack:
        page = None
        if chosen.report is not None:
            from runner.report.report_file import ReportFile

            page = ReportFile(chosen.report, campaign)

        def tell(event: Event) -> None:
            if detached:
                detached.tell(event)
            notify(event)
            if page:
                page.changed()

        view = View(tell=tell, watched=False if detached else None)
        if chosen.metrics is not None:
            from runner.launch.metrics_file import metrics_file

            stack.enter_context(metrics_file(chosen.metrics, view.status))
        try:
            tally = bench(
                matrix,
                machines,
                chosen.runs,
                engine=engine_of(machines, chosen.runs),
                only=chosen.only,
                again=chosen.again,
                failed=chosen.failed,
                retry=chosen.retry,
                limit_s=chosen.stop_after,
                submit=chosen.submit,
                view=view,
            )
        except BaseException as error:
            view.broken_off(error)
            if page:
                page.finish()
            raise
        if campaign.begun and not tally.submitted:
            try:
                print_campaign(chosen.runs, campaign.name, None, chosen.format, None)
            except OSError as error:
                if not reader_is_gone(error):
                    raise
                nobody_reads()
        if page:
            page.finish()
    return tally.exit_code


def _writable(word: str) -> Path:
    """Read the name of a file in a folder that is there."""
    path = Path(word)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{word!r}: name a file in a folder that exists")
    return path
