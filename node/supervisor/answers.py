"""What is said to the control node: one line, or a refusal."""

from __future__ import annotations

import base64
import json
import sys
import zlib

TYPE_CHECKING = False  # as typing's, whose import would cost each poll
if TYPE_CHECKING:
    from typing import Any


class RefusedError(Exception):
    """The run cannot start here. `cause` is a word, the message one sentence."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause


def answer(**facts: Any) -> None:
    """Print the one line that the action plugin reads."""
    sys.stdout.write("TRAINBENCH " + json.dumps(facts) + "\n")
    sys.stdout.flush()


def pack(data: bytes) -> str:
    """Bytes as text that survives any connection."""
    return base64.b64encode(zlib.compress(data, 1)).decode("ascii")
