"""Is each run of a bundle whole, did it end as recorded, and did it do the work that it says?"""

import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from runner.base.log_file import open_log
from runner.board import printed_settings
from runner.board.bundle_file import OpenBundle
from runner.board.refusal import Refusal
from runner.document.campaign_document import CampaignDocument
from runner.folder import names
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.folder.packed import has_part
from runner.folder.stored import UnreadableError
from runner.judge import judge
from runner.terms.record import Record

MASKED_WORDS = ("redacted", "***", "xxxx", "<removed>", "[removed]")
LINE = 8192


def attempts(bundle: OpenBundle) -> list[tuple[Record, Attempt]]:
    """Return each run that counts, with its folder."""
    return attempts_of(bundle.campaign, bundle.document)


def attempts_of(campaign: Campaign, document: CampaignDocument) -> list[tuple[Record, Attempt]]:
    """Return the same of a campaign."""
    return [
        (record, folders[-1])
        for row in document.rows
        for record in row.records
        if (folders := campaign.attempts(record.cell_id, record.repeat))
    ]


def incomplete(bundle: OpenBundle) -> Iterator[Refusal]:
    """Yield what is missing: runs, logs, what the nodes recorded."""
    for row in bundle.document.rows:
        waiting = [r for r in row.records if r.status in ("pending", "running", "queued")]
        if waiting:
            yield Refusal("incomplete", f"{row.cell}: repeat {waiting[0].repeat} did not run")
    inspected = bundle.campaign.inspections()
    for record, attempt in attempts(bundle):
        where = f"{record.cell}, repeat {record.repeat}"
        missing = [name for name, there in _files(attempt) if not there]
        if missing:
            yield Refusal("incomplete", f"{where}: {missing[0]} is missing")
        for host in record.hosts:
            if host not in inspected or inspected[host].unreachable or inspected[host].problem:
                yield Refusal("incomplete", f"{where}: inspect/{host}.json is missing")


def _files(attempt: Attempt) -> Iterator[tuple[str, bool]]:
    """Yield the files that every run has, and whether they are there."""
    yield names.RUN, (attempt.path / names.RUN).is_file()
    yield names.OUTCOME, (attempt.path / names.OUTCOME).is_file()
    try:
        hosts = attempt.hosts
    except UnreadableError:
        hosts = {}
    for rank in hosts:
        node = attempt.node(rank)
        for name in (names.LOG, names.DONE):
            yield f"nodes/{node.name}/{name}", (node / name).is_file()
    timed = any(has_part(attempt.node(rank), names.TIMELINE) for rank in hosts)
    yield f"nodes/*/{names.TIMELINE}", timed


def other_outcomes(bundle: OpenBundle) -> Iterator[Refusal]:
    """Yield runs that did not end as outcome.json says."""
    for record, attempt in attempts(bundle):
        recorded = attempt.outcome
        run = attempt.run
        if recorded is None or run is None or run.imported:
            continue
        measured = judge.measure_run(run.cell, attempt.logs())
        again = judge.judge(attempt, run.cell, measured, "")
        if again.status != recorded.status:
            yield Refusal(
                "outcome",
                f"{record.cell}, repeat {record.repeat}: {names.OUTCOME} says {recorded.status},"
                f" its logs and nodes say {again.status}",
            )


def chosen_runs(bundle: OpenBundle) -> Iterator[Refusal]:
    """Yield repeats of which a good run was thrown away."""
    for row in bundle.document.rows:
        for record in row.records:
            again = [
                earlier_attempt.attempt
                for earlier_attempt in record.tried
                if earlier_attempt.status == "ok"
            ]
            if again:
                yield Refusal(
                    "chosen_runs",
                    f"{record.cell}, repeat {record.repeat}: attempt {again[0]} ended ok, and"
                    f" attempt {record.attempt} counts in its place; publish the first",
                )


def other_work(bundle: OpenBundle) -> Iterator[Refusal]:
    """Yield runs whose command or log names other work than their cell."""
    for (cell, repeat), problem in run_problems(bundle.campaign, bundle.document).items():
        yield Refusal("other_work", f"{cell}, repeat {repeat}: {problem}")


