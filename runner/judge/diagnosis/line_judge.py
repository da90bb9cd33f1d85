"""What the lines of a log are evidence of, one after the other. Pure."""

import re

from runner.judge.diagnosis.causes import meaning
from runner.judge.diagnosis.line_rules import (
    ANY_RULE,
    ASIDE,
    BARE,
    CALL_STACK,
    CANDIDATE,
    CAUSE,
    ERROR_FILE,
    EXCEPTION,
    HANDLING,
    HEADER,
    IGNORED,
    NOISE,
    QUALIFIED,
    RULES,
)

MOST = 200  # pieces of evidence, or unknown prefixes, that are kept of one log
LONGEST_PREFIX = 1 << 8  # bytes; what is longer is none of a launcher's


class LineJudge:
    """What lines mean, one after the other; a stream is what one launcher prefix marks."""

    def __init__(self) -> None:
        # Streams with a traceback whose exception has not come yet: its last line, and where.
        self.open: dict[bytes, tuple[int, bytes]] = {}
        self.place = 0
        self.message = b""  # of the last line, where it holds one among other words
        self.ended = ""  # of the last line: it ended a traceback of a process; how that is linked
        self.start = False  # of the last line: see line_rules.Rule
        self._ignored: set[bytes] = set()  # of those, or before: the exception ended nothing
        self._linked: dict[bytes, str] = {}  # streams to what stands before their next traceback
        self._traced = False
        self._headers: dict[bytes, bytes] = {}  # of streams whose next line says what failed
        self._indents: dict[bytes, bytes] = {}  # of a stream's last traceback, as torchrun has it
        self._prefixes: list[re.Pattern[bytes]] = []  # unknown ones, as a traceback showed them

    def status(self, stream: bytes, text: bytes) -> str | None:
        """Return the status that a line is strong evidence of, or None."""
        self.ended, self.start, self.message = "", False, b""
        if header := self._headers.pop(stream, None):
            self.open.pop(stream, None)
            self.message = header + b" " + text
            return meaning(self.message) or "error"
        if self._is_frame(stream, text):
            self.open[stream] = self.place, text.strip()
            return None
        for prefix in self._prefixes:
            if match := prefix.match(text):
                text = text[match.end() :]
                break
        if HEADER.match(text):
            self.open[stream], self._headers[stream] = (self.place, text), text
            return None
        if IGNORED.match(text):
            self._ignored.add(stream)
            return None
        for link, pattern in (("handling", HANDLING), ("cause", CAUSE), ("aside", ASIDE)):
            if pattern.match(text):
                self._linked[stream] = link
                return None
        if (message := ERROR_FILE.match(text)) and EXCEPTION.match(message[1]):
            self.message = message[1]
            return _exception(message[1])
        if text.lstrip().startswith(CALL_STACK):
            return None
        if (at := text.find(b"Traceback (most recent call last)")) >= 0:
            self.open[stream] = self.place, b"its first line"
            self._indents[stream] = text[: len(text) - len(text.lstrip())]
            if text[:at].strip() and at <= LONGEST_PREFIX and len(self._prefixes) < MOST:
                self._prefixes.append(_as_before(text[:at]))
            return None
        if stream in self.open:
            text = text.removeprefix(self._indents[stream])
        if stream in self.open and EXCEPTION.match(text):
            del self.open[stream]
            link = self._linked.pop(stream, "alone")
            if stream in self._ignored:
                self._ignored.discard(stream)
                return None
            self._traced = True
            self.ended = "" if link == "aside" else link
            return _exception(text)
        if stream in self.open and text.startswith(b" "):
            self.open[stream] = self.place, text.strip()
        for rule in RULES if ANY_RULE.search(text) else ():
            if rule.pattern.search(text):
                self.start = rule.start
                return rule.status or meaning(text) or "error"
        if QUALIFIED.match(text):
            return _exception(text)
        if BARE.match(text) and (self._traced or meaning(text)):
            return _exception(text)
        return None

    def _is_frame(self, stream: bytes, text: bytes) -> bool:
        """Return whether a line is of a traceback's frames, and says nothing else."""
        return (
            text.startswith(b" ")
            and stream in self.open
            and not self._prefixes
            and not self._indents.get(stream)
            and not CANDIDATE.search(text)
            and not text.lstrip().startswith((CALL_STACK, b'"message": "'))
            and b'{"message": {' not in text
        )

    def cut_off(self) -> dict[bytes, tuple[int, bytes]]:
        """Return the tracebacks whose exception did not come, of those that may have ended
        something: by their stream, where the last line stands and what it says.
        """
        return {
            stream: last_line
            for stream, last_line in self.open.items()
            if stream not in self._ignored and self._linked.get(stream) != "aside"
        }


def _as_before(prefix: bytes) -> re.Pattern[bytes]:
    """Match the same prefix on other lines: a time stamp has other digits there."""
    return re.compile(b"^" + re.sub(rb"\d+", rb"\\d+", re.escape(prefix)))


def _exception(text: bytes) -> str:
    for rule in RULES:
        if rule.status and rule.pattern.search(text):
            return rule.status
    return "process_failed" if NOISE.search(text) else meaning(text) or "error"
