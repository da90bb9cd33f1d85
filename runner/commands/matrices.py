"""`python -m runner matrices`: the shipped matrices, listed, or copied to be edited."""

import argparse
from pathlib import Path

from runner.base.errors import UserError
from runner.base.options import Commands, new_command
from runner.base.paths import PROJECT
from runner.base.program_name import CALLED
from runner.base.streams import say, say_json, terminal_width
from runner.base.suggest import nearest
from runner.terms.printed_answers import MatricesAnswer, ShippedMatrix

DESCRIPTION = """\
List the shipped matrices, or copy one to edit. bench takes them where they are, too.

  python -m runner matrices                        each with its first sentence
  python -m runner matrices --copy llama           ./llama.yaml, to be edited
  python -m runner bench matrices/gpu/llama.yaml --dry-run -i inventory/vs

exit codes: 0 listed or copied, 2 bad input
"""
TITLES = {
    "start": "First steps: no GPU is needed",
    "gpu": "GPUs",
    "documents": "Reproductions of documented benchmarks (docs/documents.md)",
}


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands,
        "matrices",
        "the shipped matrices, to run or copy",
        DESCRIPTION,
        answers=("matrices",),
    )
    command.add_argument("--copy", metavar="NAME", help="copy this one into the current folder")


def run(chosen: argparse.Namespace) -> int:
    """List them, or copy one; the exit code."""
    copied = None if chosen.copy is None else _copy(chosen.copy)
    if chosen.format == "json":
        listed = tuple(
            ShippedMatrix(path=str(path.relative_to(PROJECT)), about=_about(path))
            for folder in TITLES
            for path in sorted((PROJECT / "matrices" / folder).glob("*.yaml"))
        )
        say_json(MatricesAnswer(matrices=listed, copied=None if copied is None else str(copied)))
        return 0
    if copied is not None:
        command = f"`{CALLED} bench {copied} --dry-run -i INVENTORY` shows what would run"
        say(f"wrote {copied}; {command}")
        return 0
    from runner.base.grid import grid

    width = terminal_width()
    for folder, title in TITLES.items():
        paths = sorted((PROJECT / "matrices" / folder).glob("*.yaml"))
        rows = [(str(path.relative_to(PROJECT)), _about(path)) for path in paths]
        say(f"{title}\n\n{grid(('matrix', 'what it compares'), rows, width)}\n")
    say(f"`{CALLED} matrices --copy NAME` copies one; docs/matrix.md explains its keys.")
    return 0


def _about(path: Path) -> str:
    """Return the first sentence of the comment that a matrix begins with."""
    lines = []
    for line in path.read_text().splitlines():
        if not line.startswith("# "):
            break
        lines.append(line[2:])
    comment = " ".join(lines)
    ends = [end for mark in (". ", "? ") if (end := comment.find(mark)) > 0]
    return (comment[: min(ends) + 1] if ends else comment).rstrip(".")


def _copy(name: str) -> Path:
    """Copy the matrix of that name; the copy. Raises UserError."""
    shipped = sorted((PROJECT / "matrices").glob("*/*.yaml"))
    asked = (*Path(name).parts[:-1], Path(name).stem)
    found = [path for path in shipped if path.with_suffix("").parts[-len(asked) :] == asked]
    if not found:
        raise UserError(
            f"there is no shipped matrix {name!r}{nearest(asked[-1], {p.stem for p in shipped})};"
            f" `{CALLED} matrices` lists them"
        )
    if len(found) > 1:
        paths = " and ".join(str(path.relative_to(PROJECT)) for path in found)
        raise UserError(f"{name!r} is {paths}; write one of them")
    target = Path(found[0].name)
    try:
        with target.open("x") as stream:
            stream.write(found[0].read_text())
    except FileExistsError:
        raise UserError(f"{target} is there already; rename it, or go elsewhere") from None
    return target
