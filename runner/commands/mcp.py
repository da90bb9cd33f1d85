"""`trainbench mcp`: an MCP server for an agent, within what its owner allowed."""

import argparse
import math
from pathlib import Path

from runner.agent.leaves import LEAVES
from runner.base.errors import UserError
from runner.base.options import Commands, add_inventory, new_command
from runner.base.paths import FOLDER

DESCRIPTION = """\
Serve plan, bench, status, collect, compare and expect to an agent, by the Model Context Protocol
on standard input and output. Needs the extra `mcp`: pip install 'trainbench-cluster[mcp]'.

  python -m runner mcp --matrices agent-matrices -i inventory/mine --budget 2

The agent names matrices of --matrices alone, and campaigns of --runs alone. What a matrix may have
run besides TrainBench's trainers needs --allow. A bench ends when --budget is spent, whatever runs;
campaigns in --runs count, so that no restart forgets them. Nothing is deleted or stopped. What may
be claimed is in `claims`: the same work, losses that agree, publishable cells, beyond noise.
docs/how-to/machines.md

exit codes: 0 the client closed standard input, 2 bad input, 130 Ctrl-C
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands, "mcp", "an MCP server for an agent", DESCRIPTION, answers=(), formats=()
    )
    command.add_argument(
        "--matrices",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder of matrices that the agent may run",
    )
    add_inventory(command)
    command.add_argument(
        "--runs",
        type=Path,
        default=FOLDER / "runs" / "agent",
        help="folder of the agent's campaigns (default: runs/agent)",
    )
    command.add_argument(
        "--budget",
        type=_hours,
        required=True,
        metavar="NODE_HOURS",
        help="node-hours for all its campaigns",
    )
    command.add_argument(
        "--allow",
        action="append",
        default=[],
        choices=tuple(LEAVES),
        help="; ".join(f"{name}: {meaning}" for name, meaning in LEAVES.items()),
    )


def _hours(text: str) -> float:
    """Read node-hours."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of node-hours above 0")
    return value


def run(chosen: argparse.Namespace) -> int:
    """Serve until the client closes standard input. Raises UserError."""
    from runner.agent.owner import Owner
    from runner.inventory.inventory import load_inventory

    if not chosen.matrices.is_dir():
        raise UserError(f"--matrices {chosen.matrices} is not a folder; make it, with matrices")
    runs = chosen.runs.resolve()
    if runs.is_relative_to(chosen.matrices.resolve()):
        raise UserError(
            "--runs is inside --matrices, where an agent may write; name another folder"
        )
    owner = Owner(
        matrices=chosen.matrices.resolve(),
        cluster=load_inventory(chosen.inventory),
        inventory=chosen.inventory.resolve(),
        runs=runs,
        budget_h=chosen.budget,
        leaves=frozenset(chosen.allow),
    )
    from runner.agent.server import serve  # the extra: a sentence says how to install it

    serve(owner)
    return 0
