"""`python -m runner compare A B`: what got slower, broke or vanished between two campaigns."""

import argparse
from pathlib import Path
from typing import Any

from runner.base.errors import UserError
from runner.base.options import Commands, add_only, add_runs, new_command
from runner.base.streams import say, terminal_width

CANNOT_TELL_CODE = 3
DESCRIPTION = """\
Compare campaign B with campaign A, cell by cell: say what got slower beyond noise, what needs
more memory, broke, vanished, or is new. What the two ran on stands above the table where it
differs.

A and B are each the name of a campaign, its folder, an archive that `export` wrote, or a table
that `collect --format json` wrote.

  python -m runner compare zero-vs zero-vs-new
  python -m runner compare baseline.json zero-vs --threshold samples_per_s=5%
  python -m runner compare zero-vs part --only nodes=1 --allow-missing
  python -m runner compare a.tar.gz b.tar.gz --format markdown
  python -m runner compare a b --junit compare.xml     for CI: a test case for each cell

A cell is worse when a quantity differs by more than its threshold (3 % of samples_per_s and of each
figure of memory unless you set another) and by more than the noise between the runs of both sides.
Where too few runs show that noise, the verdict is cannot_tell, and a note says how many repeats it
takes: at least two on each side, three or more to see small differences. RSS is judged with two
repeats on each side or more. A cell that was ok and is not, or is gone, is a regression, too. Of a
campaign that bench runs now, what has ended is compared, and exit code 0 means: no regression so
far.


exit codes: 0 no regression, 1 a regression, 2 bad input, or nothing that can be compared,
3 no regression found, but at least one cell is too noisy to judge
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands,
        "compare",
        "two campaigns, or one with a saved table; exit code 1 on a regression",
        DESCRIPTION,
        answers=("compare",),
        formats=("table", "markdown", "json"),
    )
    command.add_argument("a", metavar="A", help="the table to compare with")
    command.add_argument("b", metavar="B", help="the table to judge")
    add_runs(command)
    command.add_argument(
        "--threshold",
        action="append",
        default=[],
        metavar="QUANTITY=PERCENT%",
        help="of samples_per_s, memory_allocated_mib, memory_reserved_mib, memory_used_mib,"
        " memory_rss_mib; step_time_ms and final_loss"
        " count only if named here; may be repeated",
    )
    add_only(command)
    command.add_argument(
        "--allow-missing",
        action="store_true",
        help="B may have fewer cells: a missing cell is not a regression",
    )
    command.add_argument(
        "--junit",
        type=Path,
        metavar="FILE",
        help="also write JUnit XML: worse cells fail, those without a result are skipped",
    )


def run(chosen: argparse.Namespace) -> int:
    """Print the comparison; exit code 1 where something is worse, 3 where nobody can tell."""
    from runner.base.files import write_text
    from runner.compare import rendering
    from runner.compare.verdicts import compare_campaigns, thresholds

    limits = thresholds(chosen.threshold)
    a, b = _side(chosen.a, chosen.runs), _side(chosen.b, chosen.runs)
    comparison = compare_campaigns(
        a, b, limits, only=chosen.only, allow_missing=chosen.allow_missing
    )
    if chosen.format == "json":
        text = rendering.to_json(comparison)
    elif chosen.format == "markdown":
        text = rendering.to_markdown(comparison)
    else:
        text = rendering.to_table(comparison, terminal_width())
    if chosen.junit is not None:
        write_text(chosen.junit, rendering.to_junit(comparison))
    say(text, end="")
    return 1 if comparison.regressions else CANNOT_TELL_CODE if comparison.untold else 0


def _side(name: str, runs: Path) -> Any:
    from node.parsing import MOST_BYTES, parse
    from node.schema import MOST_DEPTH, MOST_ITEMS, Plain, UnfitError
    from runner.archive import archive
    from runner.base.files import read_text
    from runner.compare.side import saved, side
    from runner.tables.campaign_reading import read_campaign

    path = Path(name)
    if path.is_file():
        with path.open("rb") as stream:
            begins = stream.read(1)
        if begins != b"\x1f":  # not gzip
            try:
                text = read_text(path, MOST_BYTES, "a saved table")
                return saved(name, parse(text, Plain(MOST_DEPTH, MOST_ITEMS, lines=True)))
            except UnfitError:
                raise UserError(
                    f"{name} is neither an archive of `export` nor a table of"
                    " `collect --format json`"
                ) from None
    with archive.opened(runs, name) as source:
        return side(name, read_campaign(source.campaign, Path.cwd(), reader_path=source.shown))
