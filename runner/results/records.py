"""A campaign's folder as records: the last attempt of each repeat. Never launches anything."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.base.clock import day
from runner.base.errors import UserError
from runner.figures.cell_statistics import WITHOUT_NUMBERS
from runner.figures.devices import multiplied_in, reached
from runner.folder import names
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.folder.products import load_products
from runner.folder.stored import UnreadableError
from runner.logs.run_sizes import ATTENTION
from runner.matrix.published import PublishedRow, check_published, published_rows
from runner.matrix.table_shape import TableShape, check_table, shape_of
from runner.results import judge
from runner.results.arrivals import by_arrivals
from runner.results.decide import learned
from runner.results.diagnosis.verdict import rules
from runner.results.machines import device_name, environment_of, pin_differences, trainer_versions
from runner.results.samples import with_fetched
from runner.results.story import story_of
from runner.systems.common.gpt import recomputes_all
from runner.systems.common.registry import load_system
from runner.terms.cell import OF_READING, AskedCell, Cell
from runner.terms.inspected import Inspected
from runner.terms.outcome import Outcome
from runner.terms.record import UNREADABLE, Measurement, Reached, Record, Tried
from runner.terms.run import Run
from runner.terms.settings import Settings

PIN_SETS = "pin sets"
RUNNING = "running; progress: trainbench status"


def layout_of(
    campaign: Campaign, shape: str | None = None
) -> tuple[TableShape, list[PublishedRow]]:
    """Return how the campaign's matrix lays its table out (another `shape`, if given), and its
    documents.

    Raises UserError for an unknown shape.
    """
    settings, where = campaign.settings, names.CAMPAIGN
    return (
        shape_of(check_table(settings.table, where), shape),
        published_rows(check_published(list(settings.published), where)),
    )


def records_of(
    campaign: Campaign,
    relative_to: Path,
    *,
    reader_path: Path | None = None,
    of: Campaign | None = None,
) -> list[Record]:
    """Read every cell of the campaign, in the matrix's order; logs as paths from `relative_to`.

    `reader_path` is where readers find the campaign's folder, if elsewhere than we do; `of` the
    campaign that this one is a copy of, which bench may run now. Raises UserError where the folder
    holds no campaign.
    """
    running = (of or campaign).running()  # asked first: a run that ends meanwhile has an outcome
    now = {(run.cell_id, run.repeat, run.number): _under_way(run) for run in running}
    records = list(_records(campaign, now))
    home = reader_path or campaign.path
    return [
        replace(record, log=os.path.relpath(home / record.log, relative_to))
        if record.log
        else record
        for record in records
    ]


def record_of(attempt: Attempt, campaign: Campaign) -> Record:
    """Read one run that was made, whether it is its repeat's last attempt or not."""
    record = _ran(campaign, attempt, *_machines(campaign, campaign.settings))
    if record is None:
        raise UserError(f"there is no {names.RUN} in {attempt.path}")
    return record


def _under_way(run: Attempt) -> tuple[str, str]:
    """Return a run's status and reason while it has not ended, as `status` tells them apart."""
    waits = run.queued.words() if run.queued else ""
    if not waits:
        return "running", RUNNING
    return "queued", waits.removeprefix("queued").lstrip(", ") or "the queue gives no reason"


def _records(
    campaign: Campaign, running: Mapping[tuple[str, int, int], tuple[str, str]]
) -> Iterator[Record]:
    """Yield the records, with logs as paths in the campaign's folder."""
    settings = campaign.settings
    machines = _machines(campaign, settings)
    for cell, repeat in campaign.asked():
        pending = _without_run(
            campaign, cell, settings.warmup_iters, names.CAMPAIGN, imported=settings.imported
        )
        of_matrix: dict[str, Any] = {
            "target_loss": settings.target_loss,
            "until_percent": settings.until_percent,
        }
        pending = replace(pending, repeat=repeat, **of_matrix)
        attempts = campaign.attempts(cell.id, repeat)
        for attempt in reversed(attempts):
            tried = _earlier(attempts, attempt)
            if under_way := running.get((cell.id, repeat, attempt.number)):
                status, reason = under_way
                now = replace(pending, status=status, reason=reason)
                yield replace(now, attempt=attempt.number, tried=tried)
                break
            try:
                record = _ran(campaign, attempt, *machines, of=(settings, cell))
            except Exception as error:  # whatever is in one run's files, the table has the others
                ours = isinstance(error, UserError)
                reason = str(error) if ours else judge.unreadable(error).reason
                record = replace(pending, status=UNREADABLE, reason=reason)
            # One without run.json was never planned: bench died in the instant before.
            if record is not None:
                yield replace(
                    record,
                    attempt=attempt.number,
                    tried=tried,
                    story=story_of(attempts),
                    **of_matrix,
                )
                break
        else:
            yield pending


