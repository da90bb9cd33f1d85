"""The command line: `python -m runner COMMAND`; most commands are in runner/commands/."""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import shutil
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from runner import __version__
from runner.commands import compare, doctor, export, parse, rerun, status, systems
from runner.errors import UserError
from runner.layouts import SHAPES
from runner.paths import DEFAULT_INVENTORY, DEFAULT_RUNS

OWN = {
    "status": status,
    "parse": parse,
    "compare": compare,
    "export": export,
    "rerun": rerun,
    "doctor": doctor,
    "systems": systems,
}

EXIT_CODES = "exit codes: 0 all ok, 1 a cell failed or none ran, 2 bad input, 130 Ctrl-C"

BENCH = f"""\
Run a matrix of training cells on the nodes of an inventory, one cell after the other.

Before anything starts every cell is checked, and every node asked whether it is set up. A
finished cell is not run again: the same command goes on where it stopped. Logs, plans and
outcomes land under RUNS/<matrix name>-<inventory name>/; `collect` turns them into tables.
docs/matrix.md explains the matrix file, key by key.

  python -m runner bench --matrix matrix.yaml                      the quickstart, on this machine
  python -m runner bench --matrix matrix.yaml --dry-run            what would run, exactly
  python -m runner bench --matrix m.yaml -i inventory/mine --only '*zero_stage=1*'

{EXIT_CODES}
"""

COLLECT = """\
Turn the logs of a campaign into one table. Reads only; it can be repeated for ever.

  python -m runner collect                                    the newest campaign
  python -m runner collect --campaign zero.tar.gz             what `export` wrote
  python -m runner collect --baseline zero_stage=0            signed differences against a cell
  python -m runner collect --format html --output report.html one self-contained page with plots

exit codes: 0 a table was written, 2 bad input
"""


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="python -m runner",
        description="From bare nodes to a comparison table of distributed GPT training.",
    )
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    raw = argparse.RawDescriptionHelpFormatter

    bench = commands.add_parser(
        "bench", help="run a matrix of training cells", description=BENCH, formatter_class=raw
    )
    bench.add_argument(
        "--matrix", type=Path, required=True, help="the matrix file (docs/matrix.md)"
    )
    bench.add_argument(
        "-i",
        "--inventory",
        type=Path,
        default=DEFAULT_INVENTORY,
        help="inventory folder (default: inventory/local, this machine)",
    )
    _add_runs(bench)
    bench.add_argument("--dry-run", action="store_true", help="show what would run; no connection")
    bench.add_argument(
        "--only", action="append", default=[], metavar="GLOB", help="only cells whose name matches"
    )
    bench.add_argument("--again", action="store_true", help="run finished cells once more, too")
    bench.add_argument(
        "--retry", type=_count, default=0, metavar="N", help="try a run that fails N times more"
    )
    bench.add_argument(
        "--stop-after", type=_seconds, metavar="S",
        help="end after S seconds, whatever runs; the same command goes on there",
    )  # fmt: skip
    bench.add_argument(
        "--format",
        choices=("table", "json"),
        default="table",
        help="of what is printed at the end, or by --dry-run",
    )

    collect = commands.add_parser(
        "collect", help="logs into tables", description=COLLECT, formatter_class=raw
    )
    _add_runs(collect)
    collect.add_argument(
        "--campaign", metavar="NAME", help="or its folder, or an export (default: the one run last)"
    )
    collect.add_argument(
        "--baseline", metavar="AXIS=VALUE", help="compare with these cells (default: the matrix's)"
    )
    collect.add_argument(
        "--format", choices=("table", "markdown", "csv", "json", "html"), default="table"
    )
    collect.add_argument(
        "--shape",
        metavar="NAME",
        help=f"a document's table: {', '.join(SHAPES)} (default: the matrix's)",
    )
    collect.add_argument(
        "--published",
        type=Path,
        metavar="FILE",
        help="a document's own figures in --shape, computed anew; reads no campaign",
    )
    collect.add_argument("--output", type=Path, help="write to this file, not to the terminal")

    for module in OWN.values():
        module.add_parser(commands)

    return top


