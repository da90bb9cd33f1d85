"""`python -m runner board`: a repository of bundles by pull request, its check and its site."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base.errors import UserError
from runner.base.options import Commands, new_command
from runner.base.streams import complain, say, say_json
from runner.base.text import counted
from runner.terms.printed_answers import (
    BoardCheckAnswer,
    BoardInitAnswer,
    BundleCheck,
    BundleRefusal,
    SiteAnswer,
    Skipped,
)

if TYPE_CHECKING:
    from runner.board.board_check import Progress
    from runner.board.every_check import CheckedBundle
    from runner.board.refusal import Refusal

ACTIONS = ("init", "check", "site")
DESCRIPTION = """\
Keep a board: a repository that takes bundles (`publish`) by pull request, without a server.

  python -m runner board init my-board                       write the repository's files
  python -m runner board check lab.tar.gz --board my-board   refuse it, or accept it
  python -m runner board check --board . --base origin/main  what a pull request changes
  python -m runner board site my-board -o public             the site of its bundles

check reads every figure from the logs of the bundle again, and refuses with the reason what does
not follow from them, cannot have happened, is incomplete, edited, copied or not publishable.
Nothing of a bundle is executed. What cannot be detected: docs/how-to/board.md.

exit codes: 0 done, all accepted; 1 a bundle or a change is refused; 2 bad input; 130 Ctrl-C
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands,
        "board",
        "bundles by pull request: a repository, its check, its site",
        DESCRIPTION,
        answers=("board_init", "board_check", "site"),
    )
    command.add_argument("action", choices=ACTIONS)
    command.add_argument(
        "paths", nargs="*", type=Path, metavar="PATH", help="bundles; the board of init and site"
    )
    command.add_argument(
        "--board", type=Path, metavar="FOLDER", help="check: compare with the bundles there"
    )
    command.add_argument(
        "--base", metavar="COMMIT", help="check: only bundles added to --board since this commit"
    )
    command.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="site: the folder to write"
    )


def run(chosen: argparse.Namespace) -> int:
    """Write, check or draw; the exit code. Raises UserError."""
    if chosen.output is not None and chosen.action != "site":
        raise UserError(f"--output is for `board site`; leave it out of `board {chosen.action}`")
    if (chosen.board or chosen.base) and chosen.action != "check":
        raise UserError("--board and --base are for `board check`; name the board as PATH")
    if chosen.action == "check":
        return _check(chosen)
    if len(chosen.paths) != 1:
        raise UserError(f"`board {chosen.action}` needs one PATH, the board's folder")
    return _init(chosen) if chosen.action == "init" else _site(chosen)


def _init(chosen: argparse.Namespace) -> int:
    from runner.board.board_folder import init

    folder = chosen.paths[0]
    files = init(folder)
    if chosen.format == "json":
        say_json(BoardInitAnswer(folder=str(folder), files=tuple(map(str, files))))
        return 0
    say(f"wrote {folder}: {', '.join(path.relative_to(folder).as_posix() for path in files)}")
    say(f"next: git init {folder}, then push it; README.md says what its owner sets up")
    return 0


def _check(chosen: argparse.Namespace) -> int:
    from runner.board.board_check import check_all
    from runner.board.board_folder import bundles_of, changes

    if chosen.base and not chosen.board:
        raise UserError("--base compares a board's commits; name its folder with --board")
    if chosen.base and chosen.paths:
        raise UserError("--base names the bundles itself; leave PATH out")
    new: list[Path] = list(chosen.paths)
    changed: Sequence[Refusal] = ()
    if chosen.base:
        change = changes(chosen.board, chosen.base)
        new, changed = list(change.new), change.refusals
    new_paths = {path.resolve() for path in new}
    there = bundles_of(chosen.board) if chosen.board else []
    there = [path for path in there if path.resolve() not in new_paths]
    if not new and not chosen.base:
        new, there = there, []
        if not new:
            raise UserError("name a bundle, or a board with --board")
    with _progress() as progress:
        checked, _ = check_all(new, there, progress)
    accepted = all(bundle.accepted for bundle in checked) and not changed
    if chosen.format == "json":
        say_json(
            BoardCheckAnswer(
                accepted=accepted,
                bundles=tuple(map(_bundle, checked)),
                changes=tuple(map(_refusal, changed)),
            )
        )
    else:
        _say_checked(checked, changed)
    return 0 if accepted else 1


def _say_checked(checked: "Sequence[CheckedBundle]", changed: "Sequence[Refusal]") -> None:
    for bundle in checked:
        say(f"{bundle.path.name}: {'accepted' if bundle.accepted else 'refused'}")
        for reason in bundle.refusals:
            say(f"  {reason.code}: {reason.why}")
    for reason in changed:
        say(f"{reason.code}: {reason.why}")
    if not checked:
        say("no new bundle")


def _site(chosen: argparse.Namespace) -> int:
    from runner.board.board_site import make_board_site

    if chosen.output is None:
        raise UserError("`board site` writes a folder; name it with --output")
    with _progress() as progress:
        site, refused = make_board_site(chosen.paths[0], chosen.output, progress)
    for bundle in refused:
        complain(f"left out: {bundle.path.name}: {bundle.refusals[0].why}")
    if chosen.format == "json":
        say_json(
            SiteAnswer(
                index=str(chosen.output / "index.html"),
                campaigns=len(site.campaigns),
                cells=len(site.series),
                open_regressions=sum(regression.open for regression in site.regressions),
                left_out=tuple(
                    Skipped(source=bundle.path.name, reason=bundle.refusals[0].why)
                    for bundle in refused
                ),
            )
        )
    complain(f"wrote {chosen.output}/index.html: {counted(len(site.campaigns), 'bundle')}")
    return 1 if refused else 0


def _bundle(bundle: "CheckedBundle") -> BundleCheck:
    return BundleCheck(
        path=str(bundle.path),
        sha256=bundle.sha256,
        campaign=bundle.campaign,
        entity=bundle.entity,
        accepted=bundle.accepted,
        refusals=tuple(map(_refusal, bundle.refusals)),
    )


def _refusal(reason: "Refusal") -> BundleRefusal:
    return BundleRefusal(code=reason.code, why=reason.why)


@contextmanager
def _progress() -> "Iterator[Progress]":
    """Show how many bundles were read, where somebody watches."""
    from rich.progress import BarColumn, Progress, TextColumn

    from runner.base.console import Screen

    screen = Screen(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def progress(name: str, count: int, total: int) -> None:
            bar.update(task, description=name, completed=count, total=total)

        yield progress
