"""What a repeat's attempts went through, as their logs and endings say. Reads files alone."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from runner.base.log_file import open_log
from runner.folder.attempt import Attempt
from runner.folder.stored import UnreadableError
from runner.logs.kind import Kind
from runner.logs.numbers import quantity, whole_number
from runner.results.samples import looks
from runner.systems.common.registry import load_system
from runner.terms.run import Run
from runner.terms.story import AttemptSeen, FaultSeen, SaveSeen, StepSeen, Story, TrainedSession

MOST_BYTES = 64 << 20  # of a log that is read for its story
_FAULT = re.compile(
    rb"\[trainbench: fault (\d{1,3}) ([a-z_]{1,20}) node=(\d{1,6}) rank=\d{1,6}"
    rb" at=(\d{1,11}\.\d{3}) iteration=\d{1,9}\]"
)
_UNDONE = re.compile(rb"\[trainbench: fault (\d{1,3}) undone at=(\d{1,11}\.\d{3})\]")
_OURS = re.compile(rb"torch_gpt (resumed|checkpoint) ([^\r\n]{1,2000})")
_WORD = re.compile(rb"([a-z_]{1,20})=(\S{0,300})")


def story_of(attempts: Sequence[Attempt]) -> Story | None:
    """Return the story of a repeat, by the attempts of its last chain; None where it has none, or
    that cannot be read.
    """
    try:
        newest_run = attempts[-1].run if attempts else None
        if newest_run is None or newest_run.chain is None:
            return None
        alike = [item for item in attempts if _chain_of(item) == newest_run.chain.folder]
        seen = tuple(item for item in map(_attempt, alike) if item is not None)
    except UnreadableError:
        return None
    return Story(seen)


def faults_of(attempt: Attempt) -> list[FaultSeen]:
    """Return the faults that the logs of an attempt tell of, in their order."""
    faults: dict[int, FaultSeen] = {}
    undone: dict[int, float] = {}
    for rank, path in attempt.logs().items():
        ahead = attempt.clock_ahead_s(rank)
        for line in _lines(path):
            if b"[trainbench: fault " not in line:
                continue
            if match := _FAULT.search(line):
                number, node = (whole_number(match[group]) or 0 for group in (1, 3))
                at = (quantity(match[4]) or 0.0) - ahead
                faults[number] = FaultSeen(number, match[2].decode(), node, at)
            elif match := _UNDONE.search(line):
                undone[whole_number(match[1]) or 0] = (quantity(match[2]) or 0.0) - ahead
    faults_in_order = [replace(item, undone_at=undone.get(item.number)) for item in faults.values()]
    return sorted(faults_in_order, key=lambda fault: fault.at)


def _chain_of(attempt: Attempt) -> str | None:
    with suppress(UnreadableError):
        run = attempt.run
        return run.chain.folder if run and run.chain else None
    return None


def _attempt(attempt: Attempt) -> AttemptSeen | None:
    """Read one attempt; None of one that never began."""
    run, outcome = attempt.run, attempt.outcome
    endings, halt = attempt.endings(), attempt.halt
    if run is None or outcome is None:
        return None
    ranks = {host: rank for rank, host in attempt.hosts.items()}
    began, launcher_ended, all_ended = [], [], []
    for host, ending in endings.items():
        ahead = attempt.clock_ahead_s(ranks[host])
        if ending.started_at is not None:
            began.append(ending.started_at - ahead)
            launcher_ended.append(ending.started_at + (ending.wall_s or 0.0) - ahead)
        if ending.ended_at is not None:
            all_ended.append(ending.ended_at - ahead)
    start = min(began, default=outcome.started_at)
    if start is None:
        return None
    over = (outcome.started_at or start) + outcome.wall_s
    ended = max([*all_ended, over if len(all_ended) < len(ranks) else 0.0])
    noticed = [*launcher_ended, *([halt.at] if halt and halt.at else [])]
    return AttemptSeen(
        began=start,
        noticed=min([*noticed, ended]),
        ended=ended,
        faults=tuple(faults_of(attempt)),
        sessions=tuple(_sessions(attempt, run)),
    )


def _sessions(attempt: Attempt, run: Run) -> list[TrainedSession]:
    """Return the sessions of an attempt, by the log that has most steps, and the reader of its
    trainer's that finds some.
    """
    readers, read = load_system(run.cell.system).readers_of(run.cell.parameters), []
    for rank, path in attempt.logs().items():
        polls, ahead = looks(path.parent), attempt.clock_ahead_s(rank)
        tried = (
            list(read_sessions(make(), _lines(path), polls, ahead)) for make in readers.values()
        )
        read.append(next((found for found in tried if any(one.steps for one in found)), []))
    return max(read, key=lambda found: sum(len(one.steps) for one in found), default=[])


def read_sessions(
    parser: Kind,
    lines: Iterable[bytes],
    polls: Sequence[tuple[float, int]] = (),
    ahead: float = 0.0,
) -> Iterator[TrainedSession]:
    """Read a log's lines into sessions: one begins where the trainer says so, else where its
    iterations go back.

    `polls` say when the log had how many bytes, for a trainer that does not say when it began; both
    are of a clock that is so many seconds `ahead` of bench's.
    """
    now, steps, saves = TrainedSession(), list[StepSeen](), list[SaveSeen]()
    read, looked = 0, iter(polls)
    time, size = next(looked, (None, 0))
    for line in lines:
        read += len(line)
        while time is not None and size < read:
            time, size = next(looked, (None, 0))
        match = _OURS.search(line)
        fields = dict(_WORD.findall(match[2])) if match else {}
        resumed = match is not None and match[1] == b"resumed"
        if match and not resumed and (save := _save(fields)) is not None:
            saves.append(save)
        for step in [None, *parser.feed(line)] if resumed else parser.feed(line):
            if step is None or (steps and step.iteration <= steps[-1].iteration):
                if steps or now.began is not None:
                    yield replace(now, steps=tuple(steps), saves=tuple(saves))
                now, steps, saves = TrainedSession(), [], []
            if step is None:
                now = _begun(fields, ahead)
                continue
            before = steps[-1].iteration if steps else now.iteration
            covers = max(step.iteration - before, 1)
            seconds = (step.step_time_ms or 0.0) / 1000 * covers
            paused = step.paused_ms / 1000
            # Its session's begin and all steps since, else as polls saw it.
            at = None if time is None else time - ahead
            if now.began is not None:
                at = (steps[-1].at if steps else now.began) + seconds + paused
            if at is not None:
                steps.append(StepSeen(step.iteration, covers, seconds, at, step.loss, paused))
    if steps or now.began is not None:
        yield replace(now, steps=tuple(steps), saves=tuple(saves))


def _begun(fields: dict[bytes, bytes], ahead: float) -> TrainedSession:
    at = quantity(fields.get(b"at"))
    return TrainedSession(
        iteration=whole_number(fields.get(b"step")) or 0,
        began=None if at is None else at - ahead,
        start_s=quantity(fields.get(b"start_s")) or 0.0,
        load_s=quantity(fields.get(b"load_s")) or 0.0,
    )


def _save(fields: dict[bytes, bytes]) -> SaveSeen | None:
    stall, durable = quantity(fields.get(b"stall_s")), quantity(fields.get(b"durable_s"))
    if stall is None or durable is None:
        return None
    return SaveSeen(stall, durable, whole_number(fields.get(b"bytes")) or 0)


def _lines(path: object) -> Iterator[bytes]:
    """Yield the whole lines of a log, each with its end; none where there is no log."""
    with suppress(OSError), open_log(path) as stream:  # type: ignore[arg-type]
        for line in stream.read(MOST_BYTES).splitlines(keepends=True):
            if line.endswith((b"\n", b"\r")):
                yield line
