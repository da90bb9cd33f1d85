"""The server of the report: real sockets, as a browser, a stranger and a bad client use it."""

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from runner.base.errors import UserError
from runner.serve import report_server
from runner.serve.report_server import FIRST, MOST_CONNECTIONS, REQUEST_BYTES, ReportServer, served


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ReportServer]:
    (tmp_path / "other.html").write_text("secret")
    with served(tmp_path / "report.html", 0) as one:
        yield one


def asked(
    server: ReportServer, path: str | None = None, method: str = "GET", **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request(method, f"/{server.token}/" if path is None else path, headers=headers)
    answer = connection.getresponse()
    return answer, answer.read()


def said(server: ReportServer, words: bytes) -> bytes:
    """What it answers to these bytes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        answer = b""
        with suppress(OSError):  # where it is closed before all was sent
            connection.sendall(words)
            connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(1 << 16):
                answer += chunk
    return answer


def test_the_newest_file_is_served_and_a_page_before_there_is_one(
    server: ReportServer, tmp_path: Path
) -> None:
    answer, body = asked(server)
    assert answer.status == 200
    assert FIRST in body.decode()
    for text in ("<p>one</p>", "<p>two</p>"):
        (tmp_path / "report.html").write_text(text)
        assert asked(server)[1] == text.encode()
    answer, body = asked(server, method="HEAD")
    assert (answer.headers["Content-Length"], body) == ("10", b"")


def test_the_page_goes_to_nobody_else(server: ReportServer) -> None:
    answer, _ = asked(server)
    assert answer.headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "Server" not in answer.headers


def test_only_this_machine_can_reach_it(server: ReportServer) -> None:
    assert server.server_address[0] in ("127.0.0.1", "::1")
    assert len(server.token) >= 32


@pytest.mark.parametrize(
    "path", ["/", "/x/", "/{token}", "/{token}/other.html", "/{token}/../", "/{token}x/", "//", "é"]
)
def test_every_other_address_is_not_found(server: ReportServer, path: str) -> None:
    line = f"GET {path.format(token=server.token)} HTTP/1.0\r\nHost: localhost\r\n\r\n"
    answer = said(server, line.encode())
    assert answer.startswith(b"HTTP/1.0 404")
    assert b"secret" not in answer


@pytest.mark.parametrize("host", ["example.org", "localhost.example.org", "127.0.0.1:x", ""])
def test_another_hosts_name_is_refused(server: ReportServer, host: str) -> None:
    assert asked(server, Host=host)[0].status == 421


def test_two_hosts_or_none_are_refused(server: ReportServer) -> None:
    for hosts in (b"", b"Host: localhost\r\nHost: localhost\r\n"):
        line = f"GET /{server.token}/ HTTP/1.0\r\n".encode() + hosts + b"\r\n"
        assert said(server, line).startswith(b"HTTP/1.0 421")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "X"])
def test_only_get_and_head(server: ReportServer, method: str) -> None:
    assert asked(server, method=method)[0].status == 405


def test_words_of_a_request_are_not_repeated(server: ReportServer) -> None:
    assert b"alert" not in said(server, b"<script>alert(1)</script>\r\n\r\n")


def test_a_request_without_end_is_cut(server: ReportServer) -> None:
    begun = time.monotonic()
    said(server, b"GET /" + b"x" * (REQUEST_BYTES * 4))
    said(server, b"GET / HTTP/1.0\r\n" + b"A: b\r\n" * REQUEST_BYTES)
    assert time.monotonic() - begun < 60
    assert asked(server)[0].status == 200


def test_a_slow_request_ends(server: ReportServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_server, "REQUEST_S", 0.3)
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as slow:
        with suppress(OSError):
            for _ in range(200):
                slow.sendall(b"G")
                time.sleep(0.02)
        with suppress(OSError):
            assert slow.recv(100) == b""


def test_more_connections_than_there_may_be_are_closed(server: ReportServer) -> None:
    with ExitStack() as stack:
        for _ in range(MOST_CONNECTIONS):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        time.sleep(0.5)
        more = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        with more, suppress(OSError):
            assert more.recv(1) == b""
    time.sleep(0.5)
    assert asked(server)[0].status == 200


def test_a_port_in_use_is_a_sentence(server: ReportServer, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"--serve cannot have port {server.port}: another"):
        served(tmp_path / "x", server.port).__enter__()


def test_it_waits_for_a_reader_and_for_nobody_else(server: ReportServer) -> None:
    begun = time.monotonic()
    server.last()
    assert time.monotonic() - begun < 8
    asked(server)
    threading.Timer(0.5, asked, (server,)).start()
    server.last()
    assert time.monotonic() - begun < 60
