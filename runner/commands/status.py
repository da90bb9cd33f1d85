"""`python -m runner status`: how far a campaign has got, from another terminal."""

import argparse
import json

from runner.base.options import Commands, add_format, add_runs, new_command
from runner.base.streams import say

DESCRIPTION = """\
Say how far a campaign has got: what has ended and how, what runs now, and about how long it takes.
Reads the campaign's folder, so it may be asked at any time and from any terminal; of jobs that
`bench --submit` left it asks the queue once.

exit codes: 0 printed, 2 there is no such campaign
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = new_command(
        commands,
        "status",
        "how far a campaign has got, from another terminal",
        DESCRIPTION,
        answers=("status",),
        formats=(),
    )
    add_runs(parser)
    parser.add_argument("--campaign", metavar="NAME", help="default: the one run last")
    display = parser.add_mutually_exclusive_group()
    add_format(display, ("table", "json"))
    display.add_argument(
        "--watch", action="store_true", help="follow the progress until the campaign ends"
    )


def run(chosen: argparse.Namespace) -> int:
    """Print how far it is; exit code 0. Raises UserError where there is no such campaign."""
    from runner.folder.campaign import find_campaign
    from runner.launch import status
    from runner.launch.engines import look_in

    campaign = find_campaign(chosen.runs, chosen.campaign)
    if chosen.watch:
        from runner.base.console import Screen
        from runner.launch.following import follow

        progress = follow(campaign, Screen(stderr=True, soft_wrap=True))
    else:
        look_in(campaign)
        progress = status.look(campaign)
    say(json.dumps(progress.to_json(), indent=1) if chosen.format == "json" else progress.words())
    return 0
