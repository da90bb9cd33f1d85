"""`python -m runner doctor`: are the nodes of an inventory alike, and as fast as each other?"""

import argparse
import json
import shutil
from pathlib import Path

from runner.base.options import Commands, add_inventory, new_command
from runner.base.paths import DEFAULT_RUNS
from runner.base.streams import say

DESCRIPTION = """\
Ask every node of an inventory what it is, compare all of them, and measure their devices and
network. The odd node, the slow device and the slow pair are named.

  python -m runner doctor                                  this machine
  python -m runner doctor -i inventory/mine                all of it, under a minute
  python -m runner doctor -i inventory/mine --only env     as playbooks/verify.yml, seconds
  python -m runner doctor -i inventory/mine --format json

env       each role's verify checks, and each node's versions, settings, links, clock
devices   matrix product TFLOP/s (fp32, tf32, bf16, fp16) and memory bandwidth GB/s of every device
network   all-reduce bus bandwidth GB/s within each node, between all, and of every pair of nodes

devices and network run in torch, in a system's environment that setup put on the nodes; a run of
bench on the same nodes must have ended. On Slurm doctor makes an allocation, or uses the
one that it is started in (salloc -N 32 python -m runner doctor ...). docs/how-to/accept.md: items,
thresholds, JSON.

exit codes: 0 healthy; 1 something makes comparisons unfair; 2 something could not be checked (bad
inventory, a node out of reach, no torch); 130 Ctrl-C
"""
ONLY = ("env", "devices", "network")


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands,
        "doctor",
        "are the nodes alike, and as fast as each other?",
        DESCRIPTION,
        answers=("doctor",),
        formats=("table", "json"),
    )
    add_inventory(command)
    command.add_argument(
        "--only",
        choices=ONLY,
        action="append",
        default=[],
        help="run this part only; may be repeated",
    )
    command.add_argument(
        "--runs", type=Path, default=DEFAULT_RUNS, help="results go to RUNS/.doctor (default: runs)"
    )
    command.add_argument(
        "--from",
        dest="folder",
        type=Path,
        metavar="FOLDER",
        help="compare again the results that verify or doctor stored in FOLDER; no connection",
    )


def run(chosen: argparse.Namespace) -> int:
    """Ask, compare, measure; print one table or one JSON object."""
    from runner.doctor.answer import gather
    from runner.folder.checkup import Checkup

    # Where nobody watches, nothing needs to be left out to fit.
    width = shutil.get_terminal_size((160, 24)).columns
    if chosen.folder is not None:
        answer = gather(Checkup(chosen.folder))
    else:
        from runner.doctor.asking import ask

        answer = ask(chosen.inventory, chosen.runs, tuple(chosen.only) or ONLY)
    if chosen.format == "json":
        say(json.dumps(answer.as_json(width), indent=1))
    else:
        from runner.base.console import Screen

        console = Screen(width=width)
        for section in answer.parts(width):
            console.print(section)
    return answer.exit_code
