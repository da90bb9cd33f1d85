"""The HTTP server of the live page: Python's own, held to this machine and to small requests."""

import errno
import http.server
import io
import os
import secrets
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from runner.base.errors import UserError
from runner.serve.addresses import RefusalError, wish
from runner.serve.bounded_input import BoundedInput
from runner.serve.responses import HEADERS, Content, Response, refusal

REQUEST_BYTES = 16 << 10  # of a request: its line and all headers
REQUEST_S = 10.0
ANSWER_S = 60.0  # for each MiB of an answer
MOST_CONNECTIONS = 16  # at once; one more is closed
_CHUNK = 1 << 20


class PageHandler(http.server.BaseHTTPRequestHandler):
    """One connection, which is one request."""

    server: "PageServer"
    protocol_version = "HTTP/1.0"

    def setup(self) -> None:
        """Bound what the connection may send."""
        super().setup()
        bounded = BoundedInput(self.connection, REQUEST_BYTES, REQUEST_S)
        self.rfile = io.BufferedReader(bounded)

    def handle(self) -> None:
        """Answer the request, unless whoever sent it has gone."""
        with suppress(OSError):
            super().handle()

    def do_GET(self) -> None:
        """Answer with what is asked for."""
        hosts = [str(host) for host in self.headers.get_all("Host", [])]
        try:
            asked = wish(self.command, self.path, hosts, self.server.token)
            answer = self.server.content.answer(asked)
        except RefusalError as error:
            answer = refusal(error)
        self._send(answer)

    do_HEAD = do_GET  # noqa: N815  # http.server's name

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request, or of a method that there is not, without its words."""
        self._send(refusal(RefusalError(405 if code == 501 else code)))

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing: an address holds the token."""

    def _send(self, answer: Response) -> None:
        self.connection.settimeout(ANSWER_S)
        body = io.BytesIO(answer.body) if isinstance(answer.body, bytes) else answer.body
        with body:
            self.send_response_only(answer.status)
            for name, value in {**HEADERS, **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(answer.size))
            self.end_headers()
            if getattr(self, "command", None) == "HEAD":
                return
            left = answer.size
            while left and (chunk := body.read(min(left, _CHUNK))):
                left -= len(chunk)
                self.wfile.write(chunk)
        if answer.sent and not left:
            answer.sent()


class PageServer(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Listens on a loopback address alone; a thread a connection, and no more than there may be."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, host: str, port: int, content: Content) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.content = content
        self.token = secrets.token_urlsafe(24)
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__((host, port), PageHandler)

    def server_bind(self) -> None:
        """Bind, and ask no name server for the name of this machine, as HTTPServer does."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.port

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        """What a browser on this machine opens."""
        host = str(self.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/{self.token}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a connection a thread, or close it where there are too many."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a connection in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a connection that broke: the terminal is the campaign's."""


@contextmanager
def listening(port: int, content: Content) -> Iterator[PageServer]:
    """Serve on 127.0.0.1, or ::1 where there is no other, until the block ends; port 0: any.

    Raises UserError where the port is taken.
    """
    server = _bound(port, content)
    thread = threading.Thread(target=server.serve_forever, name="live page server", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def _bound(port: int, content: Content) -> PageServer:
    try:
        return PageServer("127.0.0.1", port, content)
    except OSError as error:
        if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            raise _not_bound(port, error) from None
    try:
        return PageServer("::1", port, content)
    except OSError as error:
        raise _not_bound(port, error) from None


def _not_bound(port: int, error: OSError) -> UserError:
    used = error.errno == errno.EADDRINUSE
    why = "another program has it" if used else os.strerror(error.errno or 0)
    return UserError(f"--serve cannot have port {port}: {why}; name another, or none for any free")
