"""What a user may say of a log that it need not say itself: options of `parse` and `import`."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.base.errors import UserError
from runner.base.program_name import CALLED

if TYPE_CHECKING:
    from runner.terms.cell import Cell

MOST = 10**9  # of any size of a run
_SIZES = ("devices", "global_batch_size", "tokens_per_sample")


def add_log_options(command: argparse.ArgumentParser) -> None:
    """Add the options."""
    from runner.systems.common.registry import system_names

    command.add_argument(
        "--system",
        metavar="NAME",
        default="auto",
        help=f"auto (default), {', '.join(system_names())}",
    )
    command.add_argument(
        "--matrix", type=Path, metavar="FILE", help="read by the patterns of this matrix's `log:`"
    )
    command.add_argument(
        "--family", metavar="NAME", help="read only lines of this family (docs/parsers.md)"
    )
    command.add_argument("--devices", type=int, metavar="N", help="devices of the whole job")
    command.add_argument(
        "--global-batch-size",
        type=int,
        metavar="N",
        help="samples per iteration, if the log lacks it or DeepSpeed prints another",
    )
    command.add_argument(
        "--tokens-per-sample", type=int, metavar="N", help="tokens per sample (sequence length)"
    )


def patterns_of(matrix: Path) -> Any:
    """Return the `log` of a matrix of `system: command`: patterns, or a family.

    Raises UserError where it has none, or several.
    """
    from runner.matrix.file import load_matrix
    from runner.systems.command import readers

    cells = load_matrix(matrix, lambda _: 1).cells
    logs = [cell.parameters["log"] for cell in cells if cell.parameters.get("log") is not None]
    if not logs:
        raise UserError(f"{matrix} has no `log:`; it needs a cell of `system: command`")
    if any(log != logs[0] for log in logs):
        raise UserError(f"{matrix} has several `log:`; leave the one to be tried")
    readers({"log": logs[0]})
    return logs[0]


def _take_sizes(chosen: argparse.Namespace) -> None:
    """Take what the matrix says of samples and tokens, where options do not and its cells agree.

    Without --devices a product of them is not known.
    """
    from runner.matrix.file import load_matrix
    from runner.systems.common.command_figures import samples, tokens

    def cells_on(devices: int) -> "Sequence[Cell]":
        return load_matrix(chosen.matrix, lambda nodes: max(1, devices // nodes)).cells

    counts = [chosen.devices] if chosen.devices else [1, 2]
    own = [cell for n in counts for cell in cells_on(n) if cell.system == "command"]
    for name, values in (
        ("global_batch_size", {samples(cell) for cell in own}),
        ("tokens_per_sample", {tokens(cell.parameters) for cell in own}),
    ):
        if getattr(chosen, name) is None and len(values) == 1:
            setattr(chosen, name, values.pop())


def check_log_options(chosen: argparse.Namespace) -> None:
    """Refuse what no log can be of, in one sentence."""
    from runner.base.suggest import nearest
    from runner.logs.kinds import families
    from runner.systems.common.registry import system_names

    for path in chosen.log:
        if path.name.endswith((".tar.gz", ".tgz")):
            raise UserError(
                f"{path} is an archive, not a log: `{CALLED} collect --campaign {path}` makes the"
                " table of one that `export` or `publish` wrote"
            )
    if chosen.system not in (names := ["auto", *system_names()]):
        hint = nearest(chosen.system, names)
        raise UserError(
            f"there is no system {chosen.system!r}{hint}; --system is auto or one of"
            f" {', '.join(system_names())}"
        )
    if chosen.family is not None and chosen.family not in families():
        hint = nearest(chosen.family, families())
        raise UserError(
            f"there is no family {chosen.family!r}{hint}; --family is one of"
            f" {', '.join(families())}"
        )
    if chosen.matrix is not None and (chosen.family is not None or chosen.system != "auto"):
        raise UserError("--matrix says how the log reads; leave --family and --system out")
    if chosen.matrix is not None:
        _take_sizes(chosen)
    for name in _SIZES:
        value = getattr(chosen, name)
        if value is not None and not 1 <= value <= MOST:
            option = f"--{name.replace('_', '-')}"
            limit = "must be at least 1" if value < 1 else f"may be at most {MOST:,}"
            raise UserError(f"{option} is {value}; it {limit}")
