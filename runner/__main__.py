"""The command line: `python -m runner COMMAND`; runner/commands/ has a file each."""

import argparse
import io
import sys
from collections.abc import Sequence

from runner import __version__
from runner.base.errors import UserError
from runner.base.streams import nobody_reads
from runner.commands import bench, collect, compare, doctor, export, parse, rerun, status, systems

# In the order of --help.
COMMANDS = (bench, collect, status, parse, compare, export, rerun, doctor, systems)
BY_NAME = {module.__name__.rpartition(".")[2]: module for module in COMMANDS}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="python -m runner",
        description="From bare nodes to a comparison table of distributed GPT training.",
    )
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.add_parser(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may know fewer characters than a log
            stream.reconfigure(errors="replace")
    chosen = parser().parse_args(arguments)
    try:
        return int(BY_NAME[chosen.command].run(chosen))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            nobody_reads()
            return 0
        where = f"{error.filename}: " if error.filename else ""
        cure = "make room or rights there, or name another folder with --runs"
        print(f"error: {where}{error.strerror}; {cure}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
