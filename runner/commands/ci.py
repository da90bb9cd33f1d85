"""`python -m runner ci`: is this version of a trainer slower than another one?"""

from __future__ import annotations

import argparse
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base.errors import UserError
from runner.base.options import Commands, add_inventory, add_runs, new_command
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
Say whether one version of a trainer is slower than another. FILE is a small matrix whose cells name
a pin set of its `pins`. Both versions are built on the nodes, and their runs take turns there, so
that noise is the same for both.

  python -m runner ci perf.yaml --base origin/main                      this commit against main
  python -m runner ci perf.yaml --base torch==2.12.1 --head torch==2.13.0
  python -m runner ci perf.yaml --base pin=torch-2.12 --head pin=torch-2.13
  python -m runner ci perf.yaml --base origin/main --markdown comment.md --junit ci.xml

A version is a revision of FILE's own git repository (or --repository), a package as
NAME==VERSION, or a pin set as pin=NAME. Equal versions are called worse at most --alarm times in
100. The same command goes on where it stopped. docs/how-to/ci.md has files for GitHub and GitLab.

exit codes: 0 same or better, 1 worse, 2 bad input, 3 cannot tell, 4 failed (a version that cannot
be built, a run that did not end ok), 130 Ctrl-C
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands,
        "ci",
        "is this version of a trainer slower than another one?",
        DESCRIPTION,
        answers=("answer", "dry_run"),
        formats=FORMATS,
    )
    command.add_argument("file", type=existing_path, metavar="FILE", help="a matrix with `pins`")
    add_inventory(command)
    add_runs(command)
    command.add_argument(
        "--base", required=True, metavar="VERSION", help="the version to compare with"
    )
    command.add_argument(
        "--head", default="HEAD", metavar="VERSION", help="the version to judge (default: HEAD)"
    )
    command.add_argument(
        "--repository", type=Path, metavar="PATH",
        help="the git repository of revisions (default: FILE's own)",
    )  # fmt: skip
    command.add_argument(
        "--pairs", type=_pairs, metavar="N",
        help="runs of each version and cell (default: repeats of the matrix, else 8)",
    )  # fmt: skip
    command.add_argument(
        "--threshold", action="append", default=[], metavar="QUANTITY=PERCENT%",
        help="figure and difference that counts (default: samples_per_s=3%%, else"
        " step_time_ms=3%%); may be repeated",
    )  # fmt: skip
    command.add_argument(
        "--alarm", type=percentage(0.001, 50), default=1.0, metavar="PERCENT",
        help="how many of 100 equal ones may be worse (default: 1)",
    )  # fmt: skip
    add_study_options(command)
    command.add_argument(
        "--markdown", type=Path, metavar="FILE", help="also write the answer as Markdown"
    )
    command.add_argument("--junit", type=Path, metavar="FILE", help="also write JUnit XML")


def _pairs(word: str) -> int:
    """Read a number of pairs: one tells nothing."""
    if not word.isdecimal() or not 2 <= int(word) <= 1000:
        raise argparse.ArgumentTypeError(f"{word!r} is not a number of pairs from 2 to 1000")
    return int(word)


def run(chosen: argparse.Namespace) -> int:
    """Build, run and compare; the exit code."""
    from runner.launch.view import View

    view = View()
    return run_study(_session(chosen, view), chosen, view)


def _session(chosen: argparse.Namespace, view: View) -> Session:
    from runner.compare.verdicts import thresholds
    from runner.inventory.inventory import load_inventory
    from runner.matrix.file import load_matrix
    from runner.versions.ci_study import CiStudy

    inventory = cache(partial(load_inventory, chosen.inventory))
    matrix = load_matrix(chosen.file, lambda nodes: inventory().devices_of(nodes))
    if matrix.tune is not None:
        raise UserError(f"the matrix {matrix.name} has `tune`; ci takes one with axes or defaults")
    quantities = {
        word.partition("=")[0].strip() for text in chosen.threshold for word in text.split(",")
    }
    counted = {
        key: value for key, value in thresholds(chosen.threshold).items() if key in quantities
    }
    study = CiStudy(
        matrix,
        head=_version(chosen, chosen.head, "--head"),
        base=_version(chosen, chosen.base, "--base"),
        limits=counted,
        pairs=chosen.pairs,
        alarm_percent=chosen.alarm,
    )
    return session_of(study, inventory(), chosen, view)


def _version(chosen: argparse.Namespace, word: str, option: str) -> Version:
    """Read a version that a person names."""
    from runner.versions import git_history
    from runner.versions.git_history import repository_of
    from runner.versions.version import kind_of, package, pin_set

    kind = kind_of(word)
    if kind == "package":
        return package(word, option)
    if kind == "pin":
        return pin_set(word)
    here = chosen.repository or repository_of(chosen.file.resolve().parent)
    return git_history.commit_of(here, word, option)
