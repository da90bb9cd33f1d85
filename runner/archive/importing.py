"""Logs of runs that this project did not start, brought into a campaign of their own.

Each is copied whole, checked by its checksum, and read where it lies then, so that a log that still
grows is what was judged. campaign.json is written last: an import that dies leaves no cell.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from node.files import open_plain
from node.printable import printable
from node.program_output import os_error_words
from node.validated_text import FileName, Sha256
from runner import __version__
from runner.archive.imported_cells import Declared, cell_of, names_of, outcome_of, printed_by
from runner.base.errors import UserError
from runner.base.exclusive import make_private
from runner.folder import names
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.folder.stored import write_json
from runner.results.parsed import Reading, end_of, read
from runner.systems.command import readers
from runner.terms.cell import MOST_CELLS, MOST_REPEATS, OF_READING, AskedCell, Cell
from runner.terms.orders import LOG_LIMIT_BYTES, Limits, NodeRun
from runner.terms.outcome import Outcome
from runner.terms.printed_answers import ImportedRun
from runner.terms.run import Imported, ImportedLog, Run
from runner.terms.settings import Settings

INVENTORY = "imported"  # what stands in the place of one
HOST = "imported-log"  # in the place of a node, which nobody knows
BLOCK = 1 << 22
_PORT = 1  # run.json has one


@dataclass(frozen=True)
class LogRun:
    """A run that is to be made of logs: its cell, and what its logs say."""

    cell: Cell
    logs: tuple[ImportedLog, ...]
    reading: Reading


def import_logs(
    logs: Sequence[Path], campaign: Campaign, declared: Declared, *, cell: str | None, one_run: bool
) -> list[ImportedRun]:
    """Make runs of logs: one of each, or one of all. Raises UserError before anything is written.

    `cell` is the name of the cell that they are repeats of; without it each is a cell of its own.
    """
    FileName(campaign.name, "--into")
    with _beside(campaign) as folder:
        copies: dict[str, ImportedLog] = {}
        for path in logs:
            log = _copied(path, folder)
            if same := copies.get(log.sha256):
                raise UserError(f"{log.name} is the same log as {same.name}")
            copies[log.sha256] = log
        groups = [tuple(copies.values())] if one_run else [(copy,) for copy in copies.values()]
        called = names_of(logs[:1] if one_run else logs)
        planned = [
            _planned(cell or name, group, folder, declared)
            for name, group in zip(called, groups, strict=True)
        ]
        _check(campaign, planned, cell)
        with campaign.locked(group=None):  # nothing of it is executed
            settings = _check(campaign, planned, cell)
            imported = []
            for run in planned:
                settings, repeat = _with(settings, run.cell)
                imported.append(_make(campaign, run, folder, repeat, declared))
            campaign.write(settings)
    return imported


@contextlib.contextmanager
def _beside(campaign: Campaign) -> Iterator[Path]:
    """Give a folder on the campaign's file system; of a refused import nothing stays."""
    runs = campaign.path.parent
    there = runs.exists()
    make_private(runs)
    try:
        with tempfile.TemporaryDirectory(prefix=".import-", dir=runs) as folder:
            yield Path(folder)
    finally:
        if not there:
            with contextlib.suppress(OSError):
                runs.rmdir()


def _copied(path: Path, folder: Path) -> ImportedLog:
    """Copy a log into a file named by its checksum, and say what its bytes are."""
    digest, size, copy = hashlib.sha256(), 0, folder / "copy"
    try:
        with open_plain(path) as source, copy.open("xb") as target:
            while block := source.read(BLOCK):
                size += len(block)
                if size > LOG_LIMIT_BYTES:
                    raise UserError(f"{path} has more than {LOG_LIMIT_BYTES >> 30} GiB; cut it")
                digest.update(block)
                target.write(block)
    except OSError as error:
        why = os_error_words(error, str(folder))
        raise UserError(f"{path} cannot be brought in: {why}") from None
    if not size:
        raise UserError(f"{path} is empty")
    log = ImportedLog(printable(str(path)), Sha256(digest.hexdigest()), size)
    copy.rename(folder / log.sha256)
    return log


def _planned(name: str, logs: tuple[ImportedLog, ...], folder: Path, declared: Declared) -> LogRun:
    reading = read(
        [folder / log.sha256 for log in logs],
        declared.system,
        family=declared.family,
        global_batch_size=declared.global_batch_size,
        sizes=declared.known,
        readers=None if declared.log is None else readers({"log": declared.log}),
    )
    return LogRun(cell_of(name, logs[0].name, reading, declared), logs, reading)


