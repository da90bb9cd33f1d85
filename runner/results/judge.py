"""Turn a run's folder into its measurement and outcome. Reads files, writes none."""

import traceback
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median

from node.causes import EXPLAINED, Cause
from node.printable import printable
from runner.base.errors import UserError
from runner.base.masking import Masks
from runner.base.text import blocks, tail
from runner.folder import names
from runner.folder.attempt import Attempt, RunFolder
from runner.folder.endings import first_bad
from runner.folder.stored import UnreadableError
from runner.logs.run_sizes import UNKNOWN
from runner.results import stall
from runner.results.decide import decide, last_words, with_verdict
from runner.results.diagnosis.verdict import Verdict, diagnose
from runner.systems.common.registry import load_system
from runner.terms.cell import OF_READING, Cell
from runner.terms.outcome import Outcome
from runner.terms.record import UNREADABLE, Measurement

# Rates of a log may be means of other windows than its times are; a wrong batch is off by more.
TOLERANCE = 1.2
STACKS = 1 << 22  # bytes at a log's end that are searched for the stacks of a stalled run


def measure_run(cell: Cell, logs: Mapping[int, Path]) -> Measurement:
    """Parse the logs of all nodes (rank to path) with the parser of the cell's system."""
    system = load_system(cell.system)
    measured = system.parse({rank: blocks(path) for rank, path in logs.items()}, cell)
    if system.own_keys:
        doubt = doubt_of(system.batch_size(system.typed(cell)), measured)
        measured = replace(measured, rate_doubt=doubt)
    contradicted = (*measured.contradicted, *contradictions(cell, measured))
    return replace(measured, contradicted=contradicted)


def contradictions(cell: Cell, measured: Measurement) -> Iterator[str]:
    """Yield what a cell of a trainer of the user's own says and its log does not bear out."""
    system = load_system(cell.system)
    if not system.own_keys or not measured.intervals:
        return
    cell = system.typed(cell)
    tokens, logged = system.tokens_per_sample(cell), UNKNOWN.or_by(measured.facts)
    for quantity, ours, theirs in (
        ("tokens_per_sample", tokens, logged.tokens_per_sample),
        ("devices", cell.world_size, logged.devices),
    ):
        if ours and theirs and ours != theirs:
            yield f"the cell says {ours} {quantity}, and its log {theirs}"
    if measured.rate_doubt:
        yield measured.rate_doubt


def doubt_of(batch: int | None, measured: Measurement, who: str = "the cell says") -> str:
    """Say why no samples/s can be right: rates and times of the lines make another batch than the
    run has, or, of a run whose batch is not known, than the lines themselves have.
    """
    shares = [
        step.samples_per_s * step.step_time_ms / 1000 / size
        for step in measured.intervals
        if step.samples_per_s and step.step_time_ms and (size := batch or step.global_batch_size)
    ]
    if not shares or 1 / TOLERANCE < (off := median(shares)) < TOLERANCE:
        return ""
    if batch is None:
        return f"no samples/s: rate x time of a line make {off:.4g} times the batch size on it"
    return (
        f"{who} {batch} samples an iteration, and rate x time of the log's lines make"
        f" {off * batch:.4g}: samples_per_step, tokens_per_sample or a unit is wrong"
    )


def judged(attempt: Attempt, cell: Cell, play_words: str) -> tuple[Measurement, Outcome]:
    """Return what an ended run measured, and its outcome; never raises.

    If our code fails on a log, that is our bug: this run's outcome says so, and the campaign goes
    on.
    """
    try:
        measured = measure_run(cell, attempt.logs())
        return measured, attempt.without_secrets(judge(attempt, cell, measured, play_words))
    except Exception as error:  # any error: the campaign goes on without this run
        return Measurement(), unreadable(error)


def outcome_of(attempt: Attempt, cell: Cell) -> Outcome | None:
    """Return how an attempt ended; None while it has not.

    Its log is read again where the matrix's `cell` reads it in another way than the run was planned
    with: what the trainer did is the same, when it began and how long it took stays as recorded.
    """
    recorded = attempt.outcome
    if recorded is None or not reads_otherwise(attempt, cell):
        return recorded
    _, now = judged(attempt, cell, "")
    times = {name: getattr(recorded, name) for name in ("started_at", "wall_s", "queued_s")}
    return replace(now, **times)


