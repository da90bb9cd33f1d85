"""What the lines of a log are evidence of, one after the other. Pure."""

import re

from runner.judge.diagnosis.causes import meaning
from runner.judge.diagnosis.line_rules import (
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
        self.reason = False  # the last line says why, and is of the exception above it
        self._later: dict[bytes, tuple[int, str]] = {}  # streams' last exceptions that say little
        # Streams whose next `line`, or `traceback`, says why.
        self._behind: dict[bytes, str] = {}
        self._groups: set[bytes] = set()  # streams with an exception group's traceback
        self._until = 0  # lines that are looked at for an exception's further words
        self._traced = False
        self._headers: dict[bytes, bytes] = {}  # of streams whose next line says what failed
        self._indents: dict[bytes, bytes] = {}  # of a stream's last traceback, as torchrun has it
        self._prefixes: list[re.Pattern[bytes]] = []  # unknown ones, as a traceback showed them

    def status(self, stream: bytes, text: bytes) -> str | None:
        """Return the status that a line is strong evidence of, or None."""
        self.ended, self.start, self.message, self.reason = "", False, b"", False
        if stream in self._groups:
            text = GROUPED.sub(b"", text)
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
            if IN_GROUP.match(text):
                self._groups.add(stream)
                self._indents[stream] = b""
                return None
            if OF_RANK.search(text) and self._is_later(stream):
                self._behind[stream] = "traceback"
            self._indents[stream] = text[: len(text) - len(text.lstrip())]
            if text[:at].strip() and at <= LONGEST_PREFIX and len(self._prefixes) < MOST:
                self._prefixes.append(_as_before(text[:at]))
            return None
        if stream in self.open:
            text = text.removeprefix(self._indents[stream])
        if stream in self._groups and GROUP.match(text):
            self.open[stream] = self.place, text  # what it holds follows
            return None
        if stream in self.open and EXCEPTION.match(text):
            del self.open[stream]
            link = self._linked.pop(stream, "alone")
            if stream in self._ignored:
                self._ignored.discard(stream)
                return None
            self._traced = True
            self.ended = "" if link == "aside" else link
            self.reason = self._behind.pop(stream, "") == "traceback"
            return self._exception(stream, text)
        if stream in self.open and text.startswith(b" "):
            self.open[stream] = self.place, text.strip()
        if further := self._further(stream, text):
            return further
        for rule in RULES if ANY_RULE.search(text) else ():
            if match := rule.pattern.search(text):
                self.start = rule.start
                if BAR.search(text[: match.start()]):  # tqdm leaves its line open
                    self.message = text[match.start() :].strip()
                return rule.status or meaning(text) or "error"
        if QUALIFIED.match(text) or (BARE.match(text) and (self._traced or meaning(text))):
            return self._exception(stream, text)
        return None

    def listens(self, place: int) -> bool:
        """Return whether any line may say more: of a traceback, or of an exception's words."""
        return bool(self.open) or place < self._until

    def _exception(self, stream: bytes, text: bytes) -> str | None:
        """Return the status of an exception's first line; one that says little may be corrected."""
        status = _exception(text)
        if status == "collective_error" and self._is_later(stream):
            return None  # NCCL's own name for what the line above says
        if status in SAY_LITTLE:
            self._later[stream] = self.place, status
            self._until = self.place + LATER
        return status

    def _is_later(self, stream: bytes) -> bool:
        at, _ = self._later.get(stream, (-LATER, ""))
        return self.place - at < LATER

    def _further(self, stream: bytes, text: bytes) -> str | None:
        """Return what a later line of an exception means, where it says more than the first."""
        if not self._is_later(stream):
            return None
        if text == LAST_ERROR:
            self._behind[stream] = "line"
            return None
        status, last = meaning(text), self._behind.pop(stream, "") == "line"
        if last or (status in TELLING and status != self._later[stream][1]):
            self.reason, status = True, status or self._later[stream][1]
            del self._later[stream]
            return status
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
