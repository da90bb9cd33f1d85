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
from collections.abc import Iterator
from typing import Any

from node import fetch, sharing
from node.checked import Sha256
from node.checksum import BLOCK
from node.sharing.shelf import Shelf

AT_ONCE = 4  # uploads of one node; who comes when it is busy asks another


class Hub:
    """Who takes part, and what was heard of them."""

    def __init__(self, spec: dict[str, Any], shelf: Shelf) -> None:
        self.token: str = spec["token"]
        self.shelf = shelf
        self.slots = threading.BoundedSemaphore(AT_ONCE)
        self.waiting = {each for each in spec["waiting"] if each != spec["me"]}
        self.done: set[str] = set()
        begun = time.monotonic()
        self.heard = dict.fromkeys(self.waiting, begun)
        self.sent = 0
        self.busy = 0
        self.closed = False
        self.lock = threading.Lock()

    def hear(self, name: str) -> None:
        """A node that lacks something is alive."""
        self.heard[name] = time.monotonic()

    def open(self) -> tuple[list[str], list[str]]:
        """The nodes that still lack something: those that live, and those that are lost."""
        left = sorted(self.waiting - self.done)
        now = time.monotonic()
        lost = [each for each in left if now - self.heard[each] > sharing.LOST_S]
        return [each for each in left if each not in lost], lost

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Count one more who is being served. Raises OSError once nobody is served anew."""
        with self.lock:
            if self.closed:
                raise OSError("this node is done")
            self.busy += 1
        try:
            yield
        finally:
            with self.lock:
                self.busy -= 1

    def close(self) -> None:
        """Serve nobody anew, so that `sent` stays true; wait for who is being served, but not for
        one that takes nothing.
        """
        with self.lock:
            self.closed = True
        until = time.monotonic() + sharing.LOST_S
        while self.busy and time.monotonic() < until:
            time.sleep(sharing.PAUSE_S)


class Handler(http.server.BaseHTTPRequestHandler):
    """GET /<sha256> with a Range gives what is there of it; POST /done says who needs no more."""

    protocol_version = "HTTP/1.1"
    timeout = sharing.SEND_S
    hub: Hub  # of the class that serve() makes

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet; what failed is said by who asked."""

    def _answer(self, code: int) -> None:
        self.send_response(code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _known(self) -> bool:
        """Whether who asks has the run's token."""
        token = self.headers.get("X-Trainbench-Token", "")
        if hmac.compare_digest(token.encode(), self.hub.token.encode()):
            name = self.headers.get("X-Trainbench-Node", "")
            if name in self.hub.waiting:
                self.hub.hear(name)
            return True
        self.close_connection = True
        self._answer(403)
        return False

    def do_POST(self) -> None:
        """A node is done, well or not."""
        if self._known():
            self.hub.done |= {self.headers.get("X-Trainbench-Node", "")} & self.hub.waiting
            self._answer(204)

    def do_GET(self) -> None:
        """A chunk of a file."""
        if not self._known():
            return
        asked = re.fullmatch(r"/([0-9a-f]{64})", self.path)
        span = re.fullmatch(r"bytes=([0-9]{1,18})-([0-9]{1,18})", self.headers.get("Range", ""))
        if not asked or not span:
            self._answer(400)
            return
        path = self.hub.shelf.find(Sha256(asked[1]))
        if path is None:
            self._answer(404)
            return
        if not self.hub.slots.acquire(blocking=False):
            self._answer(503)
            return
        try:
            with self.hub.serving():
                self._send(path, int(span[1]), int(span[2]) + 1)
        except OSError:
            self.close_connection = True  # one of the two went away: who asked asks another
        finally:
            self.hub.slots.release()

    def _send(self, path: str, begin: int, end: int) -> None:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            end = min(end, size, begin + sharing.CHUNK)
            if begin >= end:
                self._answer(416)
                return
            self.send_response(206)
            self.send_header("Content-Length", str(end - begin))
            self.end_headers()
            stream.seek(begin)
            left = end - begin
            while left:
                block = stream.read(min(left, BLOCK))
                if not block:
                    raise OSError("the file became shorter")
                with self.hub.lock:  # before: who has the last of it may end us at once
                    self.hub.sent += len(block)
                self.wfile.write(block)
                left -= len(block)


class Server(http.server.ThreadingHTTPServer):
    """Many nodes come at once."""

    daemon_threads = True
    request_queue_size = 128

    def server_bind(self) -> None:
        """Without HTTPServer's look-up of a name, which can take a minute and is not needed."""
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is no news."""


def listen(address: str, port: int, hub: Hub) -> Server:
    """Serve on the cluster's own network only. Raises FetchError."""
    try:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise fetch.FetchError(f"{address}: {error.strerror}; set cluster_address") from None
    number = str(found[4][0])
    # a node's own name is often a loopback address to itself
    if number != address and ipaddress.ip_address(number.partition("%")[0]).is_loopback:
        raise fetch.FetchError(
            f"{address} is {number} on this node, which no other node reaches; set cluster_address"
        )

    class Bound(Server):
        address_family = found[0]

    try:
        server = Bound((number, port), type("Handler", (Handler,), {"hub": hub}))
    except OSError as error:
        raise fetch.FetchError(
            f"cannot listen on {number} port {port}: {error.strerror}; set cluster_address to an "
            "address of this node, or dataset_share_port to a free port"
        ) from None
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server
