"""Does what a bundle says follow from its logs, and can a machine have done it? `publish --check`.

The bounds are wide: what breaks one cannot have happened as it is told. A forgery whose logs,
polls, samples and figures agree passes.
"""

import json
import math
from collections.abc import Iterator
from typing import Any

from node.printable import printable
from node.schema import MOST_DEPTH, MOST_ITEMS, Plain
from runner.base.errors import UserError
from runner.base.text import counted
from runner.figures.counted_steps import step_time_ms
from runner.folder import names
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.folder.stored import UnreadableError, load
from runner.report.formats import render
from runner.systems.common.registry import load_system
from runner.tables.campaign_document import CampaignDocument
from runner.tables.campaign_reading import end_by_logs, log_growth, read_campaign
from runner.tables.formatting import value_text
from runner.terms.inspected import Inspected
from runner.terms.printed_answers import CheckFinding, Of
from runner.terms.record import Interval, Record

TABLE = "tables/table.json"
RELATIVE = 1e-6  # another machine's numpy may add in another order
# AMX multiplies 2,048 bf16 operations a cycle in a core; no core runs at 6 GHz all the time.
CORE_TFLOP_PER_S = 2048 * 6e9 / 1e12
MEMORY_SLACK = 1.02
# Of the time that passed, a trainer may leave out so much: evaluations, checkpoints, its own log.
LEFT_OUT, SLACK_S = 0.35, 0.5
FIRST_LINES = 3  # iterations after which a model may have learned something
LEAST_OF_UNIFORM = 0.5  # of ln(vocabulary), which a model with random weights begins with
FEWEST_LOSSES = 10
_OTHERS = ("expected_percent",)  # by what this version knows of others
_ANY = Plain(MOST_DEPTH, MOST_ITEMS, lines=True)


def check(campaign: Campaign) -> tuple[CampaignDocument, list[CheckFinding]]:
    """Read an opened bundle's logs again. Raises UserError where it is no bundle."""
    document = read_campaign(campaign, campaign.path / "tables", shape="flat", evidence=True)
    nodes = campaign.inspections()
    findings = [*_table(campaign, document), *_speed(document, nodes)]
    for cell in document.cells:
        for record in cell.records:
            for attempt in campaign.attempts(record.cell_id, record.repeat)[-1:]:
                where = f"{record.cell}, repeat {record.repeat}"
                of_run: tuple[tuple[Of, Iterator[str]], ...] = (
                    ("outcome", _outcome(attempt)),
                    ("time", _time(record, attempt)),
                    ("memory", _memory(record, nodes)),
                    ("loss", _loss(record)),
                )
                findings += [_found(of, f"{where}: {why}") for of, whys in of_run for why in whys]
    return document, findings


def _found(of: Of, why: str) -> CheckFinding:
    return CheckFinding(of=of, why=printable(why))


def entity(campaign: Campaign) -> str:
    """Return who published it, as publication.json says; "" where it does not."""
    try:
        facts = load(campaign.path / names.PUBLISHED, _ANY, names.PUBLISHED)
        return printable(str(facts["entity"]))[:200]
    except (UnreadableError, KeyError, TypeError):
        return ""


def _table(campaign: Campaign, document: CampaignDocument) -> Iterator[CheckFinding]:
    """Compare the figures of the bundle's table with those that its logs give."""
    try:
        table = load(campaign.path / TABLE, _ANY, TABLE)
        theirs = {str(row["cell_id"]): _flat(row) for row in table["rows"]}
    except (UnreadableError, KeyError, TypeError):
        raise UserError(
            f"{campaign.name} has no {TABLE} that can be read; name a bundle that `publish` wrote"
        ) from None
    for ours in map(_flat, json.loads(render(document, "json"))["rows"]):
        if (row := theirs.pop(ours["cell_id"], None)) is None:
            yield _found("table", f"{ours['cell']} is not in {TABLE}")
            continue
        differ = [
            f"{key} is {value_text(row[key])} in {TABLE}, {value_text(value)} by its logs"
            for key, value in ours.items()
            if key in row and key not in _OTHERS and not isinstance(value, list | dict)
            if not _alike(value, row[key])
        ]
        if differ:
            more = f" (and {counted(len(differ) - 1, 'more figure')})" if len(differ) > 1 else ""
            yield _found("table", f"{ours['cell']}: {differ[0]}{more}")
    for row in theirs.values():
        yield _found("table", f"{row.get('cell')} is in {TABLE}, and the campaign has no such cell")


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row's texts and figures beside each other, as older versions printed them."""
    return {**row, **row.get("figures", {})}


def _alike(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, int | float) and isinstance(theirs, int | float):
        return math.isclose(ours, theirs, rel_tol=RELATIVE, abs_tol=1e-12)
    return bool(ours == theirs) or (ours in (None, "") and theirs in (None, ""))


