"""`python -m runner verify`: playbooks/verify.yml, one line per step and node."""

import argparse

from runner.base.options import Commands
from runner.commands.playbook_options import add_playbook, run_command

DESCRIPTION = """\
Ask every node of an inventory whether it is as setup left it, compare the nodes, and name the odd
one. `doctor` measures, too.

  python -m runner verify -i inventory/mine
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    add_playbook(
        commands, "verify", "check that the nodes are still as setup left them", DESCRIPTION
    )


def run(chosen: argparse.Namespace) -> int:
    """Run it; the exit code."""
    return run_command("verify", chosen)
