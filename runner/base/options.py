"""What several commands have on their command line, each once."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from runner.base.paths import DEFAULT_INVENTORY, DEFAULT_RUNS, existing_path
from runner.base.program_name import as_called

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # no class at run time


class _Help(argparse.RawDescriptionHelpFormatter):
    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        """Show what must be given alone; the options are listed below."""
        named = [action for action in actions if action.required or not action.option_strings]
        super().add_usage(usage, named, [], prefix)


def new_command(
    commands: Commands,
    name: str,
    help: str,
    text: str,
    *,
    answers: Sequence[str],
    formats: Sequence[str] = ("text", "json"),
) -> argparse.ArgumentParser:
    """Add a command: `help` is its line in the list of all, `text` its own, as it is written.

    `answers` names the schemas of what it prints with `--format json`. `formats` is
    what --format may be, the first the default; without any the command adds the option itself.
    """
    files = ", ".join(f"{name}.json" for name in (*answers, "error"))
    epilog = f"`python -m runner docs NAME` prints JSON's schemas: {files}" if answers else ""
    command = commands.add_parser(
        name,
        help=help,
        description=as_called(text),
        epilog=as_called(epilog),
        formatter_class=_Help,
    )
    command.set_defaults(answers=tuple(answers))
    if formats:
        add_format(command, formats)
    command.add_argument(
        "--non-interactive",
        action="store_true",
        help="never prompt: fail, and name the missing option",
    )
    return command


def add_format(
    command: argparse.ArgumentParser | argparse._MutuallyExclusiveGroup, formats: Sequence[str]
) -> None:
    """Add `--format`, what is printed on standard output."""
    command.add_argument(
        "--format", choices=formats, default=formats[0], help=f"default: {formats[0]}"
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
        type=existing_path,
        default=DEFAULT_INVENTORY,
        metavar="DIR",
        help="inventory folder (default: inventory/local, this host)",
    )


def add_only(command: argparse.ArgumentParser) -> None:
    """Add `--only`, the cells that are chosen (runner/matrix/select.py)."""
    command.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="GLOB",
        help="only cells whose name, or one AXIS=VALUE of it, matches; may be repeated",
    )