def _earlier(attempts: Sequence[Attempt], current: Attempt) -> tuple[Tried, ...]:
    """Return how the attempts before `current` ended, as recorded, oldest first."""
    return tuple(
        Tried(
            attempt=attempt.number,
            status=ended.status,
            reason=ended.reason,
            began=ended.started_at,
            wall_s=ended.wall_s,
            queued_s=ended.queued_s,
            hosts=_hosts(attempt),
        )
        for attempt in attempts
        if attempt.number < current.number and (ended := attempt.outcome) is not None
    )


def _hosts(attempt: Attempt) -> tuple[str, ...]:
    try:
        return tuple(attempt.hosts.values())
    except UnreadableError:
        return ()


def _machines(
    campaign: Campaign, settings: Settings
) -> tuple[dict[str, Any], dict[str, Inspected]]:
    """Return what the runs of a campaign share: their environment, and what each node is."""
    nodes = campaign.inspections()
    environment = environment_of(campaign.name, settings, nodes)
    pin_sets = {(cell.system, cell.pin) for cell in settings.cells if cell.pin}
    if len(pin_sets) > 1:
        environment[PIN_SETS] = pin_differences(nodes, pin_sets)
    return environment, nodes


def _of_cell(environment: Mapping[str, Any], cell: Cell) -> dict[str, Any]:
    """Return a run's own environment: of several pin sets, how its own differs."""
    differences = environment.get(PIN_SETS, {}).get((cell.system, cell.pin))
    shared = {key: value for key, value in environment.items() if key != PIN_SETS}
    return shared | ({"pin set": differences} if differences else {})


def _without_run(
    campaign: Campaign,
    cell: Cell,
    warmup_iters: int | None,
    where: str,
    *,
    imported: bool = False,
) -> Record:
    """Build a cell that has not run, as the file `where` has it. Raises UserError.

    Of one that was imported no more is known than it says: no default is its own.
    """
    system, parameters = load_system(cell.system), cell.parameters
    where = f"{where}: cell {cell.name}"
    cell = replace(cell, parameters=system.recorded(cell.parameters, where))
    silent = imported and "activation_checkpointing" not in parameters
    return Record(
        campaign=campaign.name,
        cell=cell.name,
        cell_id=cell.id,
        system=cell.system,
        status="pending",
        reason="not run yet",
        axes=cell.axes,
        parameters=parameters if imported else {**cell.parameters, **_chosen(cell)},
        fingerprinted=() if imported else system.fingerprinted(cell),
        nodes=cell.nodes,
        devices_per_node=cell.devices_per_node,
        micro_batch_size=cell.parameters.get("micro_batch_size"),
        global_batch_size=system.batch_size(cell),
        warmup_iters=warmup_iters,
        activation_checkpointing=None if silent else recomputes_all(cell.parameters),
        model=system.architecture(cell),
        tokens_per_sample=system.tokens_per_sample(cell),
        arithmetic=system.arithmetic(cell.parameters),
        layout_free=system.layout_free,
        parallel={
            name: size
            for name, size in system.sizes(cell).items()
            if name in parameters or not imported
        },
        imported=imported,
        attention=None if imported else system.attention(cell),
        profile=cell.profile,
    )


def _chosen(cell: Cell) -> dict[str, Any]:
    """Return what each cell chooses; None for a pin set or a dataset where it has none."""
    return {"pin": cell.pin or None, "dataset": cell.dataset or None, "env": cell.env}


