"""What the supervisor writes into a trainer's log about faults that it causes."""

from __future__ import annotations

import os
import time

from .names import LOG

TYPE_CHECKING = False  # as typing's, whose import would cost each poll
if TYPE_CHECKING:
    from typing import Any


def announce(number: int, fault: dict[str, Any], iteration: int) -> None:
    """Write into the log what comes, where, and when by this node's clock."""
    facts = number, fault["kind"], fault["node"], fault["rank"], time.time(), iteration
    write_line("fault %d %s node=%d rank=%d at=%.3f iteration=%d" % facts)


def write_line(text: str) -> None:
    """Add a line to the trainer's log."""
    try:
        handle = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        return
    try:
        os.write(handle, ("\n[trainbench: %s]\n" % text).encode())
    except OSError:
        pass
    finally:
        os.close(handle)
