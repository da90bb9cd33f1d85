"""Which trainer's lines a run's logs hold, which system printed them, and why we think so.

Several systems share a format; then the reason says so. Why a log has no step of a known family:
what it is, or what seems to be its steps.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from node.files import open_plain
from node.printable import printable
from runner.base.text import blocks
from runner.logs.decoding import whole_lines
from runner.logs.kind import Kind, Readers, Sign
from runner.logs.kinds import KINDS, readers_of, readers_of_family
from runner.logs.measure import ReadLogs, read_logs
from runner.logs.run_sizes import UNKNOWN, Known
from runner.terms.record import Measurement

SAMPLE = 1 << 18  # bytes at a log's beginning and end that say what it is
# Of a log without steps: by the words of few systems before those of many.
_NAMED = tuple(
    candidate
    for kind in sorted(KINDS.values(), key=lambda kind: len(kind.systems()))
    for candidate in kind.mentions
)
_SIGNS = {
    sign
    for candidate in (
        *_NAMED,
        *(candidate for kind in KINDS.values() for candidate in kind.candidates),
    )
    for sign in (*candidate.by, *candidate.without)
}
# How files begin that are no text; what makes them text.
_PACKED = (
    (b"\x1f\x8b", "gzip; unpack it (gunzip)"),
    (b"\x28\xb5\x2f\xfd", "zstd; unpack it (unzstd)"),
    (b"\xfd7zXZ\0", "xz; unpack it (unxz)"),
    (b"BZh", "bzip2; unpack it (bunzip2)"),
    (b"PK\x03\x04", "zip; unpack it (unzip)"),
    (b"\xff\xfe", "UTF-16 text; convert it (iconv -f UTF-16 -t UTF-8)"),
    (b"\xfe\xff", "UTF-16 text; convert it (iconv -f UTF-16 -t UTF-8)"),
)
_NUMBER = re.compile(rb"\d+(?:\.\d+)?")
LEAST = 3  # lines of one form, whose counter grows, that are taken for steps
LONGEST = 300  # bytes of a line that is looked at
SHOWN = 120
CURE = "give patterns of its lines (--matrix, docs/your-own-trainer.md)"


@dataclass(frozen=True)
class Recognised:
    """What the logs of one run say, and whose they are: the system (None: nobody knows) and why,
    and the first log's parser, None without any step.
    """

    read: ReadLogs
    system: str | None
    why: str
    kind: Kind | None
    unread: str = ""  # why no line is read of a log that nobody knows, where that can be told

    @property
    def family(self) -> str | None:
        """The family of the lines, or `patterns`; None without any step."""
        if self.kind is None:
            return None
        return self.kind.family() if self.kind.name in KINDS else self.kind.name


def recognise(
    paths: Sequence[Path],
    system: str | None = None,
    *,
    family: str | None = None,
    readers: Readers | None = None,
    sizes: Known = UNKNOWN,
) -> Recognised:
    """Read logs as the nodes of one run. What `system` and `family` leave open their lines tell.

    `readers` are those of a matrix's own patterns, in place of all families.
    """
    samples = [_sample(path) for path in paths]
    read = ReadLogs(Measurement())
    for kinds in [readers] if readers is not None else _families(system, family, samples):
        read = read_logs(kinds, {rank: blocks(path) for rank, path in enumerate(paths)}, sizes)
        if read.logs:
            break
    kind = read.logs[0].parser if read.logs else None
    seen = set().union(*map(signs, samples))
    seen |= set().union(*(signs(log.parser.notes.first_step) for log in read.logs))
    detected, why = system_of(kind, seen)
    if readers is not None:
        why = f"read by {next(iter(readers.values()))().says}"
    elif system is not None:
        why = "named by --system"
    elif kind is not None:
        why = f"{kind.says} {why}".strip()
    unknown = kind is None and (system or detected) is None and readers is None
    unread = (why_unread(path.name, sample) for path, sample in zip(paths, samples, strict=True))
    unread_why = next(filter(None, unread), "") if unknown else ""
    return Recognised(read, system or detected, why, kind, unread_why)


def _sample(path: Path) -> bytes:
    with open_plain(path) as stream:
        head = stream.read(SAMPLE)
        end = stream.seek(0, 2)
        stream.seek(max(len(head), end - SAMPLE))
        return head + b"\n" + stream.read()


def _families(
    system: str | None, family: str | None, samples: Sequence[bytes]
) -> Iterator[Readers]:
    """Yield what reads each family, best first; one that a sample has steps of is in front.

    DeepSpeed's own lines stay behind: Megatron's may be between the samples.
    """
    named = readers_of_family(family) if family else readers_of(system)
    order = dict.fromkeys(kind.family() for kind in named.values())
    first = next((kind.family() for kind in named.values() if _has_steps(kind, samples)), None)
    for name in order if first is None else {first: None, **order}:
        yield readers_of_family(name)


def _has_steps(kind: type[Kind], samples: Iterable[bytes]) -> bool:
    parsers = (kind() for _ in samples)
    return kind.own_rate and any(
        parser.feed(text)
        for parser, sample in zip(parsers, samples, strict=False)
        for text in whole_lines([sample])
    )


def signs(sample: bytes) -> set[Sign]:
    """Return the telling signs that a part of a log has."""
    small = sample.lower()
    return {sign for sign in _SIGNS if sign.stands_in(small)}


def system_of(kind: Kind | None, signs: set[Sign]) -> tuple[str | None, str]:
    """Return the system of a log with that kind of step lines and those signs, and why."""
    for candidate in _NAMED if kind is None or kind.name not in KINDS else kind.candidates:
        if candidate.fits(signs):
            return candidate.system, candidate.why
    return None, "nothing in the log names a system"


def why_unread(name: str, sample: bytes) -> str:
    """Say what a log is of which no line is of a known family, by a sample from its beginning.

    Empty where it has nothing that looks like steps.
    """
    for begin, kind in _PACKED:
        if sample.startswith(begin):
            return f"{name} is {kind}"
    if sample.count(b"\0") > len(sample) // 4:
        return f"{name} is no text (UTF-16 has such zeros: iconv -f UTF-16LE -t UTF-8)"
    line = _counting(sample)
    if line is None:
        return ""
    return f"no line is of a known family; {line!r} repeats with a counter: {CURE}"


def _counting(sample: bytes) -> str | None:
    """Return the first line of the most frequent form in which a whole number always grows."""
    forms: dict[bytes, list[bytes]] = defaultdict(list)
    for line in re.split(rb"[\r\n]+", sample):
        if LEAST < len(line) <= LONGEST:
            forms[_NUMBER.sub(b"0", line)].append(line)
    for lines in sorted(forms.values(), key=len, reverse=True):
        if len(lines) >= LEAST and _grows(lines):
            return printable(lines[0].decode("utf-8", "replace")).strip()[:SHOWN]
    return None


def _grows(lines: list[bytes]) -> bool:
    columns = zip(*(_NUMBER.findall(line) for line in lines), strict=True)
    return any(
        all(b"." not in digits and len(digits) < 10 for digits in column)
        and all(int(a) < int(b) for a, b in pairwise(column))
        for column in columns
    )
