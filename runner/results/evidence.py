"""A run's folder to what it can be checked by: commands, variables, logs, also whole ones,
compressed for a page that is to have them inside. Reads only.

A value that is named like a secret is masked, in variables, in arguments and where a log repeats
it, as `export --redact` does. No plan has secrets of an inventory at all (docs/security.md).
"""

import base64
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from node.files import open_plain
from node.printable import uncontrolled
from node.supervisor.names import is_trace
from runner.base.masking import MARGIN, Masks
from runner.base.text import blocks, tail
from runner.folder import names
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.folder.placement import Started
from runner.folder.stored import UnreadableError
from runner.terms.orders import NodeRun
from runner.terms.record import Record
from runner.terms.run import Run
from runner.terms.run_evidence import Evidence, Evidences, NodeEvidence, NodeLog, PackedLog

TAIL_LINES = 40
TAIL_BYTES = 1 << 15  # of a log's end that are read
LINE_LETTERS = 1_000  # of a line of a tail; what is longer is cut
IMPORTED = "its log was imported, and how it was started is not known"
STARTED_ELSEWHERE = "the launcher of node rank 0 starts this node's processes"
BY_HAND = (names.SCRIPT, names.JOB_SCRIPT)  # an older job.sh was what sbatch got, beside launch.sh
UNPLANNED = f"there is no {names.RUN}: it was never planned"
LEVEL = 9
# A log that is larger than this many times what is left is not tried: few shrink so much.
MOST_RATIO = 60
TOO_LARGE = "it does not fit"


def evidence_of_records(
    campaign: Campaign,
    records: Iterable[Record],
    relative_to: Path,
    *,
    reader_path: Path | None = None,
    tails: bool = True,
) -> dict[tuple[str, int], Evidence]:
    """Read the evidence of each run that the records are of: (cell's id, repeat) to it.

    Paths are made as `records_of` makes those of logs. A run that is pending has none. The last
    lines of logs are read with `tails` only.
    """
    evidence = {}
    for record in records:
        path = campaign.attempt_path(record.cell_id, record.repeat, record.attempt)
        if path.is_dir():
            inside = path.relative_to(campaign.path)
            home = os.path.relpath((reader_path or campaign.path) / inside, relative_to)
            attempt = Attempt(path, record.cell_id, record.repeat, record.attempt)
            evidence[record.cell_id, record.repeat] = evidence_of(attempt, home, tails=tails)
    return evidence


def evidence_of(attempt: Attempt, reader_path: str = "", *, tails: bool = True) -> Evidence:
    """Read one run's; `reader_path` is where its readers find its folder. Never fails: for what
    cannot be read there is the reason.
    """
    try:
        run, hosts = attempt.run, attempt.hosts
    except UnreadableError as error:
        return _nothing(attempt, reader_path, str(error))
    if run is None:
        return _nothing(attempt, reader_path, UNPLANNED)
    return Evidence(
        cell_id=attempt.cell_id,
        repeat=attempt.repeat,
        attempt=attempt.number,
        folder=attempt.path,
        shown=reader_path,
        nodes=tuple(_node(attempt, run, node, hosts[node.node_rank], tails) for node in run.nodes),
        secrets=run.secrets,
        script=next((name for name in BY_HAND if (attempt.path / name).is_file()), ""),
        missing=IMPORTED if run.imported else "",
    )


def _nothing(attempt: Attempt, reader_path: str, why: str) -> Evidence:
    return Evidence(
        attempt.cell_id, attempt.repeat, attempt.number, attempt.path, reader_path, missing=why
    )


def _node(attempt: Attempt, run: Run, node: NodeRun, host: str, tails: bool) -> NodeEvidence:
    rank, note = node.node_rank, ""
    started_node: NodeRun | Started = node
    try:
        started_node = attempt.started(rank) or node
    except UnreadableError as error:
        note = f"as planned, for what was started cannot be read: {error}"
    masks = Masks()
    for source in (node, started_node):
        masks.learn_run(source)
    masks.learn(list(node.step))
    log = _log(attempt, rank, masks, tails)
    if run.imported:
        return NodeEvidence(rank, host, log, note=IMPORTED)
    started = started_node.processes or ((started_node.argv,) if started_node.argv else ())
    return NodeEvidence(
        rank=rank,
        host=host,
        log=log,
        commands=tuple(map(masks.argv, started)),
        env=masks.content(started_node.env),
        cwd=masks.text(started_node.cwd),
        files=tuple(node.files),
        step=masks.argv(node.step),
        note=note or ("" if started else STARTED_ELSEWHERE),
        traces=_traces(attempt, rank) if run.cell.profile else (),
    )


