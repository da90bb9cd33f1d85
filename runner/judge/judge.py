"""Turn a run's folder into its measurement and outcome. Reads files, writes none."""

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
from runner.judge.contradictions import contradictions, rate_doubt
from runner.judge.decide import decide, last_words, with_verdict
from runner.judge.diagnosis.verdict import Verdict, diagnose
from runner.systems.common.registry import load_system
from runner.terms.cell import Cell
from runner.terms.outcome import Outcome
from runner.terms.record import UNREADABLE, Measurement

STACKS = 1 << 22  # bytes at a log's end that are searched for the stacks of a stalled run


def measure_run(cell: Cell, logs: Mapping[int, Path]) -> Measurement:
    """Parse the logs of all nodes (rank to path) with the parser of the cell's system."""
    parse = load_system(cell.system).parse
    measured = parse({rank: blocks(path) for rank, path in logs.items()}, cell)
    contradicted = (*measured.contradicted, *contradictions(cell, measured))
    return replace(measured, contradicted=contradicted, rate_doubt=rate_doubt(cell, measured))


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
    return explain(ended, attempt, steps=len(measured.intervals))


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


def explain(ended: Outcome, attempt: Attempt, *, steps: int) -> Outcome:
    """Add the first cause that the nodes' logs show, if logs can explain this kind of end."""
    if not ended.cause:
        return ended
    logs = attempt.logs()
    telling = telling_rank(attempt, ended)
    verdict: Verdict | None = None
    if ended.cause in EXPLAINED:
        # The node that ended first is read first: in logs without times it is taken for the cause.
        paths = [path for _, path in sorted(logs.items(), key=lambda item: item[0] != telling)]
        present = [path for path in paths if path.is_file()]
        verdict = diagnose(present, steps=steps, name=attempt.inside)
    last_output = stall.LABEL.split(tail(logs[telling]).decode("utf-8", "replace"))[0]
    return with_verdict(ended, verdict, last_words(last_output.encode()))


def telling_rank(attempt: Attempt, ended: Outcome) -> int:
    """Return the rank of the node that ended the run first, else the first."""
    halt, hosts = attempt.halt, attempt.hosts
    first_host = halt.host if halt else None
    if (
        halt is None and ended.status != "ok"
    ):  # if it is ok, all nodes ended well: no need to read their endings
        first_host = first_bad(attempt.endings())
    return next((rank for rank, host in hosts.items() if host == first_host), min(hosts))
