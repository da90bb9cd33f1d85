"""`python -m runner rerun WHAT`: one recorded run once more, one's own or of a bundle."""

from __future__ import annotations

import argparse
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base.errors import UserError
from runner.base.options import Commands, add_runs, new_command
from runner.base.paths import found
from runner.base.streams import say, terminal_width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.launch.rerun import Recorded
    from runner.terms.cluster import Cluster

DESCRIPTION = """\
Run one recorded run again: the same command and environment, from its run.json.

Of a run of your own (its folder): on the same nodes, refused where the inventory, or what is
installed on the nodes, is not what it was, and says what differs.

  python -m runner rerun \\
    runs/quickstart-local/devices_per_node=1,zero_stage=0-4c0397a0/repeat1/attempt1

Of a bundle (`publish`, `export`), whoever made it: on nodes of yours. It shows what it would
execute, node by node, and what of it is not as recorded (your nodes, their root folder, the first
one's address), and asks; --yes is for scripts. What is installed on the nodes must be the same.

  python -m runner rerun zero.publication.tar.gz --cell zero_stage=1 -i inventory/mine

The new run lies in the campaign rerun-<campaign>, as one more repeat of its cell; the old
campaign's table stays what it was (`bench --again --only CELL` replaces a result in its own
campaign). At the end the two are compared.

What a run says is executed on the nodes, whoever wrote it: look before you say yes.

exit codes: 0 the run is ok, 1 it is not, 2 bad input, nothing was launched, 130 Ctrl-C
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(commands, "rerun", "one recorded run once more", DESCRIPTION)
    command.add_argument("what", metavar="WHAT", type=Path, help="an attempt's folder, or a bundle")
    command.add_argument(
        "-i",
        "--inventory",
        type=found,
        help="inventory folder (default: the one of the run's campaign, by its name; of a bundle"
        " there is none)",
    )
    command.add_argument("--cell", metavar="CELL", help="of a bundle, by its name or id")
    command.add_argument(
        "--repeat", type=_number, metavar="N", help="of a bundle (default: the first that is ok)"
    )
    command.add_argument("--yes", action="store_true", help="of a bundle: do not ask")
    add_runs(command)


def _number(word: str) -> int:
    """Read a repeat's number."""
    if not (word.isascii() and word.isdecimal() and int(word[:9]) > 0):
        raise argparse.ArgumentTypeError(f"{word!r} is not a whole number of at least 1")
    return int(word)


def run(chosen: argparse.Namespace) -> int:
    """Run it; print how it compares with what was recorded."""
    from runner.compare import rendering
    from runner.compare.verdicts import compare_campaigns, side, thresholds
    from runner.launch import rerun
    from runner.launch.engines import engine_of
    from runner.launch.view import View
    from runner.load.records import record_of

    with _recorded(chosen) as (recorded, machines, runs):
        engine = engine_of(machines, runs)
        attempt, campaign, tally = rerun.rerun(
            recorded, machines, engine=engine, view=View(), runs=runs
        )
        was = side("recorded", [record_of(recorded.attempt, recorded.campaign)])
        now = side("rerun", [record_of(attempt, campaign)])
        try:
            compared = compare_campaigns(was, now, thresholds([]))
        except UserError:  # neither has a number: how the new one ended was said
            return tally.exit_code
        say(rendering.to_table(compared, terminal_width()), end="")
    return tally.exit_code


@contextmanager
def _recorded(chosen: argparse.Namespace) -> Iterator[tuple[Recorded, Cluster, Path]]:
    """Read what is to be run, where, and in which folder of runs; a bundle is asked about."""
    from runner.folder import names
    from runner.inventory.inventory import load_inventory
    from runner.launch import rerun

    if chosen.what.is_file() or (chosen.what / names.PUBLISHED).is_file():
        with _of_bundle(chosen) as found:
            yield found
        return
    if chosen.cell or chosen.repeat or chosen.yes:
        raise UserError(
            f"--cell, --repeat and --yes are of a bundle, and {chosen.what} is none; name its file"
        )
    recorded = rerun.recorded(chosen.what)
    home = recorded.campaign.path
    if (home / names.PUBLISHED).is_file():
        raise UserError(f"{chosen.what} is of a bundle; name {home} and --cell, to be asked first")
    machines = load_inventory(chosen.inventory or rerun.inventory(recorded))
    yield recorded, machines, home.parent


@contextmanager
def _of_bundle(chosen: argparse.Namespace) -> Iterator[tuple[Recorded, Cluster, Path]]:
    """Show what a bundle's run would execute here, and ask. Raises UserError without a yes."""
    from dataclasses import replace

    from runner.archive import archive
    from runner.inventory.inventory import load_inventory
    from runner.launch import rerun
    from runner.plan.rehomed import rehome
    from runner.plan.shown import would_execute

    if chosen.inventory is None:
        raise UserError("name the nodes that a bundle's run is to be made on: -i INVENTORY")
    name = str(chosen.what.resolve())
    with archive.opened(chosen.runs, name) as source:
        recorded = rerun.of_bundle(source.campaign, chosen.cell, chosen.repeat)
        machines = load_inventory(chosen.inventory)
        rehomed = rehome(recorded.run, machines)
        for line in would_execute(rehomed):
            say(line)
        if not chosen.yes:
            _agree(len(rehomed.run.nodes))
        settings = replace(
            recorded.settings, inventory=machines.name, inventory_digest=machines.digest
        )
        yield replace(recorded, run=rehomed.run, settings=settings), machines, chosen.runs


def _agree(nodes: int) -> None:
    """Ask a person. Raises UserError where there is none, or no yes."""
    from runner.base.escapes import TerminalLine

    if not sys.stdin.isatty():
        raise UserError("nobody is there to be asked; read the above, and say --yes to have it run")
    on = "this node" if nodes == 1 else f"these {nodes} nodes"
    try:
        answer = input(TerminalLine(f"Execute this on {on}? [y/N] ")).strip().lower()
    except EOFError:
        answer = ""
    if answer not in ("y", "yes"):
        raise UserError("you did not say yes, so nothing was executed")
