"""Evidence in one log: what stands after its last step, line by line, in constant memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from runner.diagnosis.causes import (
    CANDIDATE,
    EXCEPTION,
    NOISE,
    QUALIFIED,
    RULES,
    SUCCESS,
    WARNING,
    meaning,
)
from runner.parsers.text import ANSI, PREFIX

BLOCK = 1 << 20
LONGEST_TAIL = 64 << 20  # bytes after the last step that are read: the first and the last half
STEP = re.compile(
    rb"iteration +\d+/ *\d+ \||iteration: \d+/\d+\s|steps: \d+ loss: |SamplesPerSec="
    rb"|step=\d+, skipped=|torch_gpt step=|step: \d+, (?:total_)?loss: |,micro_batches="
)
_TIME = re.compile(
    rb"(?:\d{4}-(\d\d)-(\d\d)[ T_-]|\[[EWIF](\d)(\d\d) |\[(\d\d)/(\d\d) )(\d\d):(\d\d):(\d\d)"
)
_RANK = re.compile(rb"\[[Rr]ank ?(\d+)\]")
MOST = 200  # pieces of evidence that are kept of one log


@dataclass(frozen=True)
class Evidence:
    """One line that says why something ended. `place` counts lines from 1."""

    status: str
    path: Path
    place: int
    text: str
    stream: bytes = b""
    time: tuple[int, ...] | None = None
    weak: bool = False


@dataclass
class Found:
    """What one log's end says."""

    evidence: list[Evidence] = field(default_factory=list)
    ranks: set[int] = field(default_factory=set)
    waited: dict[int, str] = field(default_factory=dict)  # rank: what it waited for
    last: Evidence | None = None


def after_last_step(path: Path, limit: int | None = None) -> int:
    """Where the text behind a log's last step begins; 0 where there is none (in `limit` bytes)."""
    with path.open("rb") as stream:
        end = stream.seek(0, 2)
        stop = max(0, end - limit) if limit is not None else 0
        place, later = end, b""
        while place > stop:
            start = max(stop, place - BLOCK)
            stream.seek(start)
            text = stream.read(place - start) + later
            ends = [match.end() for match in STEP.finditer(text)]
            if ends:
                line = text.find(b"\n", ends[-1])
                return start + (line + 1 if line >= 0 else len(text))
            place, later = start, text[:256]
    return 0


def _lines(path: Path, begin: int) -> Iterator[tuple[int, bytes]]:
    """Lines from `begin` on with their number in the file; of a very long rest both ends."""
    with path.open("rb") as stream:
        number = 1
        while stream.tell() < begin:
            number += stream.read(min(BLOCK, begin - stream.tell())).count(b"\n")
        size = path.stat().st_size - begin
        for line in stream:
            yield number, line[:8192]
            number += 1
            if size > LONGEST_TAIL and stream.tell() - begin > LONGEST_TAIL // 2:
                break
        else:
            return
        resume = begin + size - LONGEST_TAIL // 2
        while stream.tell() < resume:
            number += stream.read(min(BLOCK, resume - stream.tell())).count(b"\n")
        for line in stream:
            yield number, line[:8192]
            number += 1


def split(line: bytes) -> tuple[bytes, bytes]:
    """A line's launcher prefix (host, rank) and the rest, without colours."""
    text = ANSI.sub(b"", line).rstrip(b"\r\n ")
    rest = text
    for _ in range(3):
        shorter = PREFIX.sub(b"", rest, count=1)
        if shorter == rest:
            break
        rest = shorter
    return text[: len(text) - len(rest)], rest


def find(path: Path, begin: int) -> Found:
    """The evidence in a log from `begin` on, in order."""
    found = Found()
    traced: set[bytes] = set()  # streams with a traceback whose exception has not come yet
    time: tuple[int, ...] | None = None
    for place, line in _lines(path, begin):
        if b":" in line and (stamp := _TIME.search(line)):
            time = tuple(int(part) for part in stamp.groups() if part is not None)
        for rank in _RANK.findall(line):
            found.ranks.add(int(rank))
        if SUCCESS.search(line):
            found.evidence.clear()
            continue
        if traced or CANDIDATE.search(line):
            stream, text = split(line)
            status, weak = _judge(stream, text, traced)
            if status is not None:
                words = text[:400].decode("utf-8", "replace").strip()
                item = Evidence(status, path, place, words, stream, time, weak)
                if len(found.evidence) < MOST:
                    found.evidence.append(item)
                _waiting(found, text)
    return found


def _judge(stream: bytes, text: bytes, traced: set[bytes]) -> tuple[str | None, bool]:
    """The status that a line is evidence of; weak evidence counts where there is no other."""
    if b"Traceback (most recent call last)" in text:
        traced.add(stream)
        return None, False
    for rule in RULES:
        if rule.pattern.search(text):
            return rule.status or meaning(text) or "error", False
    if stream in traced and EXCEPTION.match(text) and b" File " not in text:
        traced.discard(stream)
        if NOISE.search(text):
            return "process_failed", False
        return meaning(text) or "error", False
    if QUALIFIED.match(text) and not NOISE.search(text):
        return meaning(text) or "error", False
    if warning := WARNING.search(text):
        return meaning(warning[1]) or "collective_error", True
    return None, False


def _waiting(found: Found, text: bytes) -> None:
    if b"atchdog caught collective" not in text:
        return
    rank = re.search(rb"\[Rank (\d+)\]", text)
    what = re.search(rb"OpType=(\w+)", text)
    if rank:
        found.waited.setdefault(int(rank[1]), what[1].decode() if what else "a collective")
