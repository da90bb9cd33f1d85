"""`bench --serve`: the report's file over HTTP, to this machine alone and to who has the token."""

import errno
import hmac
import http.server
import io
import os
import re
import secrets
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from runner.base.errors import UserError
from runner.document.campaign_document import CampaignDocument
from runner.report.page import to_html
from runner.serve.bounded_input import BoundedInput

REQUEST_BYTES = 16 << 10  # of a request: its line and all headers
REQUEST_S, ANSWER_S = 10.0, 60.0
MOST_CONNECTIONS = 16  # at once; one more is closed
WATCHED_S = 15.0  # after the last request somebody still looks, and gets the last page
# No page of another site that has its name point here (DNS rebinding) is answered.
_HOST = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.ASCII | re.IGNORECASE)
# The address holds the token, so it goes to no other site, and into no cache.
HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "frame-ancestors 'none'",  # the page's own meta tag has the rest
}
FIRST = "The first report is written when a run begins."


class ReportHandler(http.server.BaseHTTPRequestHandler):
    """One connection, which is one request."""

    server: "ReportServer"
    protocol_version = "HTTP/1.0"

    def setup(self) -> None:
        """Bound what the connection may send."""
        super().setup()
        self.rfile = io.BufferedReader(BoundedInput(self.connection, REQUEST_BYTES, REQUEST_S))

    def handle(self) -> None:
        """Answer the request, unless its sender has gone."""
        with suppress(OSError):
            super().handle()

    def do_GET(self) -> None:
        """Answer with the report, or refuse without a reason."""
        hosts = [str(host) for host in self.headers.get_all("Host", [])]
        path = self.path.partition("?")[0].encode("utf-8", "replace")
        if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
            self.send_error(421)
        elif not hmac.compare_digest(path, f"/{self.server.token}/".encode()):
            self.send_error(404)
        else:
            self._send(200, self.server.page())

    do_HEAD = do_GET  # noqa: N815  # http.server's name

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a request without repeating its words."""
        self._send(405 if code == 501 else code, b"")

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing: an address holds the token."""

    def _send(self, status: int, body: bytes) -> None:
        self.connection.settimeout(ANSWER_S)
        self.send_response_only(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if getattr(self, "command", None) != "HEAD":
            self.wfile.write(body)


class ReportServer(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Listens on a loopback address; one thread per connection, at most MOST_CONNECTIONS."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, host: str, port: int, file: Path) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.token = secrets.token_urlsafe(24)
        self._file = file
        self._asked_at = -WATCHED_S
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__((host, port), ReportHandler)

    def server_bind(self) -> None:
        """Bind, and ask no name server for the name of this machine, as HTTPServer does."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.port

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server_address[1])

    @property
    def words(self) -> list[str]:
        """Say where the page is, and how another machine comes there; the address has the token."""
        host = str(self.server_address[0])
        host = f"[{host}]" if ":" in host else host
        here = socket.gethostname() or "this-machine"
        return [
            f"live page until bench ends: http://{host}:{self.port}/{self.token}/",
            f"from another machine: ssh -L {self.port}:{host}:{self.port} {here}, and the same"
            " address there",
        ]

    def page(self) -> bytes:
        """Return the newest report."""
        self._asked_at = time.monotonic()
        try:
            return self._file.read_bytes()
        except OSError:
            return to_html(CampaignDocument(), live=FIRST).encode()

    def last(self) -> None:
        """Let readers have the last report: wait for their next request, but not long."""
        begun = time.monotonic()
        with suppress(KeyboardInterrupt):
            while begun - self._asked_at < WATCHED_S and time.monotonic() - begun < WATCHED_S:
                time.sleep(0.2)
                if self._asked_at > begun:
                    time.sleep(1)  # for the answer to be sent
                    return

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
def served(file: Path, port: int) -> Iterator[ReportServer]:
    """Serve a file on 127.0.0.1, or ::1 where there is no other, until the block ends; port 0: any.

    Raises UserError where the port is taken.
    """
    server = _bound(port, file)
    threading.Thread(target=server.serve_forever, name="report server", daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def _bound(port: int, file: Path) -> ReportServer:
    try:
        return ReportServer("127.0.0.1", port, file)
    except OSError as error:
        if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            raise _not_bound(port, error) from None
    try:
        return ReportServer("::1", port, file)
    except OSError as error:
        raise _not_bound(port, error) from None


def _not_bound(port: int, error: OSError) -> UserError:
    used = error.errno == errno.EADDRINUSE
    why = "another program has it" if used else os.strerror(error.errno or 0)
    return UserError(f"--serve cannot have port {port}: {why}; name another, or none for any free")
