"""What a connection sends, up to so many bytes and so long, however slowly it sends them."""

import io
import socket
import time
from typing import Any


class BoundedInput(io.RawIOBase):
    """A connection as a raw stream. Raises ConnectionAbortedError behind `most` bytes, for half a
    request is invalid, and TimeoutError after `limit_s` seconds.
    """

    def __init__(self, connection: socket.socket, most: int, limit_s: float) -> None:
        super().__init__()
        self._connection, self._bytes_left = connection, most
        self._until = time.monotonic() + limit_s

    def readable(self) -> bool:
        """Answer as a stream does."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what is there into a buffer; 0 at the end."""
        size = min(len(buffer), self._bytes_left)
        rest_s = self._until - time.monotonic()
        if rest_s <= 0:
            raise TimeoutError("a request that took too long")
        if len(buffer) and not size:
            raise ConnectionAbortedError("a request that is too long")
        self._connection.settimeout(rest_s)
        count = self._connection.recv_into(memoryview(buffer)[:size])
        self._bytes_left -= count
        return count
