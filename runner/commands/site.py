"""`python -m runner site DIR... -o OUT`: many campaigns as pages that need no server."""

import argparse
from pathlib import Path

from runner.base.options import Commands, new_command
from runner.base.streams import complain, say_json
from runner.base.text import counted
from runner.commands.history import add_sources
from runner.terms.printed_answers import SiteAnswer, Skipped

DESCRIPTION = """\
Write many campaigns as a folder of pages: what got worse, the campaigns, and the report of each.
It opens from disk, and from any host of files.

DIR is a folder of campaigns (runs, which is meant where none is named), one campaign, or an archive
that `export` wrote; several may be named.

  python -m runner site -o pages
  python -m runner site runs exports/*.tar.gz -o public

OUT is a new or an empty folder. What names nodes and people is in it as in the campaigns: `export
--redact` takes it out first.

exit codes: 0 the site was written, 2 bad input, 130 Ctrl-C
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands, "site", "many campaigns as pages to publish", DESCRIPTION, answers=("site",)
    )
    add_sources(command)
    command.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="folder")


def run(chosen: argparse.Namespace) -> int:
    """Write the site."""
    from rich.progress import BarColumn, Progress, TextColumn

    from runner.base.console import Screen
    from runner.history.sources import sources
    from runner.site.site_making import make_site

    campaigns = sources(chosen.sources)
    screen = Screen(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f}"),
    )
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("reading campaigns", total=len(campaigns))
        site, found = make_site(
            campaigns, chosen.output, lambda done: bar.update(task, completed=done)
        )
    still = sum(regression.open for regression in found)
    if chosen.format == "json":
        say_json(
            SiteAnswer(
                index=str(chosen.output / "index.html"),
                campaigns=len(site.campaigns),
                cells=len(site.series),
                open_regressions=still,
                left_out=tuple(Skipped(source=x.source, reason=x.reason) for x in site.left_out),
            )
        )
    for omitted in site.left_out:
        complain(f"left out: {omitted.source}: {omitted.reason}")
    complain(
        f"wrote {chosen.output}/index.html: {counted(len(site.campaigns), 'campaign')},"
        f" {counted(len(site.series), 'cell')}, {counted(still, 'open regression')}"
    )
    return 0
