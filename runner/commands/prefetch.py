"""`python -m runner prefetch`: playbooks/prefetch.yml, one line per step and node."""

import argparse

from runner.base.options import Commands
from runner.commands.playbook_options import add_playbook, run_command

DESCRIPTION = """\
Download everything that an inventory's systems and datasets need into one folder of this machine,
prefetch/ by default. Setup then needs no network.

  python -m runner prefetch -i inventory/mine
  python -m runner prefetch -i inventory/mine -e prefetch_dir=/data/prefetch
  python -m runner setup -i inventory/mine -e site_prefetched=/data/prefetch
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    add_playbook(
        commands,
        "prefetch",
        "download all that an inventory needs",
        DESCRIPTION,
    )


def run(chosen: argparse.Namespace) -> int:
    """Run it; the exit code."""
    return run_command("prefetch", chosen)
