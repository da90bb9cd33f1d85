"""A matrix's own patterns as a kind of step lines: `step` finds a line, the others read it.

What is not on that line is looked for on those behind it, up to the next step's (OLMo and Composer
print a figure a line), unless an earlier step had it on its own.

They run on RE2, whose time grows with the length of a line and no faster, whatever the pattern
(https://github.com/google/re2/wiki/Syntax: no lookaround, no backreference).
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import re2

from node.printable import printable
from runner.base.errors import UserError
from runner.base.suggest import nearest
from runner.logs.decoding import newlines, uncoloured
from runner.logs.kind import Candidate, Kind, Readers
from runner.logs.logged_step import LoggedStep, Windows
from runner.logs.numbers import finite, human, is_lost, quantity_of, whole_number
from runner.logs.run_sizes import TRAIN_ITERS
from runner.terms.memory import MEMORY

STEP = "step"
OLD_MEMORY = "memory"  # until the next version: memory_allocated
MEMORY_KEYS = {key.removesuffix("_mib"): figure.meaning for key, figure in MEMORY.items()}
_TO_MIB = {"MiB": 1.0, "GiB": 1024.0, "MB": 1e6 / 2**20, "GB": 1e9 / 2**20}
UNITS: Mapping[str, Mapping[str, float]] = {
    "step_time": {"s": 1000.0, "ms": 1.0, "us": 0.001},  # to ms
    **dict.fromkeys((OLD_MEMORY, *MEMORY_KEYS), _TO_MIB),
}
KEYS: Mapping[str, str] = {
    STEP: "number of the iteration, and with a second group how many there are",
    "loss": "loss",
    "grad_norm": "norm of the gradients",
    "step_time": "time of an iteration",
    "samples_per_s": "samples per second of the whole job",
    "tokens_per_s": "tokens per second of the whole job",
    "device_tokens_per_s": "tokens per second of one device",
    "device_tflop_per_s": "TFLOP/s of one device, by the trainer's own count",
    **MEMORY_KEYS,
    OLD_MEMORY: "the older name of `memory_allocated`: use it for nothing else",
}
_FIELDS = {"step_time": "step_time_ms", "device_tflop_per_s": "tflop_per_s"}  # of a LoggedStep
LOSS = "loss"
SIGNED = (LOSS, "grad_norm")
_LOST_WORD = re.compile(rb"(?i)(?<!\w)[+-]?(?:nan|inf|infinity)(?!\w)")
_DECIMALS = range(1, 9)  # that a pattern may ask for
_COMMA = re.compile(rb"(?<=\d),(?=\d{3}(?:\D|$))")
MOST_LETTERS = 1_000  # of a pattern
MOST_LINES = 20_000  # that are looked at
MOST_SHOWN = 2
LONGEST = 200  # bytes of a line that are looked at, and shown
_WORD = re.compile(rb"[A-Za-z]{2,}")
# Of a stack of Python or py-spy, and what stands before it: no step.
_STACK = re.compile(
    rb'File "[^"]*", line \d|^\[trainbench: |^(?:Current t|T)hread |^\s+\S+ \(\S+:\d+\)$'
)
_SPECIAL = re.compile(rb"\\.|\[[^]\[]*\]|\(\?\w*:?|[(){}|*+?^$.]")


class NearLines:
    """Keeps the lines that hold the most of a pattern's own words; the first of them."""

    def __init__(self, pattern: str) -> None:
        plain = _SPECIAL.sub(b" ", pattern.encode())
        self._vocabulary = tuple(dict.fromkeys(word.lower() for word in _WORD.findall(plain)))[:20]
        self._best: list[tuple[int, bytes]] = []
        self._first_numeric = b""
        self._looked = 0

    def look(self, text: bytes) -> None:
        """Look at the lines of a text."""
        if self._looked >= MOST_LINES:
            return
        for line in text.split(b"\n", MOST_LINES - self._looked):
            self._looked += 1
            if _STACK.search(line[:LONGEST]):
                continue
            small = line[:LONGEST].lower()
            if not self._first_numeric and any(48 <= byte <= 57 for byte in small):
                self._first_numeric = line[:LONGEST]
            score = sum(word in small for word in self._vocabulary)
            worst = self._best[-1][0] if len(self._best) == MOST_SHOWN else 0
            if score > worst:
                best = sorted([*self._best, (score, line[:LONGEST])], key=lambda each: -each[0])
                self._best = best[:MOST_SHOWN]

    def sentence(self) -> str:
        """Say them: `; the nearest are: '...'`, or that no line has a word of the pattern."""
        lines = [line for _, line in self._best] or [self._first_numeric] * bool(
            self._first_numeric
        )
        quoted = [repr(printable(line.decode("utf-8", "replace")).strip()) for line in lines]
        if self._best or not quoted:
            return f"; nearest: {', '.join(quoted)}" if quoted else ""
        return f"; no line has one of its words, the first with a number is {quoted[0]}"