def run_problems(campaign: Campaign, document: CampaignDocument) -> dict[tuple[str, int], str]:
    """Return each run (cell, repeat) whose command or log names other work than its cell."""
    cells = {cell.id: cell for cell in campaign.settings.cells}
    by_run = {}
    for record, attempt in attempts_of(campaign, document):
        run = attempt.run
        if run is None:
            continue
        cell = printed_settings.cell_settings(record.parameters, record.model)
        of_plan = printed_settings.cell_settings(run.cell.parameters, None)
        asked_cell = cells.get(record.cell_id)
        of_campaign = (
            printed_settings.cell_settings(asked_cell.parameters, None) if asked_cell else {}
        )
        if campaign.settings.seeds:
            of_campaign.pop("seed", None)  # each repeat has its own
        problems = [f"run.json: {x}" for x in printed_settings.differences(of_campaign, of_plan)]
        for node in run.nodes:
            argv = [word for argv in (node.argv, *node.processes) for word in argv]
            printed = printed_settings.of_argv(argv)
            problems += [f"the command: {x}" for x in printed_settings.differences(cell, printed)]
        for rank in attempt.hosts:
            printed = printed_settings.of_log(_head(attempt.log(rank)))
            problems += [f"the log: {x}" for x in printed_settings.differences(cell, printed)]
        problems += record.measurement.contradicted
        if problems:
            by_run[record.cell, record.repeat] = "; ".join(dict.fromkeys(problems))
    return by_run


def _head(log: Path) -> Iterator[str]:
    try:
        with open_log(log) as stream:
            text = stream.read(1 << 20).decode("utf-8", "replace")
    except OSError:
        return
    yield from (line[:LINE] for line in islice(text.splitlines(), printed_settings.MOST_LINES))


def redacted(bundle: OpenBundle) -> Iterator[Refusal]:
    """Yield what was taken out that a reader needs."""
    inspected = bundle.campaign.inspections()
    for record, attempt in attempts(bundle):
        where = f"{record.cell}, repeat {record.repeat}"
        run = attempt.run
        if run is None or run.imported:
            continue
        missing = []
        if record.device_kind != "cpu" and not record.device:
            missing.append("the name of the device")
        for host in record.hosts:
            node = inspected.get(host)
            if node and not node.cpu:
                missing.append(f"the processor of {host}")
            if (
                node
                and record.device_kind == "cuda"
                and not all(d.driver for d in node.devices or ())
            ):
                missing.append(f"the driver of {host}")
        for node_run in run.nodes:
            for word in (*node_run.argv, *(w for argv in node_run.processes for w in argv)):
                if any(mask in word.lower() for mask in MASKED_WORDS) and "=" not in word:
                    missing.append(f"a word of the command ({word[:40]})")
        if not any(node_run.argv or node_run.processes for node_run in run.nodes):
            missing.append("the command")
        if missing:
            yield Refusal("redacted", f"{where}: {missing[0]} was taken out")


def future(bundle: OpenBundle) -> Iterator[Refusal]:
    """Yield runs of tomorrow; clocks may be a day apart."""
    for record in bundle.document.records:
        if record.began and record.began > time.time() + 86_400:
            yield Refusal("future", f"{record.cell}, repeat {record.repeat} began later than now")


def copied_runs(bundle: OpenBundle) -> Iterator[Refusal]:
    """Yield pairs of runs whose every step took the same time."""
    by_fingerprint: dict[str, Record] = {}
    for record, _ in attempts(bundle):
        print_ = fingerprint(record)
        if not print_:
            continue
        earlier = by_fingerprint.setdefault(print_, record)
        if earlier is not record:
            yield Refusal(
                "copied_runs",
                f"{record.cell}, repeat {record.repeat} has every step's time of {earlier.cell},"
                f" repeat {earlier.repeat}",
            )


def fingerprint(record: Record) -> str:
    """Return what tells a run from all others: the times of its steps; "" of too few.

    Redaction keeps it.
    """
    import hashlib

    times: Sequence[object] = [
        (step.iteration, step.step_time_ms, step.samples_per_s)
        for step in record.measurement.intervals
    ]
    if len(times) < 10 or len(set(map(str, times))) < 2:
        return ""
    return hashlib.sha256(repr(times).encode()).hexdigest()
