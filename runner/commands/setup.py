"""`python -m runner setup`: playbooks/setup.yml, a line a step and node."""

import argparse

from runner.base.options import Commands
from runner.commands.playbook_options import add_playbook, run_command

DESCRIPTION = """\
Make every node of an inventory ready to train: drivers and CUDA where you are root, the systems'
environments, ssh between the nodes, datasets; then verify them. Setup again changes nothing.

  python -m runner setup                              this machine
  python -m runner setup -i inventory/mine            all nodes of it
  python -m runner setup -i inventory/mine --limit node3
  python -m runner setup -i inventory/mine --tags validate    only look for what cannot work
  python -m runner setup -i inventory/mine -e site_prefetched=prefetch    without a network

Prints one line per step and node. Ansible's own output is in RUNS/.setup/, and here with -v.
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = add_playbook(commands, "setup", "make every node ready to train", DESCRIPTION)
    command.add_argument(
        "--yes", action="store_true",
        help="install torch with CUDA (3 GB) on nodes without GPUs where no other can be had",
    )  # fmt: skip


def run(chosen: argparse.Namespace) -> int:
    """Run it; the exit code."""
    if chosen.yes:
        chosen.variables.append("setup_yes=true")
    return run_command("setup", chosen)
