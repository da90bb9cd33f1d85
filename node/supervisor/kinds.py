"""What the supervisor's programs answer, as the control node checks it; none of this is sent.

docs/security.md has the limits: they hold here whatever a node's own programs hold to.
"""

from __future__ import annotations

import base64
import zlib

from node.causes import Cause, EndedBy
from node.facts.kinds import ENVIRONMENT
from node.kinds import FINGERPRINT, RELIED_FILES, Line, having
from node.schema import (
    Flag,
    List,
    Mapped,
    Maybe,
    Number,
    OneOf,
    Plain,
    Text,
    UnfitError,
    Whole,
    Words,
    unfit,
)

from .polling import EVENTS_MOST, FETCH_BYTES, TAIL_BYTES, TRACES_MOST

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any, Iterable

    from node.schema import Fields, Kind

MESSAGE_LETTERS = 2_000  # of a node's sentence
MANIFEST = Plain(depth=16, most=100_000, lines=True)  # who reads it checks what it reads of it
SECONDS = Number(0, 1e11)  # since the epoch, or of a run
REFUSALS = (
    *(Cause.MISSING, Cause.CHANGED, Cause.PORT_IN_USE, Cause.NODE_BUSY, Cause.DEVICE_BUSY),
    *(Cause.NO_DEVICE, Cause.EXISTS, Cause.SHARED_ROOT, Cause.DISK_FULL, Cause.IO_ERROR),
)
ENDINGS = [by for by in EndedBy if by not in (EndedBy.REFUSED, EndedBy.LOST)]


class Packed:
    """At most `most` bytes, as node.supervisor.answers.pack makes text of them."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.text = Text(r"[A-Za-z0-9+/]*={0,2}", most=2 * most + 1024)

    def check(self, value: Any, where: str) -> bytes:
        """Return the bytes; no more than `most` of them are ever made."""
        text, unpacker = self.text.check(value, where), zlib.decompressobj()
        try:
            data = unpacker.decompress(base64.b64decode(text, validate=True), self.most + 1)
        except (zlib.error, ValueError) as error:
            raise unfit(where, "is not what was packed: %s" % error) from None
        if len(data) > self.most:
            raise unfit(where, "unpacks to more than %d bytes" % self.most)
        if not unpacker.eof:
            raise unfit(where, "ends early")
        return data

    def json_schema(self) -> dict[str, Any]:
        """Return the same as JSON schema."""
        return {"type": "string", "contentEncoding": "base64"}


class Refusable:
    """A kind; or, where the answer has `refused`, the cause of a refusal and its message."""

    refusal = having({"refused": OneOf(*REFUSALS), "message": Words(MESSAGE_LETTERS)})

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def check(self, value: Any, where: str) -> Any:
        """Return the answer, or the refusal."""
        refused = isinstance(value, dict) and "refused" in value
        return (self.refusal if refused else self.kind).check(value, where)

    def json_schema(self) -> dict[str, Any]:
        """Return the same as JSON schema."""
        return {"anyOf": [self.kind.json_schema(), self.refusal.json_schema()]}


class OrNone(Maybe):
    """A kind; None for what does not fit: a record that a run does without."""

    def check(self, value: Any, where: str) -> Any:
        """Return the value, or None."""
        try:
            return super().check(value, where)
        except UnfitError:
            return None


STOOD = having({"pid": Whole(), "rank": Maybe(Whole()), "state": Text(most=1)})
ENDED = having(
    {"ended_by": OneOf(*ENDINGS)},
    {
        "rc": Maybe(Whole(0, 255)),
        "signal": Maybe(Whole(1, 64)),
        "message": Words(MESSAGE_LETTERS),
        "oom_kills": Whole(),
        **dict.fromkeys(("started_at", "ended_at", "wall_s"), SECONDS),
        **dict.fromkeys(("signalled", "left"), Whole()),
        "stood": List(STOOD, most=10_000),
    },
)

# A program to what it answers.
NOTED = List(Words(MESSAGE_LETTERS), most=100)  # what may disturb a run, in sentences
PREPARED = Refusable(having({"now": SECONDS, "boot_id": Text(most=100)}, {"noted": NOTED}))
POLLED = having(
    {
        "done": Maybe(ENDED),
        "size": Whole(),
        "offset": Whole(),
        "data": Packed(TAIL_BYTES),
        "samples": Packed(TAIL_BYTES),
        "arrivals": Packed(TAIL_BYTES),
        "files": Mapped(Text(most=4096, lines=True), Whole(), most=EVENTS_MOST + TRACES_MOST + 3),
    }
)
FETCHED = having({"offset": Whole(), "data": Packed(FETCH_BYTES)})
CLOSED = having({"removed": Flag()})
STOPPED = having(
    {"ended": List(having({"dir": Line(most=4096), "done": Maybe(ENDED)}), most=10_000)}
)


def inspected(paths: Iterable[str], environment: str, relied: Iterable[str] = ()) -> Fields:
    """Return the kind of what a node says that it is, with the JSON files of these names.

    The one called `environment` is an env.json; the others are manifests of what setup put there.
    `relied` are the names of folders and Pythons.
    """
    kinds: dict[str, Kind] = {
        name: OrNone(ENVIRONMENT) if name == environment else Maybe(MANIFEST) for name in paths
    }
    device = having({"name": Line(), "memory_mib": Line(), "driver": Line()})
    return having(
        {
            "now": SECONDS,
            "boot_id": Text(most=100),
            **{name: Line() for name in ("hostname", "kernel", "system", "cpu")},
            "cpu_count": Whole(1, 1 << 20),
            "memory_mib": Whole(0, 1 << 40),
            "devices": List(device, most=1024),
            "files": having(kinds),
            "relied": having(dict.fromkeys(relied, FINGERPRINT)),
            "relied_files": RELIED_FILES,
        }
    )
