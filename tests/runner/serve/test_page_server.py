"""The server of the live page: real sockets, as a browser, a stranger and a bad client use it."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from runner.base.errors import UserError
from runner.serve import page_server
from runner.serve.live_page import waiting
from runner.serve.page_server import MOST_CONNECTIONS, REQUEST_BYTES, PageServer, listening
from runner.serve.renderer import Renderer
from runner.serve.responses import Content

RUN = "a-0123/repeat1/attempt1"
LOG = f"{RUN}/nodes/0000-n1/launcher.log"
HOSTILE = b"<script>alert(1)</script>\x1b[2J\xff\n"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[PageServer]:
    """A server whose report is the page that waits for one, for none is ever made."""
    never = threading.Event()

    def make(number: int) -> bytes:
        never.wait(60)
        raise ValueError

    (tmp_path / LOG).parent.mkdir(parents=True)
    (tmp_path / LOG).write_bytes(HOSTILE)
    renderer = Renderer(make, lambda: 0, waiting("a <b>").encode())
    with listening(0, Content(tmp_path, renderer, lambda: "\x1b[2J<b>")) as server:
        yield server
    never.set()
    renderer.close()


def asked(
    server: PageServer, name: str = "", method: str = "GET", **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request(method, f"/{server.token}/{name}", headers=headers)
    answer = connection.getresponse()
    return answer, answer.read()


def said(server: PageServer, words: bytes) -> bytes:
    """What it answers to these bytes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        answer = b""
        with suppress(OSError):  # where it is closed before all was sent
            connection.sendall(words)
            connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(1 << 16):
                answer += chunk
    return answer


def test_only_this_machine_can_reach_it(served: PageServer) -> None:
    assert served.server_address[0] in ("127.0.0.1", "::1")
    assert served.address == f"http://127.0.0.1:{served.port}/{served.token}/"
    assert len(served.token) >= 32


def test_no_two_servers_have_one_token(served: PageServer) -> None:
    with listening(0, served.content) as other:
        assert other.token != served.token
        assert asked(other, f"../{served.token}/")[0].status == 404


def test_the_page_goes_to_nobody_else_and_asks_nobody_else(served: PageServer) -> None:
    answer, body = asked(served)
    assert answer.status == 200
    policy = answer.headers["Content-Security-Policy"]
    for rule in ("default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'"):
        assert rule in policy.split("; ")
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "Server" not in answer.headers
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert b"a &lt;b&gt;" in body


def test_how_far_it_is_comes_as_text_that_a_terminal_may_have(served: PageServer) -> None:
    answer, body = asked(served, "now")
    assert answer.headers["Content-Type"] == "application/json"
    assert json.loads(body)["words"] == "<b>"


def test_a_log_is_text_whatever_it_holds(served: PageServer) -> None:
    answer, body = asked(served, LOG)
    assert body == HOSTILE
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Security-Policy"].endswith("sandbox")


def test_a_link_leads_nowhere(served: PageServer, tmp_path: Path) -> None:
    secret = tmp_path.parent / "secret"
    secret.write_text("x")
    log = tmp_path / LOG
    log.unlink()
    log.symlink_to(secret)
    assert asked(served, LOG)[0].status == 404
    log.unlink()
    log.parent.rmdir()
    outside = tmp_path.parent / "outside"
    outside.mkdir()
    (outside / "launcher.log").write_text("x")
    log.parent.symlink_to(outside)
    assert asked(served, LOG)[0].status == 404


def test_a_folder_has_no_list(served: PageServer) -> None:
    for name in (RUN, f"{RUN}/", f"{RUN}/nodes/", f"{RUN}/nodes/0000-n1/"):
        assert asked(served, name)[0].status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
def test_nothing_on_it_changes_anything(served: PageServer, method: str) -> None:
    answer, body = asked(served, method=method)
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, HEAD"
    assert served.token.encode() not in body


def test_a_head_has_no_body(served: PageServer) -> None:
    answer, body = asked(served, method="HEAD")
    assert (answer.status, body) == (200, b"")
    assert int(answer.headers["Content-Length"]) > 1000


def test_a_page_counts_as_sent_once_all_of_it_is(tmp_path: Path) -> None:
    """Else bench would end while its last report is on its way."""
    size = 32 << 20  # more than the buffers of a connection hold
    renderer = Renderer(lambda number: b"x" * size, lambda: 0, b"wait")
    sent: list[int] = []
    renderer.sent = sent.append  # type: ignore[method-assign, assignment]
    with listening(0, Content(tmp_path, renderer, str)) as server:
        while renderer.page().version == 0:
            time.sleep(0.01)
        asked(server, method="HEAD")
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        connection.request("GET", f"/{server.token}/")
        answer = connection.getresponse()
        time.sleep(0.3)
        assert sent == []
        assert len(answer.read()) == size
        until = time.monotonic() + 20
        while not sent and time.monotonic() < until:
            time.sleep(0.01)
    assert sent == [1]
    renderer.close()


def test_another_host_is_refused(served: PageServer) -> None:
    assert asked(served, Host="evil.example")[0].status == 421


@pytest.mark.parametrize(
    "words",
    [
        *(
            b"",
            b"\r\n\r\n",
            b"GET\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"\x00\xff" * 500 + b"\r\n\r\n",
        ),
        *(b"GET /" + b"x" * 100_000, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5_000 + b"\r\n"),
        b"GET / HTTP/1.1\r\nHost: " + b"x" * 70_000 + b"\r\n\r\n",
    ],
)
def test_what_is_no_request_has_no_answer_of_interest(served: PageServer, words: bytes) -> None:
    answer = said(served, words)
    assert b" 200 " not in answer.partition(b"\r\n")[0]
    assert served.token.encode() not in answer
    assert asked(served)[0].status == 200


def test_no_request_is_read_beyond_its_limit(served: PageServer) -> None:
    padded = f"GET /{served.token}/ HTTP/1.1\r\nHost: localhost\r\nA: {'x' * REQUEST_BYTES}\r\n\r\n"
    assert b"200" not in said(served, padded.encode()).partition(b"\r\n")[0]


def test_one_who_sends_nothing_is_not_waited_for(
    served: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_server, "REQUEST_S", 0.2)
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        connection.sendall(b"GET /")
        assert connection.recv(1000) == b""


def test_too_many_at_once_are_closed_and_later_ones_answered(served: PageServer) -> None:
    with ExitStack() as stack:
        for _ in range(MOST_CONNECTIONS):
            stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=20))
        more = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=20))
        assert more.recv(1000) == b""
    for _ in range(100):  # a connection's place is free once its thread has seen that it is gone
        with suppress(http.client.RemoteDisconnected, ConnectionResetError):
            assert asked(served)[0].status == 200
            return
        time.sleep(0.1)
    raise TimeoutError


def test_a_port_in_use_is_one_sentence(served: PageServer) -> None:
    with pytest.raises(UserError, match=f"--serve cannot have port {served.port}: another"):
        listening(served.port, served.content).__enter__()