def _check(campaign: Campaign, planned: Sequence[LogRun], cell: str | None) -> Settings:
    """Return what the campaign is, created if missing. Raises UserError where the logs cannot
    go into it.
    """
    was = campaign.recorded
    if was is None and campaign.begun:
        raise UserError(
            f"{campaign.path} has runs and no {names.CAMPAIGN}; name another with --into"
        )
    settings = was or Settings(
        repeats=1,
        cells=(),
        inventory=INVENTORY,
        trainbench=__version__,
        created_at=time.time(),
        imported=True,
    )
    if not settings.imported:
        raise UserError(
            f"bench made campaign {campaign.name}, so no log goes into it; give --into a new name"
        )
    there = dict(_imported(campaign, settings))
    for run in planned:
        for log in run.logs:
            if log.sha256 in there:
                raise UserError(f"{log.name} is in campaign {campaign.name}: {there[log.sha256]}")
    by_name = {known_cell.name: known_cell for known_cell in settings.cells}
    for run in planned:
        same_name = by_name.get(run.cell.name)
        if same_name is not None and cell is None:
            raise UserError(
                f"campaign {campaign.name} has a cell {run.cell.name}; --cell {run.cell.name} makes"
                " this log a repeat of it, --cell with another name a cell of its own"
            )
        if same_name is not None and _identity(same_name) != _identity(run.cell):
            raise UserError(
                f"cell {same_name.name} {_differs(same_name, run.cell)}; give --cell another name"
            )
        by_name[run.cell.name] = AskedCell(**vars(run.cell))
    return settings


def _identity(cell: Cell) -> tuple[str, dict[str, Any]]:
    """Return what repeats of an imported cell have alike: what ran, and how it is counted."""
    return cell.id, {key: cell.parameters.get(key) for key in OF_READING}


def _differs(was: Cell, now: Cell) -> str:
    """Say in what a cell is another one than that of its name."""
    facts = (
        {"nodes": side.nodes, "devices_per_node": side.devices_per_node, **side.parameters}
        for side in (was, now)
    )
    before, after = facts
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    differences = (
        f"has {key} {before.get(key)}, and this log {after.get(key)}" for key in keys[:2]
    )
    return ", ".join(differences) or "was made otherwise"


def _imported(campaign: Campaign, settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the checksum of each log that is there, and which run it is."""
    for cell, repeat in settings.asked():
        for attempt in campaign.attempts(cell.id, repeat)[-1:]:
            run = attempt.run
            for log in run.imported.logs if run and run.imported else ():
                yield log.sha256, f"cell {cell.name}, repeat {repeat}, was {log.name}"


def _with(settings: Settings, cell: Cell) -> tuple[Settings, int]:
    """Return the campaign with one more repeat of the cell, and which that is."""
    by_id = {known_cell.id: known_cell for known_cell in settings.cells}
    before = by_id.get(cell.id)
    repeat = (before.repeats or 0) + 1 if before else 1
    if repeat > MOST_REPEATS or len(by_id) > MOST_CELLS:
        raise UserError(f"a campaign holds {MOST_REPEATS} repeats of a cell, {MOST_CELLS} cells")
    by_id[cell.id] = replace(before or AskedCell(**vars(cell)), repeats=repeat)
    return replace(settings, cells=tuple(by_id.values())), repeat


def _make(
    campaign: Campaign, planned: LogRun, folder: Path, repeat: int, declared: Declared
) -> ImportedRun:
    """Write the run's folder, its outcome last."""
    cell = planned.cell
    attempt = campaign.new_attempt(cell.id, repeat)
    run = Run(
        campaign=campaign.name,
        cell=cell,
        repeat=repeat,
        attempt=attempt.number,
        warmup_iters=declared.warmup_iters,
        limits=Limits(0.0, 0.0, 0.0),
        master_address="",
        master_port=_PORT,
        nodes=tuple(_node(rank) for rank in range(len(planned.logs))),
        imported=Imported(
            planned.logs,
            printed_by(planned.reading, cell),
            declared.device,
        ),
    )
    write_json(attempt.path / names.RUN, run.to_json())
    for rank, log in enumerate(planned.logs):
        make_private(attempt.node(rank))
        (folder / log.sha256).replace(attempt.log(rank))
    outcome = _judged(attempt, planned)
    write_json(attempt.path / names.OUTCOME, outcome.to_json())
    return ImportedRun(
        logs=tuple(str(log.name) for log in planned.logs),
        cell=cell.name,
        repeat=repeat,
        status=outcome.status,
        reason=outcome.reason or "",
        logged_lines=len(planned.reading.measurement.intervals),
    )


def _judged(attempt: Attempt, planned: LogRun) -> Outcome:
    logs = list(attempt.logs().values())
    train_iters = planned.cell.parameters.get("train_iters")
    verdict = end_of(logs, planned.reading.measurement, attempt.inside, train_iters)
    return outcome_of(verdict, planned.reading)


def _node(rank: int) -> NodeRun:
    """Return the part of a node of which nothing but its log is known."""
    return NodeRun(
        host=HOST,
        node_rank=rank,
        argv=(),
        env={},
        cwd="",
        files={},
        requires={},
        ports=(),
        device="",
        device_ids=(),
        runs="",
        dir="",
    )