def _ran(
    campaign: Campaign,
    attempt: Attempt,
    environment: Mapping[str, Any],
    nodes: Mapping[str, Inspected],
    *,
    of: tuple[Settings, AskedCell] | None = None,
) -> Record | None:
    """Read a run, as the campaign names and counts it by now, where it is `of` one; None where it
    was never planned. Raises UserError where it cannot be read.
    """
    run, recorded = attempt.run, attempt.outcome
    if run is None:
        return None
    if of is not None:
        run = _renamed(run, *of)
        recorded = judge.outcome_of(attempt, run.cell)
    if recorded is not None and recorded.status == UNREADABLE:
        raise UnreadableError(recorded.reason)
    imported = run.imported
    asked_record = _without_run(
        campaign, run.cell, run.warmup_iters, names.RUN, imported=imported is not None
    )
    logs = attempt.logs()
    trained = recorded is None or recorded.status not in WITHOUT_NUMBERS
    measured = judge.measure_run(run.cell, logs) if trained else Measurement()
    ended = attempt.without_secrets(_ended(attempt, run.cell, recorded, measured))
    began = recorded.started_at if recorded else None
    evidence, kind = ended.evidence, run.nodes[0].device
    hosts = () if imported else tuple(attempt.hosts.values())
    used_nodes = {host: nodes[host] for host in hosts if host in nodes}
    # A node's GPUs are nothing to its processors' run.
    device = "" if kind == "cpu" else device_name(used_nodes or nodes)
    device = imported.device if imported else device
    log = attempt.path / evidence.log if evidence else logs[judge.telling_rank(attempt, ended)]
    record = replace(
        asked_record,
        status=ended.status,
        reason=ended.reason,
        diagnosis=ended.diagnosis,
        repeat=attempt.repeat,
        attempt=attempt.number,
        measurement=measured,
        attention=measured.facts.get(ATTENTION, asked_record.attention),
        date=day(began) if began else "",
        began=began,
        wall_s=recorded.wall_s if recorded else 0.0,
        queued_s=recorded.queued_s if recorded else None,
        hosts=hosts,
        noted=attempt.noted(),
        device_kind=kind,
        log=log.relative_to(campaign.path).as_posix(),
        last_words=ended.last_words,
        environment=_of_cell(environment, run.cell) | trainer_versions(measured),
        device=device,
    )
    record = replace(record, reached=_reached(attempt, run, record, attempt.devices(0)))
    record = with_fetched(record, logs, {rank: attempt.devices(rank) for rank in logs})
    if not imported:
        record = by_arrivals(record, logs)
    return replace(record, system=imported.system) if imported and imported.system else record


def _renamed(run: Run, settings: Settings, asked_cell: AskedCell) -> Run:
    """Return a run with what changed in the matrix and does not affect what ran: the name, the
    axes, how its log is read, and how many iterations no figure counts.

    One of a log is its own.
    """
    if asked_cell.repeats is not None:
        return run
    reading = {
        key: asked_cell.parameters[key] for key in OF_READING if key in asked_cell.parameters
    }
    parameters = {**run.cell.parameters, **reading}
    cell = replace(run.cell, name=asked_cell.name, axes=asked_cell.axes, parameters=parameters)
    return replace(run, cell=cell, warmup_iters=settings.warmup_iters)


def _reached(attempt: Attempt, run: Run, record: Record, ids: Sequence[int]) -> Reached:
    """Return what doctor had measured of the run's devices when it began."""
    if run.imported:
        return Reached(missing="its log was imported, and doctor never saw its devices")
    try:
        products = load_products(attempt.path)
    except UnreadableError as error:
        return Reached(missing=str(error))
    hosts, kind = list(attempt.hosts.values()), run.nodes[0].device
    arithmetic = record.arithmetic and multiplied_in(record.arithmetic, record.device, kind)
    return reached(products, hosts, ids, arithmetic, kind)


def _ended(
    attempt: Attempt, cell: Cell, recorded: Outcome | None, measured: Measurement
) -> Outcome:
    """Say how a run ended, as recorded; why, as the logs tell by what is known of logs today.

    One that ended while no bench was there is judged, and nothing of that is written.
    """
    if recorded is None and attempt.over:
        return judge.judge(attempt, cell, measured, "")
    if recorded is None:
        status = "interrupted" if measured.intervals else "did_not_run"
        return Outcome(status, "", "bench ended before the run did")
    # By the same rules the logs say the same; one without an ending is of an older version.
    if not recorded.ending or recorded.rules == rules():
        return learned(recorded, measured)
    return judge.explain(recorded, attempt, measured)
