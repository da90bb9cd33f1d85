"""`python -m runner parse LOG...`: one trainer's logs, from anywhere, to one result."""

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from runner.base.errors import UserError
from runner.base.options import Commands, new_command
from runner.base.streams import say, terminal_width
from runner.commands.log_options import add_log_options, check_log_options, patterns_of
from runner.terms.memory import MEMORY
from runner.terms.record import UNREADABLE

DESCRIPTION = """\
Read the logs of one run and say what they measured, without a campaign's folder.

The system is recognised by its lines; the reason says how. Several LOGs are the nodes of one run:
Megatron prints on the last rank, DeepSpeed and LiBai on rank 0, so give all of them. With --each
every LOG is a run of its own, and a row of one table. A log without any step gets a status that
says so, and no numbers.

  python -m runner parse train_0.log
  python -m runner parse node0.log node1.log --format json
  python -m runner parse a.log b.log c.log --each
  python -m runner parse ds.out --global-batch-size 512     the log itself names no batch size
  python -m runner parse titan.log --devices 8 --tokens-per-sample 8192   tokens/s per device
  python -m runner parse output.log --warmup-iters 20       figures without the first 20 iterations
  python -m runner parse train.log --matrix mine.yaml       try the patterns of a matrix's `log:`

JSON keys: system, family (of lines), status, reason, logged_lines (an iteration that several nodes
logged is one), counted_lines (those that enter the figures), runs (in one file), first_iteration,
last_iteration (from 1), planned_iterations, step_time_ms, samples_per_s, tokens_per_s and
tokens_per_s_per_device (time over work of the counted lines, or work over time, the former of the
whole job), samples_per_s_steps_ci_low/high (95 % interval by the run's own steps),
step_time_ms_median, samples_per_s_median, stalls_percent (how much more time the steps took than
median ones), skipped, nan, last_loss, last_validation_loss, and the four
figures of memory (docs/measures.md); memory_mib is of older versions (the first of them that the
log has); null: the log has none; with --each also log. docs/parsers.md lists the statuses and what
is read from which line.

exit codes: 0 the logs were read, whatever they say; 2 bad input, or one of --each cannot be read
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands,
        "parse",
        "any trainer's logs into numbers",
        DESCRIPTION,
        answers=("parse", "parse_each"),
        formats=("table", "markdown", "csv", "json"),
    )
    command.add_argument(
        "log", nargs="+", type=Path, metavar="LOG", help="a log; one for each node"
    )
    command.add_argument(
        "--each",
        action="store_true",
        help="read each log as a run of its own, not as a node of one run",
    )
    add_log_options(command)
    command.add_argument(
        "--warmup-iters",
        type=int,
        metavar="N",
        help="first iterations of each run to leave out (default: found in the steps)",
    )


def run(chosen: argparse.Namespace) -> int:
    """Read, and print one table or one JSON object; with --each one of all logs."""
    check_log_options(chosen)
    if chosen.warmup_iters is not None and chosen.warmup_iters < 0:
        raise UserError(f"--warmup-iters is {chosen.warmup_iters}; it must be at least 0")
    if chosen.each:
        return _rows_per_log(chosen)
    with _files(chosen.log) as paths:
        result = parse(paths, **_options(chosen))
    if chosen.format in ("markdown", "csv"):
        _say_table([{"log": ", ".join(map(str, chosen.log)), **result}], chosen.format)
    elif chosen.format == "json":
        say(json.dumps(_versioned(result), indent=1))
    else:
        say(table(result))
    return 0


def _options(chosen: argparse.Namespace) -> dict[str, Any]:
    """Return what the options say, as `parse` takes it."""
    return {
        "system": None if chosen.system == "auto" else chosen.system,
        "family": chosen.family,
        "global_batch_size": chosen.global_batch_size,
        "tokens_per_sample": chosen.tokens_per_sample,
        "devices": chosen.devices,
        "warmup_iters": chosen.warmup_iters,
        "log": None if chosen.matrix is None else patterns_of(chosen.matrix),
    }


def _rows_per_log(chosen: argparse.Namespace) -> int:
    """Print a row a log; exit code 2 where one could not be read."""
    from runner.results.parsed import LogResult

    rows, broken = [], False
    for log in chosen.log:
        try:
            with _files([log]) as paths:
                result = parse(paths, **_options(chosen))
        except UserError as error:
            broken = True
            result = asdict(LogResult(None, None, UNREADABLE, str(error)))
        versioned = _versioned(result) if chosen.format == "json" else result
        rows.append({"log": str(log), **versioned})
    _say_table(rows, chosen.format)
    return 2 if broken else 0


def _versioned(result: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON object of a log, with its schema's number (parse.json)."""
    return {"schema": 1, **result}


def _say_table(rows: Sequence[dict[str, Any]], format: str) -> None:
    from runner.tables.log_table import render

    say(render(rows, format, terminal_width()), end="")


def parse(
    paths: Sequence[Path],
    system: str | None,
    *,
    tokens_per_sample: int | None = None,
    devices: int | None = None,
    log: Any = None,
    **options: Any,
) -> dict[str, Any]:
    """Read the logs, by a matrix's `log` where it is given; return the result as the JSON object
    has it.
    """
    from runner.logs.run_sizes import Known
    from runner.results.parsed import log_result, read
    from runner.systems.command import readers

    own_readers = None if log is None else readers({"log": log})
    reading = read(
        paths, system, sizes=Known(tokens_per_sample, devices), readers=own_readers, **options
    )
    return asdict(log_result(reading))


def table(result: dict[str, Any]) -> str:
    """Lay the result out for a person; of a log without a step, only what it has."""
    from runner.base.grid import aligned

    times = ("step_time_ms", "step_time_ms_median")
    units = {**dict.fromkeys(times, "ms"), **dict.fromkeys(MEMORY, "MiB"), "stalls_percent": "%"}
    if high := result["samples_per_s_steps_ci_high"]:
        units["samples_per_s"] = f"± {(high / result['samples_per_s'] - 1) * 100:.1f} % (its steps)"
    rows = [
        (key, "–" if value is None else value, units.get(key, ""))
        for key, value in result.items()
        if key not in ("reason", "memory_mib") and not key.endswith(("_ci_low", "_ci_high"))
        if value is not None or (key not in MEMORY and result["logged_lines"])
    ]
    return aligned(rows, "plain") + f"\n\n{result['reason']}"


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
