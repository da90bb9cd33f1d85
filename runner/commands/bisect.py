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
from runner.commands.study_options import (
    FORMATS,
    add_study_options,
    percentage,
    run_study,
    session_of,
)

if TYPE_CHECKING:
    from runner.launch.view import View
    from runner.study.running import Session
    from runner.versions.version import Version

DESCRIPTION = """\
Find which commit, or which version of a package, changed a figure between two versions. FILE is a
matrix of one cell (or --only), which names a pin set of its `pins`. Pairs of runs take turns on the
same nodes; what is known after each pair decides which version is built and run next, and when it
is sure enough.

  python -m runner bisect perf.yaml --good v1.4 --bad HEAD
  python -m runner bisect perf.yaml --good torch==2.11.0 --bad torch==2.13.0
  python -m runner bisect perf.yaml --good v1.4 --bad HEAD --figure memory
  python -m runner bisect perf.yaml --good v1.4 --bad HEAD --answer    what is known so far

Commits are those of FILE's own git repository (or --repository), by first parents. A
version that cannot be built, or does not run, is skipped. The same command goes on where it
stopped. docs/how-to/ci.md says how sure the answer is, and why.

exit codes: 0 found, 1 not over, 2 bad input, 3 no change that counts, 130 Ctrl-C
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands,
        "bisect",
        "which commit or package version made it slower?",
        DESCRIPTION,
        answers=("answer", "dry_run"),
        formats=FORMATS,
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
        choices=("speed", "memory"),
        default="speed",
        help="what changed (default: speed)",
    )
    command.add_argument(
        "--sure", type=percentage(51, 99.9999), default=99.0, metavar="PERCENT",
        help="probability that the answer must have (default: 99)",
    )  # fmt: skip
    add_study_options(command)


def run(chosen: argparse.Namespace) -> int:
    """Build and run until it is known; the exit code."""
    from runner.launch.view import View

    view = View()
    return run_study(_session(chosen, view), chosen, view)


def _session(chosen: argparse.Namespace, view: View) -> Session:
    from runner.inventory.inventory import load_inventory
    from runner.matrix.file import load_matrix
    from runner.matrix.select import select
    from runner.versions.bisect_study import BisectStudy

    inventory = cache(partial(load_inventory, chosen.inventory))
    matrix = load_matrix(chosen.file, lambda nodes: inventory().devices_of(nodes))
    cells = select(matrix, chosen.only)
    if len(cells) > 1 or matrix.tune is not None:
        names = ", ".join(cell.name for cell in cells[:5])
        raise UserError(f"bisect takes one cell, and there are {len(cells)} ({names}); use --only")
    asked = replace(matrix, cells=tuple(cells))
    study = BisectStudy(asked, _versions(chosen), chosen.figure, chosen.sure / 100)
    return session_of(study, inventory(), chosen, view)


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