def _outcome(attempt: Attempt) -> Iterator[str]:
    """Yield that a run was called ok, and was not."""
    recorded = attempt.outcome
    if recorded and recorded.status == "ok" and (ended := end_by_logs(attempt)) not in (None, "ok"):
        yield f"{names.OUTCOME} says ok, its logs and nodes say {ended}"


def _speed(document: CampaignDocument, nodes: dict[str, Inspected]) -> Iterator[CheckFinding]:
    """Yield cells that are faster than their devices' peak, or than any processor's."""
    for cell, row in zip(document.cells, document.rows, strict=True):
        record, rate = cell.record, row["figures"]["model_tflop_per_s_per_device"]
        if why := row["verdict_reasons"].get("above_peak"):
            yield _found("speed", f"{row['cell']}: {why}")
        cores = sum(nodes[host].cpu_count or 0 for host in record.hosts if host in nodes)
        all_devices = (rate or 0.0) * record.world_size
        if record.device_kind == "cpu" and cores and all_devices > cores * CORE_TFLOP_PER_S:
            at = f"{all_devices:.3g} TFLOP/s on {cores} cores"
            most = f"no core does more than {CORE_TFLOP_PER_S:.0f}"
            yield _found("speed", f"{row['cell']}: {at}; {most}")


def _time(record: Record, attempt: Attempt) -> Iterator[str]:
    """Yield that a run's steps do not fit into the time that passed, or that its log grew in."""
    took = {
        step.iteration: _seconds(step, record.global_batch_size)
        for step in record.measurement.intervals
    }
    total = sum(seconds or 0.0 for seconds in took.values())
    if record.wall_s and total > record.wall_s * 1.05 + SLACK_S:
        yield f"its steps take {total:.0f} s, and the run lasted {record.wall_s:.0f} s"
        return
    seen = log_growth(record, attempt)
    seconds = [took[step.iteration] for step in seen]
    if not seen or None in seconds:
        return
    first, last = seen[0], seen[-1]
    logged = sum(second or 0.0 for second in seconds[1:])
    least, most = last.after - first.by, last.by - first.after
    passed = ""
    if least > logged / (1 - LEFT_OUT) + SLACK_S:
        passed = f"at least {least:.1f} s"
    elif logged > most * 1.05 + SLACK_S:
        passed = f"at most {most:.1f} s"
    if passed:
        yield (
            f"iterations {first.iteration} to {last.iteration} take {logged:.1f} s by the log, and"
            f" {passed} passed while it grew"
        )


def _seconds(step: Interval, global_batch_size: int | None) -> float | None:
    """Return what all iterations of a line took, with the pauses that it states."""
    ms = step_time_ms(step, global_batch_size)
    return None if ms is None else (step.iterations * ms + step.paused_ms) / 1000


def _memory(record: Record, nodes: dict[str, Inspected]) -> Iterator[str]:
    """Yield that a run used more memory than its devices have."""
    has = [
        float(device.memory_mib)
        for host in record.hosts
        for device in (nodes[host].devices or () if host in nodes else ())
        if str(device.memory_mib).replace(".", "", 1).isdecimal()
    ]
    of = record.measurement
    peaks = (of.memory_allocated_mib, of.memory_reserved_mib, of.memory_used_mib)
    used = max((peak for peak in peaks if peak is not None), default=0.0)
    if record.device_kind == "cuda" and has and used > max(has) * MEMORY_SLACK:
        yield f"{used:.0f} MiB in use on a device that has {max(has):.0f} MiB"


def _loss(record: Record) -> Iterator[str]:
    """Yield losses that training does not give."""
    steps = record.measurement.intervals
    losses = [step.loss for step in steps if step.loss is not None and math.isfinite(step.loss)]
    if not losses:
        return
    if silent := [step.iteration for step in steps if step.loss is None]:
        yield f"iteration {silent[0]} has no loss, others have one"
    if min(losses) < 0:
        yield f"a loss of {min(losses):g}, below 0"
    if len(losses) >= FEWEST_LOSSES and len(set(losses)) == 1:
        yield f"the loss is {losses[0]:g} at every step"
    first, vocabulary = steps[0], getattr(record.model, "vocab_size", None)
    own = load_system(record.system).own_keys  # which may begin from a checkpoint
    if own or not vocabulary or first.loss is None or first.iteration > FIRST_LINES:
        return
    if first.loss < LEAST_OF_UNIFORM * math.log(vocabulary):
        yield (
            f"the first loss is {first.loss:.3g}; random weights give about"
            f" ln({vocabulary}) = {math.log(vocabulary):.1f}"
        )
