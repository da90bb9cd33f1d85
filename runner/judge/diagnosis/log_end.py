"""Evidence in one log: what stands after its last step, line by line, in constant memory."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from node.printable import printable
from runner.base.log_file import log_size, open_log
from runner.judge.diagnosis.causes import COMMONLY_CAUGHT, CONSEQUENCES, meaning
from runner.judge.diagnosis.line_judge import MOST, LineJudge
from runner.judge.diagnosis.line_rules import CANDIDATE, REASON, TURN, WARNING, WRAPPER
from runner.logs.decoding import ANSI, unprefixed
from runner.logs.kinds import counts_from_zero, every
from runner.logs.numbers import whole_number

BLOCK = 1 << 20
LONGEST_TAIL = 64 << 20  # bytes after the last step that are read: the first and the last half
# Each by itself: what begins with plain letters is found many times as fast as one of many.
STEPS = tuple(map(re.compile, dict.fromkeys(every("step"))))
_OF = re.compile(rb"(?<!\d)(\d{1,9})/ {0,9}(\d{1,9})(?!\d)")
_TIME = re.compile(
    rb"(?:\d{4}-(\d\d)-(\d\d)[ T_-]|\[[EWIF](\d)(\d\d) |\[(\d\d)/(\d\d) )(\d\d):(\d\d):(\d\d)"
)
_RANK = re.compile(rb"\[[Rr]ank ?(\d{1,9})\]")
_OPERATION = re.compile(rb"OpType=(\w{1,40})")
_PROCESS = re.compile(rb"^.*?\[(?:rank ?|default)\d+\]")
NEAR = 20  # lines: so near is what belongs to an exception's message
MOST_RANKS = 10_000  # that are kept of one log
SHORTEST = 5  # bytes of a line that can say something, its end among them
LONGEST = 1 << 13  # bytes of a line that are looked at


@dataclass(frozen=True)
class EvidenceLine:
    """One line that says why something ended. `place` counts lines from 1."""

    status: str
    path: Path
    place: int
    text: str
    stream: bytes = b""
    time: tuple[int, ...] | None = None
    weak: bool = False
    start: bool = False  # it counts only where there is no step, and nothing else
    traced: bool = False  # the end of a traceback of a process


@dataclass
class LogEnd:
    """What one log's end says."""

    evidence: list[EvidenceLine] = field(default_factory=list)
    before: list[EvidenceLine] = field(default_factory=list)  # of the launch before the last one
    lines: int = 0  # in the whole log
    ranks: set[int] = field(default_factory=set)
    waited: dict[int, str] = field(default_factory=dict)  # rank: what it waited for
    launched: bool = False  # again, behind the last step, and nothing said that it ended well
    closed: str = ""  # the line by which the trainer says that it ended, behind the last step


@dataclass(frozen=True)
class LastStep:
    """Where a log's last step stands: `begin` is behind it, within its line, 0 where there is none.

    `done`: it is the last of all, whole; `torn`: the log ends within its line, which says of how
    many it is.
    """

    begin: int = 0
    done: bool = False
    torn: bool = False


def last_step(text: bytes) -> re.Match[bytes] | None:
    """Return the last step that any kind of lines has in a text."""
    last = None
    for pattern in STEPS:
        for found in pattern.finditer(text, last.start() + 1 if last else 0):
            last = found
    return last


def find_last_step(path: Path, limit: int | None = None) -> LastStep:
    """Find a log's last step (in the last `limit` bytes).

    What is behind it begins in its own line: a scheduler may write its last word there.
    """
    with open_log(path) as stream:
        end = stream.seek(0, 2)
        stop = max(0, end - limit) if limit is not None else 0
        place, later = end, b""
        while place > stop:
            start = max(stop, place - BLOCK)
            stream.seek(start)
            text = stream.read(place - start) + later
            last = last_step(text)
            if last is not None:
                step = _OF.search(last[0])
                reached, of = (
                    (whole_number(step[1]), whole_number(step[2])) if step else (None, None)
                )
                more = counts_from_zero(last[0])
                done = reached is not None and of is not None and reached + more >= of
                torn = of is not None and place == end and _torn(text, last)
                return LastStep(start + last.end(), done and not torn, torn)
            place, later = start, text[:256]
    return LastStep()


