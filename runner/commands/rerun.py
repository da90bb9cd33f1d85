"""`python -m runner rerun RUN_DIR`: one recorded run once more, beside what it was."""

import argparse
from pathlib import Path

from runner.base.options import Commands, new_command
from runner.base.paths import found
from runner.base.streams import say, terminal_width

DESCRIPTION = """\
Run one recorded run again: the same command, environment and nodes, from its run.json.

The new run lies in the campaign rerun-<campaign>, beside the old one, as one more repeat of its
cell; the old campaign's table stays what it was (`bench --again --only CELL` replaces a result in
its own campaign). It is refused where the inventory, or what is installed on the nodes, is not what
it was, and says what differs. At the end the two are compared.

What run.json says is executed on the nodes, whoever wrote it: look before you run what somebody
else recorded.

  python -m runner rerun \\
    runs/quickstart-local/devices_per_node=1,zero_stage=0-4c0397a0/repeat1/attempt1

exit codes: 0 the run is ok, 1 it is not, 2 bad input, nothing was launched, 130 Ctrl-C
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(commands, "rerun", "one recorded run once more", DESCRIPTION)
    command.add_argument("run_dir", metavar="RUN_DIR", type=Path, help="an attempt's folder")
    command.add_argument(
        "-i",
        "--inventory",
        type=found,
        help="inventory folder (default: the one of the run's campaign, by its name)",
    )


def run(chosen: argparse.Namespace) -> int:
    """Run it; print how it compares with what was recorded."""
    from runner.base.errors import UserError
    from runner.compare import rendering
    from runner.compare.verdicts import compare_campaigns, side, thresholds
    from runner.inventory.inventory import load_inventory
    from runner.launch import rerun
    from runner.launch.engines import engine_of
    from runner.launch.view import View
    from runner.load.records import record_of

    recorded = rerun.recorded(chosen.run_dir)
    machines = load_inventory(chosen.inventory or rerun.inventory(recorded))
    engine = engine_of(machines, recorded.campaign.path.parent)
    attempt, campaign, tally = rerun.rerun(recorded, machines, engine=engine, view=View())
    was = side("recorded", [record_of(recorded.attempt, recorded.campaign)])
    now = side("rerun", [record_of(attempt, campaign)])
    try:
        compared = compare_campaigns(was, now, thresholds([]))
    except UserError:  # neither has a number: how the new one ended was said
        return tally.exit_code
    say(rendering.to_table(compared, terminal_width()), end="")
    return tally.exit_code