@dataclass(frozen=True)
class LinePattern:
    """One of a matrix's patterns: its text, and what its number is multiplied with."""

    text: str
    scale: float = 1.0


def read_patterns(log: Mapping[str, Any], where: str) -> dict[str, LinePattern]:
    """Read what a matrix says of a log's lines. Raises UserError that names the key."""
    if STEP not in log:
        raise UserError(
            f"{where} has no `step`, by which a line is known; add step: 'step (\\d+)/(\\d+)'"
        )
    return {key: _read(key, value, where) for key, value in log.items()}


def _read(key: str, value: Any, where: str) -> LinePattern:
    if key not in KEYS:
        raise UserError(
            f"{where}: unknown field {key!r}{nearest(str(key), KEYS)}; fields are {', '.join(KEYS)}"
        )
    where = f"{where}: {key}"
    scale = 1.0
    if key in UNITS:
        units = UNITS[key]
        form = f"{{pattern: '...', unit: {next(iter(units))}}}, with a unit of {', '.join(units)}"
        if not isinstance(value, dict) or set(value) != {"pattern", "unit"}:
            raise UserError(f"{where} is {value!r:.100}; write {form}")
        if value["unit"] not in list(units):  # anything that is not a text has no hash, perhaps
            raise UserError(f"{where} has the unit {value['unit']!r:.100}; write {form}")
        scale, value = units[value["unit"]], value["pattern"]
    if not isinstance(value, str) or not 0 < len(value) <= MOST_LETTERS:
        raise UserError(
            f"{where} is {value!r:.100}; it must be a pattern of at most {MOST_LETTERS} letters"
        )
    pattern = compiled(value, where)
    _check_groups(pattern.groups, key, where)
    if pattern.search(b"") is not None:
        raise UserError(f"{where} matches an empty line, too; add the text beside the number")
    return LinePattern(value, scale)


def _check_groups(groups: int, key: str, where: str) -> None:
    most = 2 if key == STEP else 1
    if not 1 <= groups <= most:
        several = "one group, or two (the step and the total)" if key == STEP else "one group"
        raise UserError(
            f"{where} has {groups or 'no'} groups and needs {several}: put the number in (...), and"
            " write (?:...) for what only belongs together"
        )


@cache
def compiled(text: str, where: str = "") -> re2._Regexp:
    """Compile a pattern for bytes of a line. Raises UserError where RE2 cannot run it."""
    options = re2.Options()
    options.never_nl = True
    options.log_errors = False
    options.encoding = re2.Options.Encoding.LATIN1
    try:
        return re2.compile(b"(?m)" + text.encode(), options)  # ^ and $ are a line's
    except re2.error as error:
        reason = error.args[0] if error.args else error
        message = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        message = message.replace("(?m)", "", 1)
        raise UserError(
            f"{where} cannot run: {message}; patterns are RE2's, without lookaround (?=...) and"
            " backreferences \\1"
        ) from None


def readers_of_patterns(patterns: Mapping[str, LinePattern]) -> Readers:
    """Return what reads a log by a matrix's own patterns."""
    return {PatternLines.name: lambda: PatternLines(patterns)}


@dataclass
class _Seen:
    """Of one pattern: how often a line matched, and the lines that came nearest before."""

    nearest: NearLines
    matched: bool = False
    unreadable: bytes = b""  # what a match had that is no number

    def why(self, key: str) -> str:
        """Say why there is nothing: no line, or no number on it."""
        if self.unreadable:
            matched = printable(self.unreadable[:40].decode("utf-8", "replace"))
            return f"`{key}` found {matched!r}, which is not a number; put only the number in (...)"
        of = " of a step" if key != STEP else ""
        return f"`{key}` matched no line{of}{self.nearest.sentence()}"