def _torn(text: bytes, last: re.Match[bytes]) -> bool:
    """Return whether a log ends within the line of its last step: that is shorter by a quarter than
    the line of the step before, and nothing ends it.
    """
    line = text[last.end() :]
    before = last_step(text[: last.start()])
    if before is None or b"\n" in line or b"\r" in line:
        return False
    usual = re.split(rb"[\r\n]", text[before.end() : last.start()], maxsplit=1)[0]
    return len(line) < 0.75 * len(usual)


def _lines(path: Path, begin: int) -> Iterator[tuple[int, bytes]]:
    """Yield lines from `begin` on, counted from 0 there; of a very long rest both ends."""
    with open_log(path) as stream:
        stream.seek(begin)
        number, size = 0, log_size(path) - begin
        for line, begins, ends in _pieces(stream):
            if begins:
                yield number, line
            number += ends
            if size > LONGEST_TAIL and stream.tell() - begin > LONGEST_TAIL // 2:
                break
        resume = begin + size - LONGEST_TAIL // 2
        while stream.tell() < resume:
            number += stream.read(min(BLOCK, resume - stream.tell())).count(b"\n")
        for line, begins, ends in _pieces(stream):
            if begins:
                yield number, line
            number += ends


def _pieces(stream: IO[bytes]) -> Iterator[tuple[bytes, bool, bool]]:
    """Yield lines, endless ones in pieces of LONGEST, and whether a piece begins and ends one."""
    begins = True
    while piece := stream.readline(LONGEST):
        ends = piece.endswith(b"\n")
        yield piece, begins, ends
        begins = ends


def lines_before(path: Path, place: int) -> int:
    """Count the lines that a log has before a place in it."""
    count = 0
    with open_log(path) as stream:
        while stream.tell() < place:
            count += stream.read(min(BLOCK, place - stream.tell())).count(b"\n")
    return count


def split(line: bytes) -> tuple[bytes, bytes]:
    """Split a line into its launcher's prefix (host, rank) and the rest, without colours."""
    text = ANSI.sub(b"", line).rstrip(b"\r\n ")
    rest = unprefixed(text)
    return text[: len(text) - len(rest)], rest


class Launch:
    """The launch that a log is at, by what announced it: a launcher, then its trainer, each once a
    node, as far as a prefix tells nodes apart. `new`: whatever comes announces another one.
    """

    def __init__(self, *, new: bool) -> None:
        self._seen: set[tuple[bytes, bytes]] = set()
        self._new = new

    def begins(self, prefix: bytes, words: re.Match[bytes]) -> bool:
        """Return whether these words announce another launch than those before them."""
        host = re.sub(rb"\d{4}-\d\d-\d\dT[\d:.Z+-]{8,40} ", b"", prefix)
        what = re.sub(rb"\d+", b"0", words[0])
        other = words.lastgroup == "launcher" and any(each != what for _, each in self._seen)
        again = self._new or other or (host, what) in self._seen
        if again or len(self._seen) == MOST_RANKS:
            self._seen.clear()
        self._seen.add((host, what))
        self._new = False
        return again


