"""A run's folder to what it can be checked by: commands, variables, logs. Reads only.

A value that is named like a secret is masked, in variables, in arguments and where a log repeats
it, as `export --redact` does. No plan has secrets of an inventory at all (docs/security.md).
"""

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from node.printable import uncontrolled
from runner.base.env import SECRET
from runner.base.text import tail
from runner.folder import names
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.folder.placement import Started
from runner.folder.stored import UnreadableError
from runner.terms.orders import NodeRun
from runner.terms.record import Record
from runner.terms.run import Run
from runner.terms.run_evidence import MASKED, Evidence, NodeEvidence, NodeLog

TAIL_LINES = 40
TAIL_BYTES = 1 << 15  # of a log's end that are read
LINE_LETTERS = 1_000  # of a line of a tail; what is longer is cut
SHORTEST_SECRET = 6  # letters of a value that is looked for in logs: a shorter one is any word
IMPORTED = "its log was imported, and how it was started is not known"
STARTED_ELSEWHERE = "the launcher of node rank 0 starts this node's processes"
UNPLANNED = f"there is no {names.RUN}: it was never planned"


def evidence_of_records(
    campaign: Campaign, records: Iterable[Record], relative_to: Path, *, shown: Path | None = None
) -> dict[tuple[str, int], Evidence]:
    """Read the evidence of each run that the records are of: (cell's id, repeat) to it.

    Paths are made as `records_of` makes those of logs. A run that is pending has none.
    """
    found = {}
    for record in records:
        path = campaign.attempt_path(record.cell_id, record.repeat, record.attempt)
        if path.is_dir():
            inside = path.relative_to(campaign.path)
            home = os.path.relpath((shown or campaign.path) / inside, relative_to)
            attempt = Attempt(path, record.cell_id, record.repeat, record.attempt)
            found[record.cell_id, record.repeat] = evidence_of(attempt, home)
    return found


def evidence_of(attempt: Attempt, shown: str = "") -> Evidence:
    """Read one run's; `shown` is where its readers find its folder. Never fails: what cannot be
    read is said in its place.
    """
    try:
        run, hosts = attempt.run, attempt.hosts
    except UnreadableError as error:
        return _nothing(attempt, shown, str(error))
    if run is None:
        return _nothing(attempt, shown, UNPLANNED)
    return Evidence(
        cell_id=attempt.cell_id,
        repeat=attempt.repeat,
        attempt=attempt.number,
        folder=attempt.path,
        shown=shown,
        nodes=tuple(_node(attempt, run, node, hosts[node.node_rank]) for node in run.nodes),
        secrets=run.secrets,
        script=names.SCRIPT if (attempt.path / names.SCRIPT).is_file() else "",
        missing=IMPORTED if run.imported else "",
    )


def _nothing(attempt: Attempt, shown: str, why: str) -> Evidence:
    return Evidence(
        attempt.cell_id, attempt.repeat, attempt.number, attempt.path, shown, missing=why
    )


def _node(attempt: Attempt, run: Run, node: NodeRun, host: str) -> NodeEvidence:
    rank, note = node.node_rank, ""
    part: NodeRun | Started = node
    try:
        part = attempt.started(rank) or node
    except UnreadableError as error:
        note = f"as planned, for what was started cannot be read: {error}"
    hidden = [value for name, value in part.env.items() if _secret(name, value)]
    log = _log(attempt, rank, [value for value in hidden if len(value) >= SHORTEST_SECRET])
    if run.imported:
        return NodeEvidence(rank, host, log, note=IMPORTED)
    started = part.processes or ((part.argv,) if part.argv else ())
    return NodeEvidence(
        rank=rank,
        host=host,
        log=log,
        commands=tuple(_masked(argv) for argv in started),
        env={n: MASKED if _secret(n, value) else value for n, value in part.env.items()},
        cwd=part.cwd,
        files=tuple(node.files),
        step=_masked(node.step),
        note=note or ("" if started else STARTED_ELSEWHERE),
    )


def secret_values(attempt: Attempt) -> dict[str, str]:
    """Return what a run's logs may repeat of its plan's secrets, each to what masks it."""
    parts: list[NodeRun | Started] = []
    with contextlib.suppress(UnreadableError):
        run = attempt.run
        parts += run.nodes if run else ()
        for rank in attempt.hosts if run else ():
            started = attempt.started(rank)
            parts += [started] if started else []
    hidden = [value for part in parts for name, value in part.env.items() if _secret(name, value)]
    return {value: MASKED for value in hidden if len(value) >= SHORTEST_SECRET}


def _secret(name: str, value: str) -> bool:
    return bool(value) and SECRET.search(name.replace("-", "_")) is not None


def _masked(argv: Sequence[str]) -> tuple[str, ...]:
    """Mask `--password word`, `--password=word` and `PASSWORD=word`."""
    shown: list[str] = []
    follows = False  # an option's value
    for word in argv:
        name, equals, value = word.partition("=")
        if follows and not word.startswith("-"):
            shown.append(MASKED)
        elif equals and not any(map(str.isspace, name)) and _secret(name, value):
            shown.append(f"{name}={MASKED}")
        else:
            shown.append(word)
        follows = not equals and word.startswith("-") and _secret(word, word)
    return tuple(shown)


def _log(attempt: Attempt, rank: int, secrets: Sequence[str]) -> NodeLog:
    path = attempt.log(rank)
    inside = attempt.inside(path)
    try:
        size, end = path.stat().st_size, tail(path, TAIL_BYTES)
    except FileNotFoundError:
        return NodeLog(inside, missing="no log came home")
    except OSError as error:
        return NodeLog(inside, missing=f"it cannot be read: {error.strerror or error}")
    lines = last_lines(end, dict.fromkeys(secrets, MASKED))
    return NodeLog(inside, size, lines, secrets=tuple(secrets))


def last_lines(
    end: bytes, masks: Mapping[str, str] | None = None, most: int = TAIL_LINES
) -> tuple[str, ...]:
    """Return the last lines of a log's end, as a terminal would have left them, all printable.

    Of a line that was written over (a progress bar) the last state stays.
    """
    text = end.decode("utf-8", "replace").rstrip()
    for value, mask in (masks or {}).items():
        text = text.replace(value, mask)
    return tuple(map(_line, text.split("\n")[-most:])) if text else ()


def _line(line: str) -> str:
    now = uncontrolled(line.rstrip("\r").rpartition("\r")[2]).rstrip()
    return now if len(now) <= LINE_LETTERS else f"{now[:LINE_LETTERS]} …"
