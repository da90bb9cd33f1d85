"""`python -m runner bisect`: which commit or package version made it slower?"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base.errors import UserError
from runner.base.options import Commands, add_inventory, add_only, add_runs, new_command
from runner.base.paths import existing_path
from runner.base.streams import say

if TYPE_CHECKING:
    from runner.terms.bisected import Bisected
    from runner.versions.bisect_session import BisectSession
    from runner.versions.version import Version

DESCRIPTION = """\
Find which commit, or which version of a package, changed a figure between two versions. FILE is a
matrix of one cell (or --only), which names a pin set of its `pins`. Pairs of runs take turns on the
same nodes; what is known after each pair decides which version is built and run next, and when it
is sure enough.

  python -m runner bisect perf.yaml --good v1.4 --bad HEAD
  python -m runner bisect perf.yaml --good torch==2.11.0 --bad torch==2.13.0
  python -m runner bisect perf.yaml --good v1.4 --bad HEAD --figure memory_allocated_mib
  python -m runner bisect perf.yaml --good v1.4 --bad HEAD --answer    what is known so far

Commits are those of FILE's own git repository (or --repository), by first parents. A
version that cannot be built, or does not run, is skipped. The same command goes on where it
stopped. docs/how-to/bisect.md says how sure the answer is, and why.

exit codes: 0 found, 1 not over, 2 bad input, 3 no change that counts, 130 Ctrl-C
"""
FIGURES = (
    *("samples_per_s", "step_time_ms", "memory_rss_mib", "memory_allocated_mib"),
    *("memory_reserved_mib", "memory_used_mib"),
)


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands,
        "bisect",
        "which commit or package version made it slower?",
        DESCRIPTION,
        answers=("bisect",),
        formats=("table", "markdown", "json"),
    )
    command.add_argument("file", type=existing_path, metavar="FILE", help="a matrix with `pins`")
    add_inventory(command)
    add_runs(command)
    add_only(command)
    command.add_argument("--good", required=True, metavar="VERSION", help="the older version")
    command.add_argument("--bad", required=True, metavar="VERSION", help="the newer version")
    command.add_argument(
        "--versions", metavar="LIST",
        help="a package's versions in order, such as 2.11.0,2.12.1 (default: what pip lists)",
    )  # fmt: skip
    command.add_argument(
        "--repository", type=Path, metavar="PATH",
        help="the git repository of commits (default: FILE's own)",
    )  # fmt: skip
    command.add_argument(
        "--figure",
        choices=FIGURES,
        default=FIGURES[0],
        help=f"what changed (default: {FIGURES[0]})",
    )
    command.add_argument(
        "--sure", type=_sure, default=99.0, metavar="PERCENT",
        help="probability that the answer must have (default: 99)",
    )  # fmt: skip
    command.add_argument(
        "--stop-after", type=_seconds, metavar="S",
        help="stop after S seconds, also in the middle of a run; the same command resumes",
    )  # fmt: skip
    command.add_argument(
        "--answer", action="store_true", help="print what is known so far; no connection"
    )


def _sure(word: str) -> float:
    try:
        value = float(word.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 51 <= value <= 99.9999:
        raise argparse.ArgumentTypeError(f"{word!r} is not a percentage of 51 to 99.9999")
    return value


def _seconds(word: str) -> float:
    from runner.commands.bench import _seconds as seconds

    return seconds(word)


def run(chosen: argparse.Namespace) -> int:
    """Build and run until it is known; the exit code."""
    from runner.base.console import one_line
    from runner.launch.view import View
    from runner.versions.bisect_answer import to_text
    from runner.versions.building import BuildInterruptedError

    session = _session(chosen)
    if chosen.answer:
        if not session.campaign.begun:
            raise UserError(f"nothing of campaign {session.campaign.name} has run yet")
        session.resume()
        bisected = session.bisected()
        say(to_text(bisected, chosen.format), end="")
        return _code(bisected)
    view = View()
    session.builder.console = view.console
    view.console.print(
        one_line(
            f"bisect: {len(session.versions)} versions from {session.versions[0].title} to"
            f" {session.versions[-1].title}, campaign {session.campaign.name}"
        )
    )
    try:
        tally, bisected = session.run(view, chosen.stop_after)
    except BuildInterruptedError:
        session.save()
        return 130
    except BaseException as error:
        view.broken_off(error)
        raise
    say(to_text(bisected, chosen.format), end="")
    return 130 if tally is not None and tally.interrupted else _code(bisected)


def _code(bisected: Bisected) -> int:
    from runner.versions.bisect_answer import FOUND, NO_CHANGE

    return {FOUND: 0, NO_CHANGE: 3}.get(bisected.answer.ended, 1)


def _session(chosen: argparse.Namespace) -> BisectSession:
    from runner.inventory.inventory import load_inventory
    from runner.matrix.file import load_matrix
    from runner.matrix.select import select
    from runner.versions.bisect_session import BisectOptions, BisectSession
    from runner.versions.building import Builder

    inventory = cache(partial(load_inventory, chosen.inventory))
    matrix = load_matrix(chosen.file, lambda nodes: inventory().devices_of(nodes))
    cells = select(matrix, chosen.only)
    if len(cells) > 1 or matrix.tune is not None:
        names = ", ".join(cell.name for cell in cells[:5])
        raise UserError(f"bisect takes one cell, and there are {len(cells)} ({names}); use --only")
    options = BisectOptions(chosen.figure, chosen.sure / 100)
    return BisectSession(
        replace(matrix, cells=tuple(cells)),
        inventory(),
        chosen.runs,
        _versions(chosen),
        options,
        Builder(chosen.inventory, chosen.runs, chosen.file.resolve().parent),
    )


def _versions(chosen: argparse.Namespace) -> list[Version]:
    """Return the versions from good to bad. Raises UserError."""
    from runner.matrix.pins_key import package_of
    from runner.versions import git_history, package_history
    from runner.versions.git_history import repository_of
    from runner.versions.version import SHORT, kind_of

    kinds = {kind_of(word) for word in (chosen.good, chosen.bad)}
    if kinds == {"package"}:
        if chosen.versions is None:
            return package_history.between(chosen.good, chosen.bad)
        (name, good), (_, bad) = package_of(chosen.good, "--good"), package_of(chosen.bad, "--bad")
        listed = [version.strip() for version in chosen.versions.split(",")]
        listed = list(dict.fromkeys([good, *listed, bad]))
        if listed[-1] != bad:
            raise UserError(f"--versions: {bad} of --bad must be the last")
        for version in listed:
            package_of(f"{name}=={version}", "--versions")
        return package_history.versions_of(name, listed)
    if kinds != {"commit"} or chosen.versions is not None:
        raise UserError(
            "--good and --bad are two revisions of git, or two versions of one package as"
            " NAME==VERSION (with --versions, if you like)"
        )
    here = chosen.repository or repository_of(chosen.file.resolve().parent)
    ends = [
        git_history.commit_of(here, word, option)
        for word, option in ((chosen.good, "--good"), (chosen.bad, "--bad"))
    ]
    return [
        replace(version, label=version.value[:SHORT])
        for version in git_history.between(here, *ends)
    ]
