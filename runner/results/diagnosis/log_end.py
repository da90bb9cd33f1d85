"""Evidence in one log: what stands after its last step, line by line, in constant memory."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from node.printable import printable
from runner.base.log_file import log_size, open_log
from runner.logs.decoding import ANSI, unprefixed
from runner.logs.kinds import counts_from_zero, every
from runner.logs.numbers import whole_number
from runner.results.diagnosis.causes import STATUSES, meaning
from runner.results.diagnosis.line_judge import MOST, LineJudge, Said
from runner.results.diagnosis.line_rules import CANDIDATE, REASON, TURN, WARNING, WRAPPER
from runner.terms.record import Place

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
_CLOCK = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.Z+-]{8,40} |[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d ")
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
    """Where a log's last step is: `begin` is behind it, within its line, 0 without a step.

    `done`: it is the last of all, whole; `torn`: the log ends within its line, which says of how
    many it is.
    """

    begin: int = 0
    done: bool = False
    torn: bool = False


def last_step(text: bytes) -> re.Match[bytes] | None:
    """Return the last step that any kind of lines has in a text."""
    newest = None
    for pattern in STEPS:
        for match in pattern.finditer(text, newest.start() + 1 if newest else 0):
            newest = match
    return newest


def find_last_step(path: Path, logged: Sequence[Place]) -> LastStep:
    """Find a log's last step: behind the last but one that its reader `logged` in it, else in its
    last LONGEST_TAIL bytes. A line that the reader could not read, since it is torn, is one, too.

    What is behind it begins in its own line: a scheduler may write its last word there.
    """
    with open_log(path) as stream:
        end = stream.seek(0, 2)
        start = max(end - LONGEST_TAIL, logged[-2:][0].begin if logged else 0)
        stream.seek(start)
        text = stream.read(LONGEST_TAIL)
    step_match = last_step(text)
    begin = logged[-1].begin if logged else 0
    if step_match is None:
        return LastStep(begin)
    begin = max(begin, start + step_match.end())
    step = _OF.search(step_match[0])
    reached, of = (whole_number(step[1]), whole_number(step[2])) if step else (None, None)
    if reached is None or of is None:
        return LastStep(begin)
    torn = _torn(text, step_match)
    return LastStep(begin, reached + counts_from_zero(step_match[0]) >= of and not torn, torn)


def _torn(text: bytes, step_match: re.Match[bytes]) -> bool:
    """Return whether a log ends within the line of its last step: that is shorter by a quarter than
    the line of the step before, and nothing ends it.
    """
    line = text[step_match.end() :]
    before = last_step(text[: step_match.start()])
    if before is None or b"\n" in line or b"\r" in line:
        return False
    usual = re.split(rb"[\r\n]", text[before.end() : step_match.start()], maxsplit=1)[0]
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


def lines_before(path: Path, offset: int) -> int:
    """Count the lines that a log has before a place in it."""
    count = 0
    with open_log(path) as stream:
        while stream.tell() < offset:
            count += stream.read(min(BLOCK, offset - stream.tell())).count(b"\n")
    return count


def split(line: bytes) -> tuple[bytes, bytes]:
    """Split a line into its launcher's prefix (host, rank) and the rest, without colours.

    A time in the prefix is left out: all lines of one process have one prefix.
    """
    text = ANSI.sub(b"", line).rstrip(b"\r\n ")
    message = unprefixed(text)
    return _CLOCK.sub(b"", text[: len(text) - len(message)]), message


class Launch:
    """The launch that a log is at, by what announced it: a launcher, then its trainer, each once a
    node, as far as a prefix tells nodes apart. `new`: whatever comes announces another one.
    """

    def __init__(self, *, new: bool) -> None:
        self._announced: set[tuple[bytes, bytes]] = set()
        self._new = new

    @property
    def known(self) -> bool:
        """Whether something announced it."""
        return bool(self._announced)

    def begins(self, prefix: bytes, announcement: re.Match[bytes]) -> bool:
        """Return whether these words announce another launch than those before them."""
        text = re.sub(rb"\d+", b"0", announcement[0])
        changed = announcement.lastgroup == "launcher" and any(
            earlier != text for _, earlier in self._announced
        )
        again = self._new or changed or (prefix, text) in self._announced
        if again or len(self._announced) == MOST_RANKS:
            self._announced.clear()
        self._announced.add((prefix, text))
        self._new = False
        return again


def find_evidence(path: Path, begin: int) -> LogEnd:
    """Find the evidence in a log from `begin` on, in order: of its last launch alone."""
    evidence, judge, launch = LogEnd(), LineJudge(), Launch(new=begin > 0)
    announced = 0, b""  # how much was found before the launch was announced, and its prefix
    time: tuple[int, ...] | None = None
    for line_number, line in _lines(path, begin):
        evidence.lines = line_number + 1
        if len(line) < SHORTEST:
            continue
        if b":" in line and (stamp := _TIME.search(line)):
            time = tuple(
                whole_number(digits) or 0 for digits in stamp.groups() if digits is not None
            )
        if b"ank" in line and len(evidence.ranks) < MOST_RANKS:
            evidence.ranks.update(whole_number(rank) or 0 for rank in _RANK.findall(line))
        full = len(evidence.evidence) == MOST  # then only a turn changes what is known
        if turn := TURN.search(line):
            success, prefix = turn.lastgroup is None, split(line)[0]
            evidence.closed = printable(line.decode("utf-8", "replace"))[:200] if success else ""
            first = not launch.known
            if success or launch.begins(prefix, turn):
                announced = 0, b""
                evidence.launched = begin > 0 and not success
                evidence.before = [] if success else evidence.evidence
                evidence.evidence = []
                evidence.waited.clear()
                judge = judge if success and not full else LineJudge()
            elif first:
                announced = len(evidence.evidence), prefix
        elif not full and (judge.listens(line_number) or CANDIDATE.search(line)):
            _look(evidence, judge, path, line_number, line, time)
    for stream, (line_number, text) in judge.cut_off().items():
        excerpt = "a traceback that is cut off behind " + printable(text.decode("utf-8", "replace"))
        item = EvidenceLine("error", path, line_number, excerpt[:400], stream, time, weak=True)
        evidence.evidence.append(item)
    _forget_earlier(evidence, *announced)
    if evidence.evidence or evidence.before:
        above = lines_before(path, begin)
        evidence.lines += above
        for items in (evidence.evidence, evidence.before):
            items[:] = [replace(item, place=above + item.place + 1) for item in items]
    return evidence


def _forget_earlier(evidence: LogEnd, count: int, prefix: bytes) -> None:
    """Take out what ended a launch, or its wrapper, before the one that was announced behind it in
    the same stream, where that one has a cause of its own.
    """
    later = evidence.evidence[count:]
    if any(not (STATUSES[item.status].follows or item.weak or item.start) for item in later):
        kept = [item for item in evidence.evidence[:count] if item.stream != prefix]
        evidence.evidence = [*kept, *later]


def _look(
    evidence: LogEnd,
    judge: LineJudge,
    path: Path,
    line_number: int,
    line: bytes,
    time: tuple[int, ...] | None,
) -> None:
    """Add what one line is evidence of."""
    stream, text = split(line)
    text = text[max(text.find(b"slurmstepd: error: "), 0) :]  # behind half a line of another's
    said = judge.feed(line_number, stream, text)
    weak = None if said else WARNING.search(text)
    if weak:
        said = Said(meaning(weak[1]) or "collective_error")
    if said is None:
        return
    excerpt = printable((said.message or text)[:400].decode("utf-8", "replace"))
    item = EvidenceLine(
        said.status,
        path,
        line_number,
        excerpt,
        stream,
        time,
        weak=weak is not None,
        start=said.start,
        traced=bool(said.link),
    )
    if REASON.match(text):
        _forget_wrapper(evidence.evidence, item)
    if said.reason:
        item = _in_place(evidence.evidence, item)
    if said.link:
        _forget_caught(evidence.evidence, item, said.link)
    evidence.evidence.append(item)
    _waiting(evidence, text)


def _forget_caught(evidence: list[EvidenceLine], latest: EvidenceLine, link: str) -> None:
    """Take out tracebacks that `latest` shows to have been caught: their process went on to it.

    In a chain (`link`), one that came up while another was handled shows that of the other, unless
    that one says more: a full disk, say, and then an error of what was writing. Without a chain,
    one of the same process shows it, as far as a prefix tells processes apart.
    """
    if link == "cause" or STATUSES[latest.status].follows:
        return
    traced = [item for item in evidence if item.traced]
    if link == "handling":
        before = next((item for item in reversed(traced) if item.stream == latest.stream), None)
        if before is None or not STATUSES[before.status].caught:
            return
        # Ranks without a prefix print the same in turns.
        caught = [item for item in traced if item.text == before.text]
    else:
        process = _process(latest.stream)
        caught = [item for item in traced if process and _process(item.stream) == process]
    evidence[:] = [item for item in evidence if item not in caught]


def _forget_wrapper(evidence: list[EvidenceLine], reason: EvidenceLine) -> None:
    """Take out the exception that says less than CANN's own line behind it."""
    latest = evidence[-1] if evidence else None
    follows = latest is not None and latest.traced and reason.place - latest.place <= NEAR
    if follows and WRAPPER.search(evidence[-1].text.encode()):
        evidence.pop()


def _in_place(evidence: list[EvidenceLine], reason: EvidenceLine) -> EvidenceLine:
    """Take out the exception whose later words are `reason`; return that as it was linked."""
    for number in reversed(range(len(evidence))):
        if evidence[number].stream == reason.stream:
            return replace(reason, traced=evidence.pop(number).traced or reason.traced)
    return reason


def _process(stream: bytes) -> bytes | None:
    """Return the part of a prefix that is a rank's, or None."""
    match = _PROCESS.match(stream)
    return match[0] if match else None


def _waiting(evidence: LogEnd, text: bytes) -> None:
    if b"atchdog caught collective" not in text:
        return
    rank, operation_match = _RANK.search(text), _OPERATION.search(text)
    if rank:
        operation = operation_match[1].decode() if operation_match else "a collective"
        evidence.waited.setdefault(whole_number(rank[1]) or 0, operation)
