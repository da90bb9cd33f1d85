"""`python -m runner parse LOG...`: one trainer's logs, from anywhere, to one result."""

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runner.base.errors import UserError
from runner.base.options import Commands, new_command
from runner.base.streams import say
from runner.systems.common.registry import system_names

DESCRIPTION = """\
Read the logs of one run and say what they measured, without a campaign's folder.

The system is recognised by its lines; the reason says how. Several LOGs are the nodes of one run:
Megatron prints on the last rank, DeepSpeed and LiBai on rank 0, so give all of them. A log without
any step gets a status that says so, and no numbers.

  python -m runner parse train_0.log
  python -m runner parse node0.log node1.log --format json
  python -m runner parse ds.out --global-batch-size 512     the log itself names no batch size
  python -m runner parse output.log --warmup-iters 20       medians without the first 20 iterations

JSON keys: system, status, reason, logged_lines (an iteration that several nodes logged is one),
counted_lines (those that enter the medians), runs (in one file), first_iteration, last_iteration
(from 1), step_time_ms and samples_per_s (medians), skipped, nan, last_loss, memory_mib (devices in
use where the log shows them, else the framework's peak); null: the log has none. docs/parsers.md
lists the statuses and what is read from which line.

exit codes: 0 the logs were read, whatever they say; 2 bad input
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(commands, "parse", "any trainer's logs into numbers", DESCRIPTION)
    command.add_argument(
        "log", nargs="+", type=Path, metavar="LOG", help="a log; one for each node"
    )
    command.add_argument(
        "--system",
        metavar="NAME",
        default="auto",
        help=f"auto (default), {', '.join(system_names())}",
    )
    command.add_argument(
        "--global-batch-size",
        type=int,
        metavar="N",
        help="samples an iteration, where the log does not say or DeepSpeed was told another",
    )
    command.add_argument(
        "--warmup-iters",
        type=int,
        default=0,
        metavar="N",
        help="iterations that do not enter the medians (default: 0)",
    )
    command.add_argument("--format", choices=("table", "json"), default="table")


def run(chosen: argparse.Namespace) -> int:
    """Read, and print one table or one JSON object."""
    from runner.base.suggest import nearest

    if chosen.system not in (known := ["auto", *system_names()]):
        hint = nearest(chosen.system, known)
        raise UserError(
            f"there is no system {chosen.system!r}{hint}; --system is auto or one of"
            f" {', '.join(system_names())}"
        )
    if chosen.global_batch_size is not None and chosen.global_batch_size < 1:
        raise UserError(f"--global-batch-size is {chosen.global_batch_size}; it must be at least 1")
    if chosen.warmup_iters < 0:
        raise UserError(f"--warmup-iters is {chosen.warmup_iters}; it must be at least 0")
    with _files(chosen.log) as paths:
        result = parse(
            paths,
            None if chosen.system == "auto" else chosen.system,
            global_batch_size=chosen.global_batch_size,
            warmup_iters=chosen.warmup_iters,
        )
    say(json.dumps(result, indent=1) if chosen.format == "json" else table(result))
    return 0


def parse(
    paths: Sequence[Path],
    system: str | None,
    *,
    global_batch_size: int | None = None,
    warmup_iters: int = 0,
) -> dict[str, Any]:
    """Read the logs; return the result as the JSON object has it."""
    from runner.judge.diagnosis.verdict import diagnose
    from runner.logs.read import read

    reading = read(paths, system, global_batch_size=global_batch_size, warmup_iters=warmup_iters)
    summary = reading.summary
    verdict = diagnose(paths, steps=summary.logged_lines)
    memory = reading.memory_used_mib
    notes = list(reading.notes)
    if memory is None and reading.memory_allocated_mib is not None:
        memory = reading.memory_allocated_mib
        notes.append("memory is the framework's peak")
    elif memory is not None:
        notes.append("memory is what the fullest device had in use")
    status, sentence = verdict.status, verdict.sentence
    if status == "ok" and summary.diverged_at is not None:
        status = "diverged"
        sentence = (
            f"the loss was NaN or infinite at iteration {summary.diverged_at}, the last that"
            " logged one"
        )
    sentences = [sentence, reading.why, *(notes if summary.logged_lines else reading.notes)]
    known = summary.logged_lines > 0
    return {
        "system": reading.system,
        "status": status,
        "reason": "; ".join(sentence for sentence in sentences if sentence),
        "logged_lines": summary.logged_lines,
        "counted_lines": summary.counted_lines,
        "runs": summary.runs,
        "first_iteration": summary.first_iteration,
        "last_iteration": summary.last_iteration,
        "step_time_ms": _rounded(summary.step_time_ms.median()),
        "samples_per_s": _rounded(summary.samples_per_s.median()),
        "skipped": summary.skipped if known else None,
        "nan": summary.nan if known else None,
        "last_loss": summary.last_loss,
        "memory_mib": _rounded(memory) if known else None,
    }


def table(result: dict[str, Any]) -> str:
    """Lay the result out for a person."""
    from runner.base.grid import aligned

    units = {"step_time_ms": "median, ms", "samples_per_s": "median", "memory_mib": "MiB"}
    rows = [
        (key, "–" if value is None else value, units.get(key, ""))
        for key, value in result.items()
        if key != "reason"
    ]
    return aligned(rows, "plain") + f"\n\n{result['reason']}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


@contextmanager
def _files(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Give the logs as files that can be read more than once: a pipe is copied first."""
    with tempfile.TemporaryDirectory(prefix="trainbench-") as folder:
        files = []
        for number, path in enumerate(paths):
            try:
                if path.is_dir():
                    raise UserError(f"{path} is a folder; name the logs in it")
                with path.open("rb") as stream:
                    if not path.is_file():
                        copy = Path(folder) / f"{number}-{path.name}"
                        with copy.open("wb") as target:
                            shutil.copyfileobj(stream, target)
                        path = copy
            except OSError as error:
                raise UserError(f"{path} cannot be read: {os.strerror(error.errno or 0)}") from None
            files.append(path)
        yield files
