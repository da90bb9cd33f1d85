"""What several commands have on their command line, each once."""

import argparse
from pathlib import Path
from typing import TypeAlias

from runner.base.called import as_called
from runner.base.paths import DEFAULT_INVENTORY, DEFAULT_RUNS, found

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # no class at run time


def new_command(commands: Commands, name: str, help: str, text: str) -> argparse.ArgumentParser:
    """Add a command: `help` is its line in the list of all, `text` its own, as it is written."""
    return commands.add_parser(
        name,
        help=help,
        description=as_called(text),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_runs(command: argparse.ArgumentParser) -> None:
    """Add `--runs`, the folder of the campaigns."""
    command.add_argument(
        "--runs", type=Path, default=DEFAULT_RUNS, help="folder of the campaigns (default: runs)"
    )


def add_inventory(command: argparse.ArgumentParser) -> None:
    """Add `-i`; without it, the inventory is this machine."""
    command.add_argument(
        "-i",
        "--inventory",
        type=found,
        default=DEFAULT_INVENTORY,
        help="inventory folder (default: inventory/local, this machine)",
    )


def add_only(command: argparse.ArgumentParser) -> None:
    """Add `--only`, the cells that are chosen (runner/matrix/select.py)."""
    command.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="GLOB",
        help="only cells whose name matches, or an AXIS=VALUE of it; may be repeated",
    )
