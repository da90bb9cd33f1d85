"""`python -m runner stop`: end what a bench left behind, on nodes or in a queue."""

import argparse

from runner.base.options import Commands, add_runs, new_command
from runner.base.paths import DEFAULT_INVENTORY, found
from runner.base.streams import complain, say

DESCRIPTION = """\
End what a bench left behind. Ctrl-C ends a bench that lives; this is for one that is gone.

  python -m runner stop --campaign NAME       this campaign's jobs, queued and running
  python -m runner stop -i inventory/slurm    all campaigns' jobs
  python -m runner stop -i inventory/mine     over ssh: every run on these nodes, whoever's

Jobs are cancelled by id, and only those that carry the mark which a campaign wrote down.
Runs are told to end first, so that their logs come home; the next bench makes them again. Over
ssh, playbooks/stop.yml is played.

exit codes: 0 nothing is left; 2 the nodes or the queue could not be asked; 130 Ctrl-C
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(commands, "stop", "end what a bench left behind", DESCRIPTION)
    which = command.add_mutually_exclusive_group()
    which.add_argument(
        "-i",
        "--inventory",
        type=found,
        default=DEFAULT_INVENTORY,
        help="inventory folder (default: inventory/local, this machine)",
    )
    which.add_argument("--campaign", metavar="NAME", help="jobs of this campaign alone")
    add_runs(command)


def run(chosen: argparse.Namespace) -> int:
    """End it, and say what was ended; exit code 0. Raises UserError where that fails."""
    from runner.inventory.inventory import load_inventory
    from runner.launch.engines import engine_of, stop_jobs
    from runner.launch.interrupts import Interrupts

    interrupts = Interrupts()
    with interrupts.handled():
        if chosen.campaign:
            lines, meant = stop_jobs(chosen.runs, chosen.campaign, interrupts.once)
        else:
            cluster = load_inventory(chosen.inventory)
            lines, meant = engine_of(cluster, chosen.runs).stop(interrupts.once)
    for line in lines or ["there was nothing to end"]:
        say(line)
    for campaign in meant:
        if campaign.is_locked():
            complain(
                f"a bench runs campaign {campaign.name} now, and goes on with the next cell: end it"
                " with Ctrl-C there"
            )
    if interrupts.once():
        raise KeyboardInterrupt
    return 0
