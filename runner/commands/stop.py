"""`python -m runner stop`: end what a bench left behind, on nodes or in a queue."""

import argparse

from runner.base.options import Commands, add_runs, new_command
from runner.base.paths import DEFAULT_INVENTORY, existing_path
from runner.base.streams import complain, say, say_json
from runner.terms.printed_answers import StopAnswer

DESCRIPTION = """\
End what a bench left behind; with --campaign end a bench that lives, too, as Ctrl-C does.

  python -m runner stop --campaign NAME       the bench of this machine that runs it, and its
                                              jobs, queued and running
  python -m runner stop -i inventory/slurm    all campaigns' jobs
  python -m runner stop -i inventory/mine     over ssh: every run on these nodes, all users'

Jobs are cancelled by id, and only those with the mark that a campaign recorded.
Runs are asked to end first, so that their logs are fetched; the next bench runs them again. Over
ssh, playbooks/stop.yml is played.

exit codes: 0 nothing is left; 2 the nodes or the queue could not be asked; 130 Ctrl-C
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands, "stop", "end what a bench left behind", DESCRIPTION, answers=("stop",)
    )
    which = command.add_mutually_exclusive_group()
    which.add_argument(
        "-i",
        "--inventory",
        type=existing_path,
        default=DEFAULT_INVENTORY,
        help="inventory folder (default: inventory/local, this machine)",
    )
    which.add_argument(
        "--campaign", metavar="NAME", help="stop only this campaign's bench and jobs"
    )
    add_runs(command)


def run(chosen: argparse.Namespace) -> int:
    """End it, and say what was ended; exit code 0. Raises UserError where that fails."""
    from runner.folder.campaign import Campaign
    from runner.inventory.inventory import load_inventory
    from runner.launch.engines import engine_of, stop_jobs
    from runner.launch.interrupts import Interrupts
    from runner.launch.living_bench import end_bench

    interrupts = Interrupts()
    with interrupts.handled():
        if chosen.campaign:
            bench = end_bench(Campaign(chosen.runs / chosen.campaign), interrupts.once)
            lines, campaigns = stop_jobs(
                chosen.runs, chosen.campaign, interrupts.once, needed=not bench
            )
            lines = [bench, *lines] if bench else lines
        else:
            cluster = load_inventory(chosen.inventory)
            lines, campaigns = engine_of(cluster, chosen.runs).stop(interrupts.once)
    if chosen.format == "json":
        alive = tuple(campaign.name for campaign in campaigns if campaign.is_locked())
        say_json(StopAnswer(ended=tuple(lines), go_on=alive))
    else:
        for line in lines or ["there was nothing to end"]:
            say(line)
    for campaign in campaigns:
        if campaign.is_locked():
            complain(
                f"a bench{campaign.by_whom} runs campaign {campaign.name} now, and goes on with the"
                f" next cell: end it by `python -m runner stop --campaign {campaign.name}` there"
            )
    if interrupts.once():
        raise KeyboardInterrupt
    return 0
