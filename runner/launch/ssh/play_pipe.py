"""The gate at which a play waits for its next order: two pipes in a folder of this user alone.

bench writes orders into the one, a line of JSON each, and the play answers in the other once it has
carried one out. Whichever side dies closes its end, and so tells the other.
"""

import json
import os
import select
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from runner.base.dataclass_schema import read
from runner.terms.inspected import Sought

ORDERS, ANSWERS = "orders", "answers"
READY, DONE = b"r", b"d"  # the play waits for its first order; it has carried one out


@dataclass(frozen=True)
class Order:
    """What the play is to do on hosts: describe them in `folder`, or carry out the run there.

    `sought` is what they are asked for; without it the run goes on while `holder` holds `lock`.
    """

    folder: str
    hosts: tuple[str, ...] = ()
    sought: Sought | None = None
    lock: str = ""
    holder: str = ""


class Gate:
    """bench's side. Opened before the play begins, closed when no order will come."""

    def __init__(self, folder: Path) -> None:
        for name in (ORDERS, ANSWERS):
            os.mkfifo(folder / name, 0o600)
        # Open for both, so that it waits for no reader and holds what none has read yet.
        self._orders = os.open(folder / ORDERS, os.O_RDWR)
        self._answers = os.open(folder / ANSWERS, os.O_RDONLY | os.O_NONBLOCK)
        self._heard = select.poll()
        self._heard.register(self._answers, select.POLLIN)
        self.came = False  # the play, which was there
        self.closed = False  # by the play, which has ended

    def tell(self, order: Order) -> None:
        """Give the play its next order."""
        with open(self._orders, "wb", closefd=False) as stream:
            stream.write(json.dumps(asdict(order)).encode() + b"\n")

    def hear(self, patience_s: float) -> bytes:
        """Return what the play has said within `patience_s`; empty for nothing."""
        if not self._heard.poll(1000 * patience_s):
            return b""
        answer = os.read(self._answers, 100)
        self.came, self.closed = self.came or READY in answer, not answer
        return answer

    def close(self) -> None:
        """Let the play end."""
        os.close(self._orders)
        os.close(self._answers)


def orders(folder: Path) -> Iterator[Order]:
    """Yield each order, in the play, until bench closes the gate or is gone.

    The order that was yielded counts as carried out when the next one is asked for.
    """
    with (folder / ANSWERS).open("wb", buffering=0) as answers:
        answers.write(READY)
        with (folder / ORDERS).open("rb") as stream:
            for line in stream:
                yield read(Order, json.loads(line))
                answers.write(DONE)
