"""`python -m runner collect`: a campaign, or a document's figures, as a table."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base.errors import UserError
from runner.base.options import Commands, add_runs, new_command
from runner.base.streams import complain, say, terminal_width, watched
from runner.matrix.table_shape import SHAPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.tables.row import Row

MOST_MIB = 1024  # of logs in a page
HIGHEST_PRICE = 1e9  # of a device-hour
DESCRIPTION = """\
Turn the logs of a campaign into one table. Reads only, so it can be repeated.

  python -m runner collect                                    the newest campaign
  python -m runner collect zero.tar.gz                        what `export` wrote
  python -m runner collect --baseline zero_stage=0            signed differences against a cell
  python -m runner collect --format html --output report.html one self-contained page with plots

exit codes: 0 a table was written, 1 --strict: a cell is not publishable, 2 bad input
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands,
        "collect",
        "logs into tables",
        DESCRIPTION,
        answers=("table", "sheets"),
        formats=("table", "markdown", "csv", "json", "html"),
    )
    add_runs(command)
    which = command.add_mutually_exclusive_group()
    which.add_argument(
        "name",
        nargs="?",
        metavar="CAMPAIGN",
        help="a campaign's name, its folder, or an export (default: the last campaign run)",
    )
    which.add_argument("--campaign", metavar="NAME", help="the same as CAMPAIGN")
    command.add_argument(
        "--baseline", metavar="AXIS=VALUE", help="compare with these cells (default: the matrix's)"
    )
    command.add_argument(
        "--shape",
        metavar="NAME",
        help=f"arrange the table as a published document (docs/documents.md): {', '.join(SHAPES)}"
        " (default: the matrix's)",
    )
    command.add_argument(
        "--published",
        type=Path,
        metavar="FILE",
        help="recompute a document's published figures in --shape; reads no campaign",
    )
    command.add_argument("--output", type=Path, help="write to this file instead of the terminal")
    command.add_argument(
        "--logs",
        type=_mebibytes,
        default=None,
        metavar="MIB",
        help="with --format html, embed whole logs up to this total compressed size (default: 5; 0:"
        " only last lines and links)",
    )
    command.add_argument(
        "--notes",
        action="store_true",
        help="print all that is to be known of the figures below the table",
    )
    command.add_argument(
        "--wide", action="store_true", help="print every column that says something"
    )
    command.add_argument(
        "--device-hour",
        type=_price,
        metavar="PRICE",
        help="what an hour of one device costs, in any currency: adds the cost per million tokens"
        " and to the target loss (docs/how-to/expect.md)",
    )
    command.add_argument(
        "--strict",
        action="store_true",
        help="exit with 1 if a cell is not publishable, and print why (docs/measures.md)",
    )


def _mebibytes(text: str) -> float:
    """Read a size in MiB."""
    try:
        size = float(text)
    except ValueError:
        size = -1.0
    if not 0 <= size <= MOST_MIB:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size in MiB from 0 to {MOST_MIB}")
    return size


def _price(text: str) -> float:
    """Read the price of a device-hour."""
    try:
        price = float(text)
    except ValueError:
        price = 0.0
    if not 0 < price <= HIGHEST_PRICE:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a price; give a number above 0, such as 2.50"
        )
    return price


def run(chosen: argparse.Namespace) -> int:
    """Print or write the table; exit code 1 where it is to be publishable, and is not."""
    if chosen.logs is not None and chosen.format != "html":
        raise UserError("--logs says how much of the logs a page has; it needs --format html")
    if chosen.format == "html" and chosen.output is None and watched():
        raise UserError("a page is for a browser: name its file with --output report.html")
    if chosen.published is not None and chosen.device_hour is not None:
        raise UserError(
            "--device-hour applies to a campaign's cells; leave it out with --published"
        )
    if chosen.published is not None:
        _print_published(chosen)
        return 0
    table = print_campaign(
        chosen.runs,
        chosen.name or chosen.campaign,
        chosen.baseline,
        chosen.format,
        chosen.output,
        chosen.shape,
        wide=chosen.wide,
        all_notes=chosen.notes,
        logs_mib=chosen.logs,
        device_hour=chosen.device_hour,
    )
    return _refused(table) if chosen.strict else 0


def _refused(table: Sequence[Row]) -> int:
    """Say which cells are not publishable, and why; the exit code."""
    from runner.tables.notes import why_not
    from runner.tables.row import PUBLISHABLE

    for row in table:
        if why := why_not(row):
            complain(f"not publishable: {row['cell']}: {why}")
    return 0 if all(row["verdict"] == PUBLISHABLE for row in table) else 1


def _print_published(chosen: argparse.Namespace) -> None:
    from runner.matrix.dialect import read_file, read_yaml
    from runner.matrix.published import check_published, published_rows
    from runner.matrix.table_shape import shape_of
    from runner.report.formats import render
    from runner.tables.campaign_document import CampaignDocument

    if chosen.shape in (None, "flat") or chosen.format == "html" or chosen.strict:
        needs = "--shape osdi or ascend, and no --format html or --strict"
        raise UserError(f"--published needs {needs}")
    layout, where = shape_of({}, chosen.shape), str(chosen.published)
    text = read_file(chosen.published, "published figures, as matrices/documents/published/ has")
    documents = published_rows(check_published(read_yaml(text, where), where))
    document = CampaignDocument(layout=layout, published=documents)
    _write(render(document, chosen.format), chosen.output)


def print_campaign(
    runs: Path,
    name: str | None,
    baseline: str | None,
    format: str,
    output: Path | None,
    shape: str | None = None,
    *,
    wide: bool = False,
    all_notes: bool = False,
    logs_mib: float | None = None,
    device_hour: float | None = None,
) -> Sequence[Row]:
    """Print a campaign's table, or write it to `output`; its rows. A text table has what a
    comparison needs, unless it is `wide` or has `all_notes`.

    A page has whole logs up to `logs_mib`; `device_hour` is the price of one. Raises UserError
    without a campaign.
    """
    from runner.archive import archive
    from runner.report.formats import render
    from runner.tables.campaign_reading import PAGE_LOGS_MIB, read_campaign

    base = output.parent if output else Path.cwd()
    most_mib = PAGE_LOGS_MIB if logs_mib is None else logs_mib
    with archive.opened(runs, name) as source:
        document = read_campaign(
            source.campaign,
            base.resolve(),
            reader_path=source.shown,
            baseline=baseline,
            shape=shape,
            evidence=format in ("html", "json"),
            tails=format == "html",
            logs_mib=most_mib if format == "html" else 0,
            device_hour=device_hour,
        )
    text = render(document, format, width=terminal_width(), wide=wide, all_notes=all_notes)
    _write(text, output)
    if document.hidden and (format == "csv" or output):  # others read a file; CSV cannot say it
        complain(document.hidden)
    return document.rows


def _write(text: str, output: Path | None) -> None:
    from runner.base.files import write_text

    if output is None:
        say(text, end="")
        return
    write_text(output, text)
    complain(f"wrote {output}")
