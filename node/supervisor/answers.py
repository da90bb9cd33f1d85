"""What is told to the control node: bytes as text, or a refusal."""

from __future__ import annotations

import base64
import zlib

from node.causes import Cause


class RefusedError(Exception):
    """The run cannot start here. The message is one sentence."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause


def pack(data: bytes) -> str:
    """Bytes as text that survives any connection."""
    return base64.b64encode(zlib.compress(data, 1)).decode("ascii")
