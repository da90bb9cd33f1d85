"""`python -m runner teardown`: playbooks/teardown.yml, one line per step and node."""

import argparse

from runner.base.errors import UserError
from runner.base.options import Commands
from runner.commands.playbook_options import add_playbook, run_command

DESCRIPTION = """\
Remove from the nodes what setup put there, and leave what it found. Runs stay.

  python -m runner teardown -i inventory/mine --check      what would go
  python -m runner teardown -i inventory/mine --yes
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = add_playbook(commands, "teardown", "remove what setup installed", DESCRIPTION)
    command.add_argument("--yes", action="store_true", help="required: confirm the removal")


def run(chosen: argparse.Namespace) -> int:
    """Run it; the exit code. Raises UserError without a word of consent."""
    if not chosen.yes and not chosen.check:
        raise UserError(
            f"teardown removes what setup installed from the nodes of {chosen.inventory}; confirm"
            " with --yes, or see what it would remove with --check"
        )
    if chosen.yes:
        chosen.variables.append("teardown=yes")
    return run_command("teardown", chosen)