def _count(word: str) -> int:
    """A whole number of at least 0."""
    if not word.isdecimal():
        raise argparse.ArgumentTypeError(f"{word!r} is no whole number of at least 0")
    return int(word)


def _seconds(word: str) -> float:
    """A number of seconds above 0."""
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not 0 < value < threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(
            f"{word!r} is no number of seconds above 0 and below {threading.TIMEOUT_MAX:.0f}"
        )
    return value


def _add_runs(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--runs", type=Path, default=DEFAULT_RUNS, help="folder of the campaigns (default: runs)"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may know fewer characters than a log
            stream.reconfigure(errors="replace")
    chosen = parser().parse_args(arguments)
    try:
        if chosen.command == "bench":
            return _bench(chosen)
        if chosen.command == "collect":
            return _collect(chosen)
        return int(OWN[chosen.command].run(chosen))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            _nobody_reads()
            return 0
        where = f"{error.filename}: " if error.filename else ""
        cure = "make room or rights there, or name another folder with --runs"
        print(f"error: {where}{error.strerror}; {cure}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def _bench(chosen: argparse.Namespace) -> int:
    from runner import bench, cluster, matrix, rundir
    from runner.dryrun import describe
    from runner.view import View

    for path in (chosen.runs, chosen.inventory):
        # These pass through Ansible's variables, where a template would be resolved.
        if any(mark in str(path.resolve()) for mark in ("{{", "{%", "{#")):
            raise UserError(f"the path {path} holds a template mark; name one without {{{{ or {{%")
    wanted = matrix.load(chosen.matrix)
    machines = cluster.load(chosen.inventory)
    if chosen.dry_run:
        plans = bench.dry_run(wanted, machines, chosen.only)
        print(json.dumps(plans, indent=1) if chosen.format == "json" else describe(plans, machines))
        return 0
    tally = bench.bench(
        wanted,
        machines,
        chosen.runs,
        only=chosen.only,
        again=chosen.again,
        retry=chosen.retry,
        limit_s=chosen.stop_after,
        view=View(),
    )
    name = bench.campaign_name(wanted, machines)
    if rundir.Campaign(chosen.runs / name).begun:
        try:
            _print_campaign(chosen.runs, name, None, chosen.format, None)
        except BrokenPipeError:
            _nobody_reads()
    return tally.exit_code


def _nobody_reads() -> None:
    """Whoever read our output has gone: what is left of it goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _collect(chosen: argparse.Namespace) -> int:
    if chosen.published is not None:
        _print_published(chosen)
        return 0
    _print_campaign(
        chosen.runs, chosen.campaign, chosen.baseline, chosen.format, chosen.output, chosen.shape
    )
    return 0


def _print_published(chosen: argparse.Namespace) -> None:
    from runner import collect, layouts, matrix, published

    if chosen.shape in (None, "flat") or chosen.format == "html":
        raise UserError("--published needs --shape osdi or ascend, and no --format html")
    layout, where = layouts.of({}, chosen.shape), str(chosen.published)
    try:
        text = chosen.published.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{where} cannot be read; see matrices/published/") from None
    documents = published.rows(published.check(matrix.read_yaml(text, where), where))
    _write(collect.render([], chosen.format, layout=layout, published=documents), chosen.output)


def _print_campaign(
    runs: Path,
    name: str | None,
    baseline: str | None,
    format: str,
    output: Path | None,
    shape: str | None = None,
) -> None:
    from runner import archive, collect, load

    base = output.parent if output else Path.cwd()
    with archive.opened(runs, name) as found:
        records = load.records(found.campaign, base.resolve(), shown=found.shown)
        layout, documents = load.shown(found.campaign, shape)
        baseline = baseline or (found.campaign.settings or {}).get("baseline")
    # Where nobody watches, nothing needs to be left out to fit.
    width = shutil.get_terminal_size((200, 24)).columns
    text = collect.render(
        records, format, baseline, width=width, layout=layout, published=documents
    )
    _write(text, output)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        print(text, end="")
        return
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{output} cannot be written: {error.strerror}") from None
    print(f"wrote {output}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