class PatternLines(Kind):
    """Lines that `step` matches; what else they say is read by the other patterns."""

    name = "patterns"
    says = "the matrix's own patterns"
    candidates = (Candidate("command"),)

    def __init__(self, patterns: Mapping[str, LinePattern]) -> None:
        super().__init__()
        self.windows = Windows()
        self._patterns = {
            key: (compiled(pattern.text), pattern.scale) for key, pattern in patterns.items()
        }
        self._from_zero: bool | None = None
        self._step = LoggedStep(0)  # the last one
        self._open: set[str] = set()  # what it still lacks
        self._on_its_line: set[str] = set()  # what steps have there
        self._fed = False  # a run that never started says nothing of its lines
        self._progress = {key: _Seen(NearLines(pattern.text)) for key, pattern in patterns.items()}

    @property
    def missing(self) -> dict[str, str]:
        """Say of each pattern that matched no line so, with the nearest lines."""
        return {
            key: progress.why(key)
            for key, progress in self._progress.items()
            if not progress.matched and (self._fed if key == STEP else self._progress[STEP].matched)
        }

    def feed(self, text: bytes) -> list[LoggedStep]:
        """Read the steps in whole lines of a log."""
        text = newlines(text)
        self._fed = True
        clean = uncoloured(text)
        steps: list[LoggedStep] = []
        end = 0
        for match in self._patterns[STEP][0].finditer(clean):
            if match.start() < end:
                continue  # a line is one step
            begin = max(clean.rfind(b"\n", end, match.start()) + 1, end)
            self.notes.at = len(steps)
            self._read(clean[end:begin])
            self.notes.at += 1
            end = clean.find(b"\n", match.end())
            if end < 0:
                break  # half a line may hold half a number
            if (step := self._row(match, clean[begin:end])) is not None:
                step.iterations = self.windows.cover(step.iteration)
                step.offset = begin
                steps.append(step)
        self.notes.at = len(steps)
        if end >= 0:
            self._read(clean[end : clean.rfind(b"\n") + 1])
        if clean is not text:
            _place(steps, clean, text)
        offsets = [0, *(step.offset for step in steps)]  # where what was measured is, by its step
        self.notes.measured = [
            (offsets[min(at, len(steps))], key, value) for at, key, value in self.notes.measured
        ]
        self.notes.scan(text)
        if not steps and not self._progress[STEP].matched:
            self._progress[STEP].nearest.look(clean)
        return steps

    def _row(self, step: Any, line: bytes) -> LoggedStep | None:
        iteration = whole_number(_plain(step.group(1)))
        if iteration is None:
            self._progress[STEP].unreadable = step.group(1) or b" "
            return None
        if self._from_zero is None:
            self._from_zero = iteration == 0
        self._progress[STEP].matched = True
        if self._patterns[STEP][0].groups > 1 and (total := whole_number(_plain(step.group(2)))):
            self.notes.facts[TRAIN_ITERS] = str(total)
        self._step = LoggedStep(iteration + self._from_zero)
        self._open = {key for key in self._patterns if key != STEP}
        self._read(line)
        self._on_its_line |= self._patterns.keys() - self._open
        self._open -= self._on_its_line
        return self._step

    def _read(self, text: bytes) -> None:
        """Read what the last step lacks."""
        for key in [*self._open] if text else ():
            figure, there = self._figure(key, text)
            if not there:
                continue
            self._open.remove(key)
            if key in (OLD_MEMORY, *MEMORY_KEYS):
                if key != OLD_MEMORY or "memory_allocated" not in self._patterns:
                    self.notes.peak(f"memory_{key.partition('_')[2] or 'allocated'}_mib", figure)
            elif key == LOSS:
                self._step.loss = None if figure is None else finite(figure)
                self._step.nan = int(figure is not None and self._step.loss is None)
            else:
                setattr(self._step, _FIELDS.get(key, key), figure)
        self._step.drop_unmeasured()

    def _figure(self, key: str, text: bytes) -> tuple[float | None, bool]:
        """Return what a pattern finds on lines of a step, in our unit, and whether it matched.

        A loss may be NaN or infinite; nothing else may, nor be below 0 but a loss and a norm.
        """
        pattern, scale = self._patterns[key]
        match, progress = pattern.search(text), self._progress[key]
        if match is None and not (key == LOSS and _lost(pattern, text)):
            if not progress.matched:
                progress.nearest.look(text)
            return None, False
        found = (match.group(1) or b"").strip() if match else b"nan"
        if key == LOSS and is_lost(found):
            progress.matched = True
            return math.nan, True
        value = human(_plain(found))
        figure = value if key in SIGNED or value is None else quantity_of(value * scale)
        if figure is None:
            progress.unreadable = found or b" "
        progress.matched = progress.matched or figure is not None
        return figure, True


def _lost(pattern: re2._Regexp, line: bytes) -> bool:
    """Whether a pattern of digits alone would match, were NaN or infinity of the line a number."""
    return _LOST_WORD.search(line) is not None and any(
        pattern.search(_LOST_WORD.sub(b"0." + b"0" * places, line)) for places in _DECIMALS
    )


def _place(steps: Iterable[LoggedStep], clean: bytes, text: bytes) -> None:
    """Turn places in a text without colours into those of the same lines in the text."""
    seen = at = 0
    for step in steps:
        for _ in range(clean.count(b"\n", seen, step.offset)):
            at = text.find(b"\n", at) + 1
        seen, step.offset = step.offset, at


def _plain(text: bytes | None) -> bytes:
    """Return a number's text without the commas between its thousands."""
    return _COMMA.sub(b"", text or b"")
