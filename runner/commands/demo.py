"""`trainbench demo`: set this machine up, run the quickstart on it, show the table."""

import argparse

from runner.base.options import Commands, new_command
from runner.base.program_name import as_called
from runner.base.streams import complain
from runner.commands import bench, setup

DESCRIPTION = """\
Train a tiny GPT-2 in four settings on this machine, and show the table: no root, no GPU. Writes
into this folder only (.trainbench, runs). Downloads torch from your package index: 3 GB with CUDA's
libraries, or 0.2 GB with PIP_FIND_LINKS=https://download.pytorch.org/whl/cpu/torch/.
`python -m runner docs tutorial` goes on from there.

exit codes: 0 a table was shown, 1 setup or a cell failed, 2 bad input, 130 Ctrl-C
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    title = "a first table on this machine, in about ten minutes"
    new_command(commands, "demo", title, DESCRIPTION, answers=(), formats=("text",))


def run(chosen: argparse.Namespace) -> int:
    """Run setup, then bench, as their own command lines would; the exit code."""
    complain(as_called(DESCRIPTION.partition("\n\n")[0]))
    top = argparse.ArgumentParser()
    commands = top.add_subparsers()
    for module in (setup, bench):
        module.add_parser(commands)
    if code := setup.run(top.parse_args(["setup", "--yes"])):
        return code
    return bench.run(top.parse_args(["bench", "matrix.yaml"]))
