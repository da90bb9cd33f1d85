"""`python -m runner site DIR... -o OUT`: many campaigns as pages that need no server."""

import argparse
from pathlib import Path

from runner.base.errors import UserError
from runner.base.options import Commands, new_command
from runner.base.streams import complain, say_json
from runner.base.text import counted
from runner.commands.history import add_sources
from runner.terms.printed_answers import SiteAnswer, Skipped

LOG_KIB = 256
MOST_LOG_KIB = 1 << 20

DESCRIPTION = """\
Write many campaigns as a static site: a page each, cells over time with what changed, each campaign
beside the one before, every point with its command, log, environment and verdict, and the
same as plain JSON. It opens from disk, and from any host of files.

DIR is a folder of campaigns (runs, which is meant where none is named), one campaign, or an archive
that `export` wrote; several may be named.

  python -m runner site -o pages
  python -m runner site runs exports/*.tar.gz -o public

OUT is written whole or not at all. A site that is there is replaced; any other folder is refused.
What names nodes and people is in it as in the campaigns: `export --redact` takes it out first.

exit codes: 0 the site was written, 2 bad input, 130 Ctrl-C
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands, "site", "many campaigns as pages to publish", DESCRIPTION, answers=("site",)
    )
    add_sources(command)
    command.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="folder")
    command.add_argument(
        "--log-kib",
        type=int,
        default=LOG_KIB,
        metavar="N",
        help=f"KiB to keep of each log, from both ends (default: {LOG_KIB}; 0: no logs)",
    )


def run(chosen: argparse.Namespace) -> int:
    """Write the site."""
    from rich.progress import BarColumn, Progress, TextColumn

    from runner.base.console import Screen
    from runner.history.sources import sources
    from runner.site.site_making import make_site

    if not 0 <= chosen.log_kib <= MOST_LOG_KIB:
        raise UserError(f"--log-kib {chosen.log_kib}: write a number from 0 to {MOST_LOG_KIB}")
    campaigns = sources(chosen.sources)
    screen = Screen(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f}"),
    )
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("", total=len(campaigns))

        def report_progress(description: str, completed: int, count: int) -> None:
            bar.update(task, description=description, completed=completed, total=count)

        site = make_site(
            campaigns,
            chosen.output,
            log_bytes=chosen.log_kib << 10,
            report_progress=report_progress,
        )
    worse = sum(regression.open for regression in site.regressions)
    if chosen.format == "json":
        say_json(
            SiteAnswer(
                index=str(chosen.output / "index.html"),
                campaigns=len(site.campaigns),
                cells=len(site.series),
                open_regressions=worse,
                left_out=tuple(Skipped(source=x.source, reason=x.reason) for x in site.left_out),
            )
        )
    for omitted in site.left_out:
        complain(f"left out: {omitted.source}: {omitted.reason}")
    complain(
        f"wrote {chosen.output}/index.html: {counted(len(site.campaigns), 'campaign')},"
        f" {counted(len(site.series), 'cell')}, {counted(worse, 'open regression')}"
    )
    return 0