def reads_otherwise(attempt: Attempt, cell: Cell) -> bool:
    """Whether the cell's patterns are others than those of the run."""
    try:
        run = attempt.run
    except UnreadableError:
        return False
    planned, now = (run.cell.parameters if run else {}), cell.parameters
    apart = any(planned.get(key) != now.get(key) for key in OF_READING)
    return run is not None and not run.imported and apart


def unreadable(error: Exception) -> Outcome:
    """Return the outcome of a run whose folder could not be read; it carries no numbers."""
    message = Masks().text(printable(str(error)))[:300] or "no message"
    if isinstance(error, OSError):
        where = "/".join(Path(error.filename or "").parts[-2:])
        message = printable(": ".join(filter(None, (where, error.strerror or str(error)))))
    elif not isinstance(error, UserError):
        newest_frame = traceback.extract_tb(error.__traceback__)[-1]
        code_line = f"{Path(newest_frame.filename).name}:{newest_frame.lineno}"
        message = (
            f"{type(error).__name__} in {code_line}: {message}; report it with the run's folder"
        )
    reason = f"what the run left cannot be read: {message}"
    return Outcome(UNREADABLE, Cause.UNREADABLE, reason, reason)


def judge(attempt: Attempt, cell: Cell, measured: Measurement, play_words: str) -> Outcome:
    """Judge an ended run; `play_words`, Ansible's message, is used if nodes give no reason."""
    ended = decide(
        nodes=len(attempt.logs()),
        endings=attempt.endings(),
        halt=attempt.halt,
        measured=measured,
        train_iters=measured.iterations_of(cell.parameters),
        play_words=play_words,
    )
    # Add what the matrix's own patterns did not find, unless a failure explains the run anyway.
    certain = ended.status == "ok" or not measured.intervals
    if certain:
        ended = adding(ended, *measured.missing.values(), *measured.contradicted)
    if ended.cause == Cause.STALLED and (ranks := stall.waited_for(stood(attempt))):
        ended = adding(ended, ranks)
    return explain(ended, attempt, measured)


def adding(ended: Outcome, *sentences: str) -> Outcome:
    """Return the outcome with more sentences after its own."""
    sentence = "; ".join(filter(None, (ended.ending or ended.reason, *sentences)))
    return replace(ended, ending=sentence, reason=sentence) if sentences else ended


def stood(attempt: RunFolder) -> list[stall.RankState]:
    """Return where the ranks of a stalled run hung, from their nodes' logs and stacks."""
    ranks = []
    for rank, host in attempt.hosts.items():
        log = attempt.log(rank)
        text = b"\n".join(tail(path, STACKS) for path in (log, log.with_name(names.STACKS)))
        ranks += stall.read_stacks(host, text.decode("utf-8", "replace"))
    return ranks


def explain(ended: Outcome, attempt: Attempt, measured: Measurement) -> Outcome:
    """Add the first cause that the nodes' logs show, if logs can explain this kind of end."""
    if not ended.cause:
        return ended
    logs = attempt.logs()
    telling = telling_rank(attempt, ended)
    verdict: Verdict | None = None
    if ended.cause in EXPLAINED:
        # The node that ended first is read first: in logs without times it is taken for the cause.
        in_order = sorted(logs.items(), key=lambda item: item[0] != telling)
        steps = {path: measured.places.get(rank, ()) for rank, path in in_order if path.is_file()}
        verdict = diagnose(steps, name=attempt.inside)
    last_output = stall.LABEL.split(tail(logs[telling]).decode("utf-8", "replace"))[0]
    return with_verdict(ended, verdict, last_words(last_output.encode()))


def telling_rank(attempt: Attempt, ended: Outcome) -> int:
    """Return the rank of the node that ended the run first, else the first."""
    halt, hosts = attempt.halt, attempt.hosts
    # If it is ok, all nodes ended well: no need to read their endings.
    bad = None if halt or ended.status == "ok" else first_bad(attempt.endings())
    first_host = halt.host if halt else bad
    return next((rank for rank, host in hosts.items() if host == first_host), min(hosts))
