"""What a node has, over HTTP on its own address in the cluster, for who knows the run's token."""

from __future__ import annotations

import contextlib
import hmac
import http.server
import ipaddress
import os
import re
import socket
import socketserver
import threading
import time
from typing import Any

from node import fetch, sharing
from node.checksum import BLOCK
from node.sharing.shelf import Shelf
from node.validated_text import Sha256

AT_ONCE = 4  # uploads of one node; who comes when it is busy asks another


class Hub:
    """Who takes part, and what was heard of them."""

    def __init__(self, spec: dict[str, Any], shelf: Shelf) -> None:
        self.token: str = spec["token"]
        self.shelf = shelf
        self.slots = threading.BoundedSemaphore(AT_ONCE)
        others = (node for node in spec["gets"] if node != spec["me"])
        self.heard = dict.fromkeys(others, time.monotonic())
        self.sent = 0
        self.given = 0  # of `sent`, what is of this node's own datasets, not fetched and given on
        self.most = sharing.TIMES * len(self.heard) * shelf.size  # bytes given, to all together
        self.lock = threading.Lock()

    def hear(self, name: str) -> None:
        """A node that lacks something is alive."""
        if name in self.heard:
            self.heard[name] = time.monotonic()

    def had_enough(self) -> bool:
        """Whether more was given than all that lack something can need: one asks without end."""
        return bool(self.heard) and self.given > self.most > 0

    def wait(self) -> list[str]:
        """Return once all that lack something are done, or not heard for LOST_S: the latter.

        So are those that are not done when enough was sent.
        """
        while True:
            last_heard, now = self.heard.copy(), time.monotonic()
            lost = [node for node, at in last_heard.items() if now - at > sharing.LOST_S]
            if len(lost) == len(last_heard):
                return lost
            if self.had_enough():
                return [*last_heard]
            time.sleep(sharing.PAUSE_S)

    def close(self) -> None:
        """Take every slot, so that `sent` stays true; a node that takes nothing is left out."""
        until = time.monotonic() + sharing.LOST_S
        for _ in range(AT_ONCE):
            self.slots.acquire(timeout=max(0.0, until - time.monotonic()))


class Handler(http.server.BaseHTTPRequestHandler):
    """GET /<sha256> with a Range gives what is there of it; POST /done tells who is complete."""

    timeout = sharing.SEND_S
    hub: Hub  # of the class that serve() makes

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet; the client reports failures."""

    def _answer(self, code: int, size: int = 0) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def _is_authorised(self) -> bool:
        """Whether who asks has the run's token."""
        token = self.headers.get("X-Trainbench-Token", "")
        if hmac.compare_digest(token.encode(), self.hub.token.encode()):
            self.hub.hear(self.headers.get("X-Trainbench-Node", ""))
            return True
        self._answer(403)
        return False

    def do_POST(self) -> None:
        """A node is done, well or not."""
        if self._is_authorised():
            self.hub.heard.pop(self.headers.get("X-Trainbench-Node", ""), None)
            self._answer(204)

    def do_GET(self) -> None:
        """A chunk of a file."""
        if not self._is_authorised():
            return
        match = re.fullmatch(r"/([0-9a-f]{64})", self.path)
        span = re.fullmatch(r"bytes=([0-9]{1,18})-([0-9]{1,18})", self.headers.get("Range", ""))
        if not match or not span:
            self._answer(400)
            return
        path = self.hub.shelf.find(Sha256(match[1]))
        if path is None:
            self._answer(404)
            return
        if self.hub.had_enough():
            self._answer(429)
            return
        if not self.hub.slots.acquire(blocking=False):
            self._answer(503)
            return
        try:
            with contextlib.suppress(OSError):  # one went away: who asked asks another
                self._send(path, int(span[1]), int(span[2]) + 1)
        finally:
            self.hub.slots.release()

    def _send(self, path: str, begin: int, end: int) -> None:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            bytes_left = min(end, size, begin + sharing.CHUNK) - begin
            if bytes_left <= 0:
                self._answer(416)
                return
            self._answer(206, bytes_left)
            stream.seek(begin)
            is_given = path in self.hub.shelf.complete.values()
            while block := stream.read(min(bytes_left, BLOCK)):
                with self.hub.lock:  # before: who has the last of it may end us at once
                    self.hub.sent += len(block)
                    self.hub.given += is_given * len(block)
                self.wfile.write(block)
                bytes_left -= len(block)


class Server(http.server.ThreadingHTTPServer):
    """Many nodes come at once."""

    daemon_threads = True
    request_queue_size = 128

    def server_bind(self) -> None:
        """Without HTTPServer's look-up of a name, which can take a minute and is not needed."""
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a connection that broke."""


def listen(address: str, port: int, hub: Hub) -> Server:
    """Serve on the cluster's own network only. Raises FetchError."""
    try:
        address_info = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise fetch.FetchError(f"{address}: {error.strerror}; set cluster_address") from None
    number = str(address_info[4][0])
    # a node's own name is often a loopback address to itself
    if number != address and ipaddress.ip_address(number.partition("%")[0]).is_loopback:
        raise fetch.FetchError(
            f"{address} is {number} on this node, which no other node reaches; set cluster_address"
        )

    class Bound(Server):
        address_family = address_info[0]

    try:
        server = Bound((number, port), type("Handler", (Handler,), {"hub": hub}))
    except OSError as error:
        raise fetch.FetchError(
            f"cannot listen on {number} port {port}: {error.strerror}; set cluster_address to an "
            "address of this node, or dataset_share_port to a free port"
        ) from None
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server
