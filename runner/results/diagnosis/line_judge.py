"""What the lines of a log are evidence of, one after the other. Pure."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from runner.results.diagnosis.causes import meaning
from runner.results.diagnosis.line_rules import (
    ANY_RULE,
    ASIDE,
    BAR,
    BARE,
    CALL_STACK,
    CANDIDATE,
    CAUSE,
    ERROR_FILE,
    EXCEPTION,
    GROUP,
    GROUPED,
    HANDLING,
    HEADER,
    IGNORED,
    IN_GROUP,
    LAST_ERROR,
    NOISE,
    OF_RANK,
    QUALIFIED,
    RULES,
)

MOST = 200  # pieces of evidence, or unknown prefixes, that are kept of one log
LATER = 8  # lines: so long may an exception's own words be
SAY_LITTLE = ("error", "collective_error")
TELLING = ("out_of_memory", "disk_full", "missing_compiler", "device_error", "launcher_error")
LONGEST_PREFIX = 1 << 8  # bytes; what is longer is none of a launcher's


class Said(NamedTuple):
    """What a line is strong evidence of.

    `message` is what says so, where the line has other words, too; `link` how the traceback of a
    process that it ends is linked to the one before it; `start`: see line_rules.Rule; `reason`: it
    says why, and is of the exception above it.
    """

    status: str
    message: bytes = b""
    link: str = ""
    start: bool = False
    reason: bool = False


@dataclass
class _Stream:
    """What the lines behind one launcher prefix are within."""

    open: tuple[int, bytes] | None = None  # a traceback without its exception: its last line, where
    indent: bytes = b""  # of the last traceback, as torchrun has it
    ignored: bool = False  # the next exception ended nothing
    link: str = ""  # what stands before the next traceback
    group: bool = False  # an exception group's traceback was there
    header: bytes = b""  # the next line says what failed
    later: tuple[int, str] = (-LATER, "")  # the last exception that says little: where, its status
    behind: str = ""  # the next `line`, or `traceback`, says why


class LineJudge:
    """What lines mean, one after the other; a stream is what one launcher prefix marks."""

    def __init__(self) -> None:
        self._streams: dict[bytes, _Stream] = {}
        self._open: dict[bytes, _Stream] = {}  # those of a traceback without its exception
        self._until = 0  # lines that are looked at for an exception's further words
        self._traced = False
        self._prefixes: list[re.Pattern[bytes]] = []  # unknown ones, as a traceback showed them

    def feed(self, place: int, prefix: bytes, text: bytes) -> Said | None:
        """Return what a line is strong evidence of, or None."""
        stream = self._streams.setdefault(prefix, _Stream())
        said = self._said(stream, place, text)
        if stream.open:
            self._open.setdefault(prefix, stream)
        else:
            self._open.pop(prefix, None)
        if stream == _Stream():
            del self._streams[prefix]
        return said

    def listens(self, place: int) -> bool:
        """Return whether any line may say more: of a traceback, or of an exception's words."""
        return bool(self._open) or place < self._until

    def cut_off(self) -> dict[bytes, tuple[int, bytes]]:
        """Return the tracebacks whose exception did not come, of those that may have ended
        something: by their prefix, where the last line stands and what it says.
        """
        return {
            prefix: stream.open
            for prefix, stream in self._open.items()
            if stream.open and not stream.ignored and stream.link != "aside"
        }

    def _said(self, stream: _Stream, place: int, text: bytes) -> Said | None:
        if stream.group:
            text = GROUPED.sub(b"", text)
        if stream.header:
            message, stream.header, stream.open = stream.header + b" " + text, b"", None
            return Said(meaning(message) or "error", message)
        if stream.open and self._is_frame(stream, text):
            stream.open = place, text.strip()
            return None
        for prefix in self._prefixes:
            if match := prefix.match(text):
                text = text[match.end() :]
                break
        if HEADER.match(text):
            stream.open, stream.header = (place, text), text
            return None
        if IGNORED.match(text):
            stream.ignored = True
            return None
        for link, pattern in (("handling", HANDLING), ("cause", CAUSE), ("aside", ASIDE)):
            if pattern.match(text):
                stream.link = link
                return None
        if (message_match := ERROR_FILE.match(text)) and EXCEPTION.match(message_match[1]):
            return Said(_exception(message_match[1]), message_match[1])
        if text.lstrip().startswith(CALL_STACK):
            return None
        if (at := text.find(b"Traceback (most recent call last)")) >= 0:
            self._opens(stream, place, text, at)
            return None
        if stream.open:
            text = text.removeprefix(stream.indent)
        if stream.group and GROUP.match(text):
            stream.open = place, text  # what it holds follows
            return None
        if stream.open and EXCEPTION.match(text):
            return self._closes(stream, place, text)
        if stream.open and text.startswith(b" "):
            stream.open = place, text.strip()
        return self._further(stream, place, text) or self._by_itself(stream, place, text)

    def _opens(self, stream: _Stream, place: int, text: bytes, at: int) -> None:
        """Note that a traceback begins, `at` so many bytes of a line."""
        stream.open = place, b"its first line"
        if IN_GROUP.match(text):
            stream.group, stream.indent = True, b""
            return
        if OF_RANK.search(text) and place - stream.later[0] < LATER:
            stream.behind = "traceback"
        stream.indent = text[: len(text) - len(text.lstrip())]
        if text[:at].strip() and at <= LONGEST_PREFIX and len(self._prefixes) < MOST:
            self._prefixes.append(_as_before(text[:at]))

    def _closes(self, stream: _Stream, place: int, text: bytes) -> Said | None:
        """Return what the exception that ends a traceback says."""
        link, stream.link, stream.open = stream.link or "alone", "", None
        if stream.ignored:
            stream.ignored = False
            return None
        self._traced = True
        reason, stream.behind = stream.behind == "traceback", ""
        if (status := self._first_line(stream, place, text)) is None:
            return None
        return Said(status, link="" if link == "aside" else link, reason=reason)

    def _by_itself(self, stream: _Stream, place: int, text: bytes) -> Said | None:
        """Return what a line says that is in no traceback."""
        for rule in RULES if ANY_RULE.search(text) else ():
            if match := rule.pattern.search(text):
                is_behind_bar = BAR.search(text[: match.start()])  # tqdm leaves its line open
                message = text[match.start() :].strip() if is_behind_bar else b""
                return Said(rule.status or meaning(text) or "error", message, start=rule.start)
        if QUALIFIED.match(text) or (BARE.match(text) and (self._traced or meaning(text))):
            status = self._first_line(stream, place, text)
            return Said(status) if status else None
        return None

    def _first_line(self, stream: _Stream, place: int, text: bytes) -> str | None:
        """Return the status of an exception's first line; one that says little may be corrected."""
        status = _exception(text)
        if status == "collective_error" and place - stream.later[0] < LATER:
            return None  # NCCL's own name for what the line above says
        if status in SAY_LITTLE:
            stream.later = place, status
            self._until = place + LATER
        return status

    def _further(self, stream: _Stream, place: int, text: bytes) -> Said | None:
        """Return what a later line of an exception means, where it says more than the first."""
        at, first = stream.later
        if place - at >= LATER:
            return None
        if text == LAST_ERROR:
            stream.behind = "line"
            return None
        status, last, stream.behind = meaning(text), stream.behind == "line", ""
        if last or (status in TELLING and status != first):
            stream.later = -LATER, ""
            return Said(status or first, reason=True)
        return None

    def _is_frame(self, stream: _Stream, text: bytes) -> bool:
        """Return whether a line is of a traceback's frames, and says nothing else."""
        return (
            text.startswith(b" ")
            and not self._prefixes
            and not stream.indent
            and not CANDIDATE.search(text)
            and not text.lstrip().startswith((CALL_STACK, b'"message": "'))
            and b'{"message": {' not in text
        )


def _as_before(prefix: bytes) -> re.Pattern[bytes]:
    """Match the same prefix on other lines: a time stamp has other digits there."""
    return re.compile(b"^" + re.sub(rb"\d+", rb"\\d+", re.escape(prefix)))


def _exception(text: bytes) -> str:
    for rule in RULES:
        if rule.status and rule.pattern.search(text):
            return rule.status
    return "process_failed" if NOISE.search(text) else meaning(text) or "error"