def _traces(attempt: Attempt, rank: int) -> tuple[str, ...]:
    """Return the profiler traces that came home of a node."""
    home = attempt.log(rank).parent
    paths = (path for path in sorted(home.rglob("*")) if is_trace(str(path.relative_to(home))))
    return tuple(attempt.inside(path) for path in paths if path.is_file())


def _log(attempt: Attempt, rank: int, masks: Masks, tails: bool) -> NodeLog:
    path = attempt.log(rank)
    inside = attempt.inside(path)
    try:
        with open_plain(path) as plain:
            size = os.fstat(plain.fileno()).st_size
        end = tail(path, TAIL_BYTES) if tails else b""
    except FileNotFoundError:
        return NodeLog(inside, missing="no log came home")
    except OSError as error:
        return NodeLog(inside, missing=f"it cannot be read: {error.strerror or error}")
    if size > len(end) and b"\n" not in end:  # it may begin within a secret
        end = end[MARGIN:]
    return NodeLog(inside, size, last_lines(end, masks), secrets=masks.values)


def last_lines(end: bytes, masks: Masks | None = None, most: int = TAIL_LINES) -> tuple[str, ...]:
    """Return the last lines of a log's end, as a terminal would have left them, all printable and
    without secrets.

    Of a line that was written over (a progress bar) the last state stays.
    """
    text = (masks or Masks()).text(end.decode("utf-8", "replace").rstrip())
    return tuple(map(_line, text.split("\n")[-most:])) if text else ()


def _line(line: str) -> str:
    now = uncontrolled(line.rstrip("\r").rpartition("\r")[2]).rstrip()
    return now if len(now) <= LINE_LETTERS else f"{now[:LINE_LETTERS]} …"


def packed_logs(records: Sequence[Record], evidence: Evidences, most_bytes: int) -> list[PackedLog]:
    """Compress the logs of the records' runs until `most_bytes` of gzip are used.

    The logs that the records name come first, in their order; then the other nodes'. What does not
    fit is left out, and smaller ones behind it are still taken. None for a size of 0.
    """
    if most_bytes <= 0:
        return []
    packed, bytes_left = [], most_bytes
    for run, node in _in_order(records, evidence):
        path, size = run.href(node.log.path), node.log.bytes or 0
        try:
            fits = size <= bytes_left * MOST_RATIO
            content = Masks(node.log.secrets).blocks(blocks(run.folder / node.log.path))
            data = _gzip(content, bytes_left) if fits else b""
        except OSError as error:
            packed.append(PackedLog(path, size, left_out=f"it cannot be read: {error.strerror}"))
            continue
        bytes_left -= len(data)
        text = base64.b64encode(data).decode()
        packed.append(PackedLog(path, size, text, "" if data else TOO_LARGE))
    return packed


def _in_order(
    records: Sequence[Record], evidence: Evidences
) -> Iterator[tuple[Evidence, NodeEvidence]]:
    """Yield each log with something in it."""
    of_failed = []
    for record in records:
        run = evidence.get((record.cell_id, record.repeat))
        for node in run.nodes if run else ():
            if run and node.log.bytes:
                if run.href(node.log.path) == record.log:
                    yield run, node
                else:
                    of_failed.append((run, node))
    yield from of_failed


def _gzip(content: Iterable[bytes], most: int) -> bytes:
    """Compress; empty where it would take more than `most` bytes. The same bytes give the same."""
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    parts, size = [], 0
    for block in content:
        parts.append(packer.compress(block))
        size += len(parts[-1])
        if size > most:
            return b""
    parts.append(packer.flush())
    return b"".join(parts) if size + len(parts[-1]) <= most else b""
