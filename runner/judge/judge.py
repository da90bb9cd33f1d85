"""One run's folder to what it measured and how it ended. Reads files, writes none."""

import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from node.causes import EXPLAINED, Cause
from node.printable import printable
from runner.base.errors import UserError
from runner.base.masking import Masks
from runner.base.text import blocks, tail
from runner.folder import names
from runner.folder.attempt import Attempt, RunFolder
from runner.folder.endings import first_bad
from runner.judge import stall
from runner.judge.decide import decide, last_words, with_verdict
from runner.judge.diagnosis.verdict import Verdict, diagnose
from runner.judge.said import contradictions, rate_doubt
from runner.systems.common.registry import load_system
from runner.terms.cell import Cell
from runner.terms.outcome import Outcome
from runner.terms.record import UNREADABLE, Measurement

STACKS = 1 << 22  # bytes of a log's end in which the stacks of a stalled run stand


def measure_run(cell: Cell, logs: Mapping[int, Path]) -> Measurement:
    """Parse the logs of all nodes (rank to path) with what reads the cell's."""
    parse = load_system(cell.system).parse
    measured = parse({rank: blocks(path) for rank, path in logs.items()}, cell)
    contradicted = (*measured.contradicted, *contradictions(cell, measured))
    return replace(measured, contradicted=contradicted, rate_doubt=rate_doubt(cell, measured))


def judged(attempt: Attempt, cell: Cell, play_words: str) -> tuple[Measurement, Outcome]:
    """Say what a run that is over measured, and how it ended, whatever it left.

    A log that our code fails on is our bug, and one run's: the outcome says so, and no later
    bench meets it again.
    """
    try:
        measured = measure_run(cell, attempt.logs())
        return measured, attempt.without_secrets(judge(attempt, cell, measured, play_words))
    except Exception as error:  # anything: the campaign goes on without this run
        return Measurement(), unreadable(error)


def unreadable(error: Exception) -> Outcome:
    """Return the outcome of a run whose folder could not be read; it carries no numbers."""
    message = Masks().text(printable(str(error)))[:300] or "no words"
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
    """Judge a run that is over; `play_words` are Ansible's, if all else is silent."""
    ended = decide(
        nodes=len(attempt.logs()),
        endings=attempt.endings(),
        halt=attempt.halt,
        measured=measured,
        train_iters=measured.iterations_of(cell.parameters),
        play_words=play_words,
    )
    # What the matrix's own patterns did not find; of a run that failed there is more to say.
    certain = ended.status == "ok" or not measured.intervals
    if certain:
        ended = adding(ended, *measured.missing.values(), *measured.contradicted)
    if ended.cause == Cause.STALLED and (ranks := stall.waited_for(stood(attempt))):
        ended = adding(ended, ranks)
    return explain(ended, attempt, steps=len(measured.intervals))


def adding(ended: Outcome, *sentences: str) -> Outcome:
    """Return the outcome with more sentences behind the one that it has."""
    sentence = "; ".join(filter(None, (ended.ending or ended.reason, *sentences)))
    return replace(ended, ending=sentence, reason=sentence) if sentences else ended


def stood(attempt: RunFolder) -> list[stall.RankState]:
    """Say where the processes of a run that stalled were, by what their nodes' logs and
    stacks say.
    """
    ranks = []
    for rank, host in attempt.hosts.items():
        log = attempt.log(rank)
        text = b"\n".join(tail(path, STACKS) for path in (log, log.with_name(names.STACKS)))
        ranks += stall.read_stacks(host, text.decode("utf-8", "replace"))
    return ranks


def explain(ended: Outcome, attempt: Attempt, *, steps: int) -> Outcome:
    """Add the first cause that the logs of all nodes show, if it is theirs to tell."""
    if not ended.cause:
        return ended
    logs = attempt.logs()
    telling = telling_rank(attempt, ended)
    verdict: Verdict | None = None
    if ended.cause in EXPLAINED:
        # The node that ended the run comes first: without a clock in the logs, it is the cause.
        paths = [path for _, path in sorted(logs.items(), key=lambda item: item[0] != telling)]
        present = [path for path in paths if path.is_file()]
        verdict = diagnose(present, steps=steps, name=attempt.inside)
    last_output = stall.LABEL.split(tail(logs[telling]).decode("utf-8", "replace"))[0]
    return with_verdict(ended, verdict, last_words(last_output.encode()))


def telling_rank(attempt: Attempt, ended: Outcome) -> int:
    """Return the rank of the node that ended the run first, else the first."""
    halt, hosts = attempt.halt, attempt.hosts
    first_host = halt.host if halt else None
    if halt is None and ended.status != "ok":  # else all nodes ended well: nobody need read how
        first_host = first_bad(attempt.endings())
    return next((rank for rank, host in hosts.items() if host == first_host), min(hosts))