def find_evidence(path: Path, begin: int) -> LogEnd:
    """Find the evidence in a log from `begin` on, in order: of its last launch alone."""
    evidence, judge, launch = LogEnd(), LineJudge(), Launch(new=begin > 0)
    time: tuple[int, ...] | None = None
    for place, line in _lines(path, begin):
        evidence.lines = place + 1
        if len(line) < SHORTEST:
            continue
        if b":" in line and (stamp := _TIME.search(line)):
            time = tuple(whole_number(part) or 0 for part in stamp.groups() if part is not None)
        if b"ank" in line and len(evidence.ranks) < MOST_RANKS:
            evidence.ranks.update(whole_number(rank) or 0 for rank in _RANK.findall(line))
        full = len(evidence.evidence) == MOST  # then only a turn changes what is known
        if turn := TURN.search(line):
            success = turn.lastgroup is None
            evidence.closed = printable(line.decode("utf-8", "replace"))[:200] if success else ""
            if success or launch.begins(split(line)[0], turn):
                evidence.launched = begin > 0 and not success
                evidence.before = [] if success else evidence.evidence
                evidence.evidence = []
                evidence.waited.clear()
                judge = judge if success and not full else LineJudge()
        elif not full and (judge.open or CANDIDATE.search(line)):
            _look(evidence, judge, path, place, line, time)
    for stream, (place, text) in judge.cut_off().items():
        shown = "a traceback that is cut off behind " + printable(text.decode("utf-8", "replace"))
        item = EvidenceLine("error", path, place, shown[:400], stream, time, weak=True)
        evidence.evidence.append(item)
    if evidence.evidence or evidence.before:
        above = lines_before(path, begin)
        evidence.lines += above
        for items in (evidence.evidence, evidence.before):
            items[:] = [replace(item, place=above + item.place + 1) for item in items]
    return evidence


def _look(
    evidence: LogEnd,
    judge: LineJudge,
    path: Path,
    place: int,
    line: bytes,
    time: tuple[int, ...] | None,
) -> None:
    """Add what one line is evidence of."""
    stream, text = split(line)
    text = text[max(text.find(b"slurmstepd: error: "), 0) :]  # behind half a line of another's
    judge.place = place
    status = judge.status(stream, text)
    weak = WARNING.search(text) if status is None else None
    if weak:
        status = meaning(weak[1]) or "collective_error"
    if status is None:
        return
    shown = printable((judge.message or text)[:400].decode("utf-8", "replace"))
    item = EvidenceLine(status, path, place, shown, stream, time, weak is not None, judge.start)
    if REASON.match(text):
        _forget_wrapper(evidence.evidence, item)
    if judge.ended:
        item = replace(item, traced=True)
        _forget_caught(evidence.evidence, item, judge.ended)
    evidence.evidence.append(item)
    _waiting(evidence, text)


def _forget_caught(evidence: list[EvidenceLine], last: EvidenceLine, link: str) -> None:
    """Take out tracebacks that `last` shows to have been caught: their process went on to it.

    In a chain (`link`), one that came up while another was handled shows that of the other, unless
    that one says more: a full disk, say, and then an error of what was writing. Without a chain,
    one of the same process shows it, as far as a prefix tells processes apart.
    """
    if link == "cause" or last.status in CONSEQUENCES:
        return
    traced = [item for item in evidence if item.traced]
    if link == "handling":
        before = next((item for item in reversed(traced) if item.stream == last.stream), None)
        if before is None or before.status not in COMMONLY_CAUGHT:
            return
        # Ranks without a prefix print the same in turns.
        caught = [item for item in traced if item.text == before.text]
    else:
        process = _process(last.stream)
        caught = [item for item in traced if process and _process(item.stream) == process]
    evidence[:] = [item for item in evidence if item not in caught]


def _forget_wrapper(evidence: list[EvidenceLine], reason: EvidenceLine) -> None:
    """Take out the exception that says less than CANN's own line behind it."""
    last = evidence[-1] if evidence else None
    near = last is not None and last.traced and reason.place - last.place <= NEAR
    if near and WRAPPER.search(evidence[-1].text.encode()):
        evidence.pop()


def _process(stream: bytes) -> bytes | None:
    """Return the part of a prefix that is a rank's, or None."""
    match = _PROCESS.match(stream)
    return match[0] if match else None


def _waiting(evidence: LogEnd, text: bytes) -> None:
    if b"atchdog caught collective" not in text:
        return
    rank, what = _RANK.search(text), _OPERATION.search(text)
    if rank:
        operation = what[1].decode() if what else "a collective"
        evidence.waited.setdefault(whole_number(rank[1]) or 0, operation)
