"""`python -m runner setup`: playbooks/setup.yml, one line per step and node."""

import argparse

from runner.base.options import Commands
from runner.base.paths import existing_path
from runner.base.streams import complain, say
from runner.commands.playbook_options import add_playbook, run_command

DESCRIPTION = """\
Make every node of an inventory ready to train: install drivers and CUDA (with root), the systems'
environments, ssh between the nodes and datasets, then verify them. A second setup changes nothing.

  python -m runner setup                              this machine
  python -m runner setup -i inventory/mine            all nodes of it
  python -m runner setup -i inventory/mine --limit node3
  python -m runner setup -i inventory/mine --tags validate    only check for problems
  python -m runner setup -i inventory/mine --matrix m.yaml    also the `pins` of that matrix

Prints one line per step and node. Ansible's own output is in RUNS/.setup/, and here with -v.
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = add_playbook(commands, "setup", "make every node ready to train", DESCRIPTION)
    command.add_argument(
        "--yes", action="store_true",
        help="on nodes without GPUs, install torch with CUDA (3 GB) if no CPU build is available",
    )  # fmt: skip
    command.add_argument(
        "--matrix",
        type=existing_path,
        metavar="FILE",
        help="also build the pin sets of this matrix's `pins`",
    )


def run(chosen: argparse.Namespace) -> int:
    """Run it; the exit code."""
    if chosen.yes:
        chosen.variables.append("setup_yes=true")
    code = run_command("setup", chosen)
    return code if code or chosen.matrix is None else _build(chosen)


def _build(chosen: argparse.Namespace) -> int:
    """Build the pin sets that a matrix declares, and its cells name."""
    from runner.base.console import Screen
    from runner.inventory.inventory import load_inventory
    from runner.matrix.file import load_matrix
    from runner.study.study import BuildInterruptedError
    from runner.versions.building import Builder
    from runner.versions.version import used_by

    matrix = load_matrix(chosen.matrix, load_inventory(chosen.inventory).devices_of)
    console = Screen(stderr=True) if chosen.format == "json" else None
    builder = Builder(chosen.inventory, chosen.runs, chosen.matrix.resolve().parent, console)
    sets = {cell.pin: matrix.pins[cell.pin] for cell in matrix.cells if cell.pin in matrix.pins}
    try:
        failed = builder.build(used_by(matrix.cells, sets))
    except BuildInterruptedError:
        complain("stopped; run the same command to continue")
        return 130
    for (_, pin), why in failed.items():
        complain(f"error: pin set {pin} could not be built: {why}")
    if not failed:
        tell = complain if console else say
        tell(f"pin sets of {matrix.name}: {', '.join(sets) or 'none'} are on the nodes")
    return 1 if failed else 0
