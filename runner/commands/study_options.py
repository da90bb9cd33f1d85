"""What every command that runs a study has on its command line, and how it is carried out."""

from __future__ import annotations

import argparse
import json
import math
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from runner.base.streams import say, terminal_width

if TYPE_CHECKING:
    from runner.launch.view import View
    from runner.study.running import Session
    from runner.study.study import Answer, Study, Unit
    from runner.terms.cluster import Cluster

NO_BUDGET: tuple[None, Unit] = (None, "node-hours")
FORMATS = ("table", "markdown", "json")
RETRIES = 1  # of a run that fails, where two versions are compared


def add_study_options(command: argparse.ArgumentParser) -> None:
    """Add `--plan`, `--dry-run`, `--answer`, `--budget` and `--stop-after`."""
    before = command.add_mutually_exclusive_group()
    before.add_argument("--plan", action="store_true", help="how many runs, how long; then stop")
    before.add_argument(
        "--dry-run", action="store_true", help="show the commands of the first runs; no connection"
    )
    before.add_argument(
        "--answer", action="store_true", help="print what is known so far; no connection"
    )
    command.add_argument(
        "--budget", type=budget, metavar="HOURS",
        help="at most: 12 or 12nh node-hours, 96dh device-hours",
    )  # fmt: skip
    add_stop_after(command)


def add_stop_after(command: argparse.ArgumentParser) -> None:
    """Add `--stop-after`."""
    command.add_argument(
        "--stop-after", type=_seconds, metavar="S",
        help="stop after S seconds; the same command resumes",
    )  # fmt: skip


def _seconds(word: str) -> float:
    """Read a number of seconds above 0."""
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not 0 < value < threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(
            f"{word!r} is not a number of seconds above 0 and below {threading.TIMEOUT_MAX:.0f}"
        )
    return value


def budget(word: str) -> tuple[float, Unit]:
    """Read `12`, `12nh` or `96dh`."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)\s*(nh|dh|)", word)
    if not match:
        raise argparse.ArgumentTypeError(
            f"{word!r} is not a budget; write 12 or 12nh for node-hours, 96dh for device-hours"
        )
    return float(match[1]), "device-hours" if match[2] == "dh" else "node-hours"


def session_of(
    study: Study, cluster: Cluster, chosen: argparse.Namespace, view: View, builds: bool = True
) -> Session:
    """Return a study on a cluster, with what it may cost; `builds`: it compares versions."""
    from runner.launch.engines import engine_of
    from runner.study.running import Limits, Session
    from runner.versions.building import Builder

    here = chosen.file.resolve().parent
    build = Builder(chosen.inventory, chosen.runs, here, view.console).build if builds else None
    hours, unit = chosen.budget or NO_BUDGET
    limits = Limits(hours, unit, RETRIES if builds else 0)
    return Session(study, cluster, chosen.runs, engine_of, build, limits)


def percentage(low: float, high: float) -> type[float]:
    """Return what reads a percentage from `low` to `high`."""

    def read(word: str) -> float:
        try:
            value = float(word.removesuffix("%"))
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{word!r} is not a percentage of {low:g} to {high:g}")
        return value

    return read  # type: ignore[return-value]  # argparse calls it as it does a type


def run_study(session: Session, chosen: argparse.Namespace, view: View) -> int:
    """Run a study, or print what it would do or knows; the exit code."""
    from runner.base.console import one_line
    from runner.study.running import refuse_unbegun

    if chosen.plan or chosen.answer:
        if chosen.answer:
            refuse_unbegun(session)
        answer = session.plan() if chosen.plan else session.answer()
        print_answer(answer, chosen)
        return answer.exit_code
    if chosen.dry_run:
        plans, text = session.dry_run()
        say(json.dumps(plans, indent=1) if chosen.format == "json" else text)
        return 0
    view.console.print(one_line(f"{session.study.kind}: {session.plan().sentence}"))
    try:
        answer, code = session.run(view, chosen.stop_after)
    except BaseException as error:
        view.broken_off(error)
        raise
    print_answer(answer, chosen)
    return code


def print_answer(answer: Answer, chosen: argparse.Namespace) -> None:
    """Print an answer, and write the files that were asked for."""
    from runner.base.files import write_text
    from runner.study.showing import to_junit, to_text

    say(to_text(answer, chosen.format, terminal_width()), end="")
    markdown: Path | None = getattr(chosen, "markdown", None)
    junit: Path | None = getattr(chosen, "junit", None)
    if markdown is not None:
        write_text(markdown, to_text(answer, "markdown"))
    if junit is not None:
        write_text(junit, to_junit(answer))
