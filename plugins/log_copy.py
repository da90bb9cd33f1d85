"""A node's log as it comes home: what polls bring, then the rest, and never more than its cap."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from node.files import open_to_append
from node.schema import unfit

PART_BYTES = 8 * 1024 * 1024  # of a log that is copied at once


class BroughtLog:
    """A log here, at `path`: at most `cap` bytes of the node's, and a line for each gap.

    `offset` is where the node's log goes on after what came last; the first `kept` bytes are here
    without a gap.
    """

    def __init__(self, path: Path, partial: Path, cap: int) -> None:
        self.path, self.part, self.cap = path, partial, cap
        self.offset = self.kept = 0

    def add(self, offset: int, data: bytes) -> None:
        """Add what a poll brought, from byte `offset` of the node's log on.

        Raises UnfitError where the node's log goes back.
        """
        if offset < self.offset:
            raise unfit("the answer to poll:", f"offset is {offset} after {self.offset}")
        here = self.offset
        with open_to_append(self.path) as log:
            if log.tell() + len(data) > self.cap:
                here = self.kept = min(self.kept, self.cap // 2)
                log.truncate(here)
            if offset != here:
                log.write(gap(offset - here))  # complete() brings it
            elif offset == self.kept:
                self.kept += len(data)
            log.write(data)
        self.offset = offset + len(data)

    def complete(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        """Bring what is missing of `size` bytes, up to the cap: else head and tail."""
        if self.kept >= size:
            return
        spans = [(0, size)]
        if size > self.cap:
            spans = [(0, self.cap // 2), (size - self.cap // 2, size)]
        self.part.unlink(missing_ok=True)  # of a play that was killed
        try:
            with open_to_append(self.path) as here, open(self.part, "xb") as log:
                for begin, end in spans:
                    if begin:
                        log.write(gap(begin - self.cap // 2))
                    while begin < end:
                        if begin < self.kept:
                            here.seek(begin)
                            data = here.read(min(PART_BYTES, end - begin, self.kept - begin))
                        else:
                            data = fetch(begin, end - begin)
                        log.write(data)
                        begin += len(data)
            self.part.replace(self.path)
        finally:
            self.part.unlink(missing_ok=True)


def gap(size: int) -> bytes:
    """Return the line of a log in place of bytes that were left out of it."""
    return b"\n[trainbench: %d bytes of this log left out]\n" % size
