"""`python -m runner import LOG... --into CAMPAIGN`: runs from elsewhere beside our own."""

import argparse
from pathlib import Path
from typing import Any

from runner.base.errors import UserError
from runner.base.options import Commands, add_runs, new_command
from runner.base.program_name import CALLED
from runner.base.streams import say, say_json
from runner.commands.log_options import MOST, add_log_options, check_log_options, patterns_of
from runner.terms.printed_answers import ImportAnswer, ImportedRun

DESCRIPTION = """\
Make runs of logs that other programs left, in a campaign that collect, compare, status and export
read as any other. Each LOG is a cell's run; the table marks all of them as imported, since nobody
here started them or checked their machines. Importing again adds to the campaign.

What the log does not say, options do; without --devices and without its own word a log is refused.
Figures that nobody says are missing, and none has a default.

  python -m runner import a.log b.log --into others --devices 8
  python -m runner import c.log --into others --devices 8 --cell a        a repeat of cell a
  python -m runner import node0.log node1.log --into others --one-run --nodes 2 --devices 16
  python -m runner import titan.log --into others --devices 8 --tokens-per-sample 8192 \\
    --device-name 'NVIDIA H200' --set precision=bf16 --set model_flops_per_token=48e9 --set lr=3e-4
  python -m runner compare zero-vs others

exit codes: 0 imported, 2 bad input, and nothing was written
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands, "import", "logs from elsewhere as a campaign", DESCRIPTION, answers=("import",)
    )
    command.add_argument("log", nargs="+", type=Path, metavar="LOG", help="a log, a plain file")
    command.add_argument(
        "--into", required=True, metavar="CAMPAIGN", help="a new campaign, or one made by import"
    )
    add_runs(command)
    command.add_argument(
        "--cell",
        metavar="NAME",
        help="the logs are repeats of this cell (default: one cell per log)",
    )
    command.add_argument(
        "--one-run",
        action="store_true",
        help="the logs are from one run's nodes, node_rank 0 first",
    )
    add_log_options(command)
    command.add_argument("--nodes", type=int, default=None, metavar="N", help="nodes of the run")
    command.add_argument(
        "--device-name",
        default="",
        metavar="NAME",
        help="the devices' name in nvidia-smi, for MFU and the tables",
    )
    command.add_argument(
        "--warmup-iters",
        type=int,
        metavar="N",
        help="first iterations to leave out (default: found in the steps)",
    )
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting to show in the table, in YAML; may be repeated",
    )


def run(chosen: argparse.Namespace) -> int:
    """Bring the logs in, and say what each became."""
    from runner.archive.importing import import_logs
    from runner.folder.campaign import Campaign

    check_log_options(chosen)
    into = Path(chosen.into)
    if into.name != chosen.into:
        raise UserError(f"--into is {chosen.into!r}; give a name, and the folder above as --runs")
    imports = import_logs(
        chosen.log,
        Campaign(chosen.runs / into),
        _declared(chosen),
        cell=chosen.cell,
        one_run=chosen.one_run,
    )
    if chosen.format == "json":
        say_json(ImportAnswer(campaign=chosen.into, runs=tuple(imports)))
        return 0
    for imported in imports:
        say(_line(imported))
    say(f"{CALLED} collect --campaign {chosen.into} makes the table")
    return 0


def _declared(chosen: argparse.Namespace) -> Any:
    from runner.archive.imported_cells import Declared, check_keys
    from runner.logs.run_sizes import Known

    nodes = chosen.nodes if chosen.nodes is not None else len(chosen.log) if chosen.one_run else 1
    for option, value, least in (("--nodes", nodes, 1), ("--warmup-iters", chosen.warmup_iters, 0)):
        if value is not None and not least <= value <= MOST:
            raise UserError(f"{option} is {value}; it must be {least} to {MOST:,}")
    for option, text in (("--cell", chosen.cell), ("--device-name", chosen.device_name)):
        if text is not None and not text.isprintable():
            raise UserError(f"{option} is {text!r}; give printable text")
    if chosen.one_run and nodes < len(chosen.log):
        raise UserError(f"--nodes is {nodes}, and {len(chosen.log)} logs are of one run's nodes")
    keys = dict(map(_set, chosen.set))
    if len(keys) < len(chosen.set):
        raise UserError("--set names a key twice")
    check_keys(keys)
    return Declared(
        system=None if chosen.system == "auto" else chosen.system,
        family=chosen.family,
        log=None if chosen.matrix is None else patterns_of(chosen.matrix),
        nodes=nodes,
        global_batch_size=chosen.global_batch_size,
        known=Known(chosen.tokens_per_sample, chosen.devices),
        device=chosen.device_name,
        warmup_iters=chosen.warmup_iters,
        set=keys,
    )


def _set(text: str) -> tuple[str, Any]:
    from runner.matrix.dialect import read_yaml

    key, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--set {text!r} has no `=`; write KEY=VALUE")
    return key, read_yaml(value, f"--set {key}")


def _line(run: ImportedRun) -> str:
    """Say what one run became."""
    repeat = f", repeat {run.repeat}" if run.repeat > 1 else ""
    reason = f" ({run.reason})" if run.reason else ""
    return (
        f"{', '.join(run.logs)}: cell {run.cell}{repeat}: {run.status},"
        f" {run.logged_lines} lines{reason}"
    )
