"""`python -m runner export CAMPAIGN`: a campaign as one archive."""

import argparse
from pathlib import Path

from node.program_output import os_error_words
from runner.base.errors import UserError
from runner.base.options import Commands, add_runs, new_command
from runner.base.streams import complain, say_json
from runner.base.text import counted
from runner.terms.printed_answers import ExportAnswer

DESCRIPTION = """\
Write a campaign as one archive: matrix, logs, plans, outcomes, environment, and today's tables.

`collect --campaign FILE` and `compare` read it as they read the campaign's folder. The same
campaign gives the same bytes. Secrets are masked. Without --redact the rest is as in the folder:
host names, addresses and the trainers' environment variables.

  python -m runner export quickstart-local                       quickstart-local.tar.gz, here
  python -m runner export runs/zero-vs -o zero.tar.gz --redact   to be shown to others

--redact puts node1, address1, user1 in place of host names, addresses, user names and home
folders, the same everywhere, also inside logs. It cannot know a host that the campaign never
names: look before you publish.

exit codes: 0 it was written, 2 bad input
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands, "export", "a campaign as one archive", DESCRIPTION, answers=("export",)
    )
    command.add_argument("campaign", metavar="CAMPAIGN", help="its name, or its folder")
    add_runs(command)
    command.add_argument(
        "-o", "--output", type=Path, metavar="PATH", help="default: CAMPAIGN.tar.gz, here"
    )
    command.add_argument("--redact", action="store_true", help="remove names and addresses")


def run(chosen: argparse.Namespace) -> int:
    """Write the archive; say where."""
    from rich.filesize import decimal

    from runner.archive import archive
    from runner.archive.export import export

    with archive.opened(chosen.runs, chosen.campaign) as source:
        target = chosen.output or Path(f"{source.campaign.name}.tar.gz")
        if target.is_dir():
            raise UserError(f"{target} is a folder; name a file, such as {target}/campaign.tar.gz")
        try:
            export(source.campaign, target, redact=chosen.redact)
        except OSError as error:
            why = os_error_words(error, str(target.absolute().parent))
            raise UserError(f"{target} cannot be written: {why}") from None
        hidden = source.campaign.hidden.words
        unfit = archive.unfit_files(source.campaign.path)
    complain(f"wrote {target}, {decimal(target.stat().st_size)}")
    if chosen.format == "json":
        say_json(
            ExportAnswer(
                path=str(target),
                bytes=target.stat().st_size,
                left_out=tuple(unfit),
                hidden=hidden,
            )
        )
    if unfit:
        complain(
            f"{counted(len(unfit), 'file')} left out, such as {Path(unfit[0]).name[:80]}:"
            " an archive has no names of such length, or in so many folders"
        )
    if hidden:
        complain(f"{hidden}; the archive has them, its tables do not")
    return 0
