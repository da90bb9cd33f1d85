"""`python -m runner history DIR...`: what got worse over many campaigns."""

import argparse
from pathlib import Path

from runner.base.errors import UserError
from runner.base.options import Commands, new_command
from runner.base.paths import DEFAULT_RUNS
from runner.base.streams import complain, say, terminal_width, watched

DESCRIPTION = """\
List what got slower, needs more memory or broke over many campaigns, the newest first: each cell's
campaigns one after the other, with the change points of its figures, and the commits, drivers and
versions that changed there. Reads only.

DIR is a folder of campaigns (runs, which is meant where none is named), one campaign, or an archive
that `export` wrote; several may be named.

  python -m runner history
  python -m runner history runs nightly/*.tar.gz --cell nodes=2
  python -m runner history runs --strict
  python -m runner history --format html --output index.html   a page, with links to reports

A change is found once two campaigns have it, and of five campaigns on; `compare` tells two apart.
docs/measures.md says how, and how surely. What is imported is listed, and not judged. A page links
the report of the campaign runs/NAME where that is runs/NAME.html.

exit codes: 0 the list was printed, 1 --strict: a regression is open, 2 bad input
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands,
        "history",
        "what got worse over many campaigns, and what changed",
        DESCRIPTION,
        answers=("regressions",),
        formats=("table", "json", "markdown", "html"),
    )
    command.add_argument(
        "sources",
        nargs="*",
        type=Path,
        default=[DEFAULT_RUNS],
        metavar="DIR",
        help="folders of campaigns, campaigns, exports (default: runs)",
    )
    command.add_argument(
        "--cell",
        action="append",
        default=[],
        metavar="GLOB",
        help="only cells whose name matches, or an AXIS=VALUE of it; may be repeated",
    )
    command.add_argument(
        "--strict", action="store_true", help="exit with 1 if a regression is open"
    )
    command.add_argument("--output", type=Path, help="write to this file instead of the terminal")


def run(chosen: argparse.Namespace) -> int:
    """Print the list; exit code 1 where something is worse and that was asked."""
    from runner.base.files import write_text
    from runner.compare import regressions
    from runner.compare.reading import all_series, read_all, slug, sources
    from runner.matrix.select import choose

    if chosen.format == "html" and chosen.output is None and watched():
        raise UserError("a page is for a browser: name its file with --output index.html")
    campaigns, left_out = read_all(sources(chosen.sources))
    if not campaigns:
        raise UserError(f"none of {len(left_out)} can be read: {left_out[0][1]}")
    every = all_series(campaigns)
    if every or chosen.cell:
        every = choose(every, chosen.cell, lambda series: (series[-1].cell, slug(series)), "--cell")
    changes = regressions.regressions(every, campaigns)
    read = regressions.Listed(campaigns, left_out, every)
    if chosen.format == "json":
        text = regressions.to_json(changes, read)
    elif chosen.format == "markdown":
        text = regressions.to_markdown(changes, read)
    elif chosen.format == "html":
        base = chosen.output.parent if chosen.output else Path.cwd()
        text = regressions.to_html(changes, read, base)
    else:
        text = regressions.to_table(changes, read, terminal_width())
    if chosen.output is None:
        say(text, end="")
    else:
        write_text(chosen.output, text)
        complain(f"wrote {chosen.output}")
    return 1 if chosen.strict and any(change.open for change in changes) else 0
