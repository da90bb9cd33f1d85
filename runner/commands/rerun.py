"""`python -m runner rerun WHAT`: one recorded run once more, one's own or anybody else's."""

from __future__ import annotations

import argparse
import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base.errors import UserError
from runner.base.options import Commands, add_runs, new_command
from runner.base.paths import existing_path
from runner.base.questions import can_ask
from runner.base.streams import say, say_json, terminal_width
from runner.terms.printed_answers import RerunAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.launch.rerun import Recorded
    from runner.terms.run import Run

DESCRIPTION = """\
Run one recorded run again.

A run that bench made here for you (its folder): the command and environment of its run.json, on the
same nodes. It is refused where the inventory, or what is installed on the nodes, is not what it
was, and says what differs.

  python -m runner rerun \\
    runs/quickstart-local/devices_per_node=1,zero_stage=0-4c0397a0/repeat1/attempt1

Anybody else's (a bundle of `publish` or `export`, or a run's folder of an unpacked one): the cell
of its matrix, planned for nodes of yours as `bench` plans it. It shows what differs from the
recording and everything that it would execute, node by node, and asks; --yes is for scripts. What
is installed on the nodes must be the same.

  python -m runner rerun zero.publication.tar.gz --cell zero_stage=1 -i inventory/mine

The new run is in the campaign rerun-<campaign>, as one more repeat of its cell; the old campaign's
table stays what it was (`bench --again --only CELL` replaces a result in its own campaign). At the
end the two are compared.

The commands recorded in a bundle are executed on the nodes: read them before you say yes.

exit codes: 0 the run is ok, 1 it is not, 2 bad input, nothing was launched, 130 Ctrl-C
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands, "rerun", "one recorded run once more", DESCRIPTION, answers=("rerun",)
    )
    command.add_argument("what", metavar="WHAT", type=Path, help="an attempt's folder, or a bundle")
    command.add_argument(
        "-i",
        "--inventory",
        type=existing_path,
        help="inventory folder (default for a run of your own: its campaign's, by its name)",
    )
    command.add_argument("--cell", metavar="CELL", help="the bundle's cell to run, by name or id")
    command.add_argument(
        "--repeat",
        type=_number,
        metavar="N",
        help="the bundle's repeat to run (default: the first ok one)",
    )
    command.add_argument("--yes", action="store_true", help="run another user's run without asking")
    add_runs(command)


def _number(word: str) -> int:
    """Read a repeat's number."""
    if not (word.isascii() and word.isdecimal() and int(word[:9]) > 0):
        raise argparse.ArgumentTypeError(f"{word!r} is not a whole number of at least 1")
    return int(word)


def run(chosen: argparse.Namespace) -> int:
    """Run it; print how it compares with what was recorded."""
    from runner.compare import rendering
    from runner.compare.side import side
    from runner.compare.verdicts import compare_campaigns, thresholds
    from runner.document.campaign_reading import read_run
    from runner.folder.campaign import Campaign
    from runner.inventory.inventory import load_inventory
    from runner.launch import rerun
    from runner.launch.engines import engine_of
    from runner.launch.view import View
    from runner.plan.shown import would_execute

    as_json = chosen.format == "json"
    with _recorded(chosen) as recorded:
        if not recorded.own and chosen.inventory is None:
            raise UserError(
                f"bench did not make {chosen.what} here for you; name the nodes to run it on with"
                " -i INVENTORY, and read the commands that it shows before you agree"
            )
        machines = load_inventory(chosen.inventory or rerun.inventory(recorded))
        runs = recorded.campaign.path.parent if recorded.own else chosen.runs
        engine = engine_of(machines, runs)
        allowed: list[str] = []

        def listed(run: Run) -> list[str]:
            scheduled = engine.preview(Campaign(runs / recorded.target), [run], 1)
            return [*would_execute(run, recorded.run, recorded.settings, scheduled)]

        if not recorded.own:
            recorded = rerun.adopted(recorded, machines)
            allowed = listed(rerun.next_run(recorded, machines, runs))
            _agree(allowed, recorded.run.cell.nodes, sure=chosen.yes, quiet=as_json)
        attempt, campaign, tally = rerun.rerun(
            recorded,
            machines,
            engine=engine,
            view=View(),
            runs=runs,
            agreed=lambda run: listed(run) == allowed,
        )
        was = side("recorded", read_run(recorded.attempt, recorded.campaign))
        now = side("rerun", read_run(attempt, campaign))
        try:
            compared = compare_campaigns(was, now, thresholds([]))
        except UserError:  # neither has a number: how the new one ended was said
            compared = None
        if as_json:
            ended = attempt.outcome
            answer = RerunAnswer(
                campaign=campaign.name,
                folder=str(attempt.path),
                status=ended.status if ended else "pending",
                reason=(ended.reason if ended else "") or "",
                executed=tuple(allowed),
                comparison=json.loads(rendering.to_json(compared)) if compared else None,
            )
            say_json(answer)
        elif compared:
            say(rendering.to_table(compared, terminal_width()), end="")
    return tally.exit_code


@contextmanager
def _recorded(chosen: argparse.Namespace) -> Iterator[Recorded]:
    """Read what is to be run again; a bundle is unpacked as long as the block lasts."""
    from dataclasses import replace

    from runner.archive import archive
    from runner.folder import names
    from runner.launch import rerun

    if chosen.what.is_file() or (chosen.what / names.PUBLISHED).is_file():
        with archive.opened(chosen.runs, str(chosen.what.resolve())) as source:
            run = rerun.of_bundle(source.campaign, chosen.cell, chosen.repeat)
            yield replace(run, own=False)
    elif chosen.cell or chosen.repeat:
        raise UserError(f"--cell and --repeat choose a run of a bundle; {chosen.what} is not one")
    else:
        yield rerun.recorded(chosen.what)


def _agree(lines: Sequence[str], nodes: int, *, sure: bool, quiet: bool) -> None:
    """Show what would be executed (not if `quiet`), and ask a person.

    Raises UserError without a yes.
    """
    from runner.base.escapes import TerminalLine

    if quiet and not sure:
        raise UserError("--format json cannot ask you; read the run without it, then add --yes")
    for line in () if quiet else lines:
        say(line)
    if sure:
        return
    if not can_ask():
        raise UserError("nobody can be asked here; read the above, then add --yes to run it")
    on = "this node" if nodes == 1 else f"these {nodes} nodes"
    question = f"Execute this, all {len(lines)} lines above, on {on}? [y/N] "
    try:
        answer = input(TerminalLine(question)).strip().lower()
    except EOFError:
        answer = ""
    if answer not in ("y", "yes"):
        raise UserError("you did not say yes, so nothing was executed")
