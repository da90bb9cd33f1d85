"""Servers, archives and files that are not what they should be: one sentence each."""

import io
import json
import lzma
import socket
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from node import apex, conda, fetch, image
from node.answer import ProgramError
from node.checksum import sha256
from node.dataset import tokenize_text, unpack
from node.env.environment import Environment
from node.env.packages import origin

DEEP = "[" * 100_000
SUM = "0" * 64


class Server:
    """Sends each who asks the same bytes; `drip` seconds between them."""

    def __init__(self) -> None:
        self.answer, self.drip, self.times = b"", 0.0, 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.listening.getsockname()[1]}/corpus.bin"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                connection = self.listening.accept()[0]
            except OSError:
                return
            self.times += 1
            threading.Thread(target=self.give, args=(connection,), daemon=True).start()

    def give(self, connection: socket.socket) -> None:
        try:
            connection.recv(65536)
            connection.sendall(self.answer)
            while self.drip:
                connection.sendall(b"x")
                time.sleep(self.drip)
        except OSError:
            pass
        connection.close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.drip = 0.0
    made.listening.close()


def download(server: Server, folder: Path, **options: Any) -> fetch.Fetched:
    options.setdefault("wait", lambda seconds: None)
    return fetch.Download(server.address, str(folder / "corpus.bin"), **options).run()


def head(*lines: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", "Connection: close", *lines, "", ""]).encode(
        "latin-1"
    )


@pytest.mark.parametrize("length", ["\xb2", "9" * 5_000, "-5", "abc", "1e9", ""])
def test_a_size_that_is_none_is_none(server: Server, tmp_path: Path, length: str) -> None:
    server.answer = head(f"Content-Length: {length}") + b"text"
    assert download(server, tmp_path).received == 4


@pytest.mark.parametrize(
    ("status", "lines", "said"),
    [
        ("503 busy", ["Retry-After: \xb2"], "the server says 503 busy"),
        ("503 busy", [f"Retry-After: {'9' * 5_000}"], "the server says 503 busy"),
        ("404 \x1b]0;gone\x07no\x1b[2J", [], "the server says 404 no;"),
        ("302 there", ["Location: http://[x/"], "correct the address"),
        ("206 part", ["Content-Range: bytes 3-9/\xb2"], "another part than asked for"),
    ],
)
def test_an_odd_header_is_one_printable_sentence(
    server: Server, tmp_path: Path, status: str, lines: list[str], said: str
) -> None:
    (tmp_path / "corpus.bin.part").write_bytes(b"abc")
    server.answer = head(*lines, status=status)
    with pytest.raises(fetch.FetchError, match=said) as caught:
        download(server, tmp_path, sha256=SUM)
    assert str(caught.value).isprintable()


def test_more_than_was_said_is_not_kept(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part that claims to end a file of 10 bytes, and goes on."""
    (tmp_path / "corpus.bin.part").write_bytes(b"abc")
    lines = ["Content-Range: bytes 3-9/10", "Content-Length: 40000000"]
    server.answer = head(*lines, status="206 part") + b"x" * 40_000_000
    sizes = []

    def restart(self: fetch.Download) -> None:
        sizes.append((tmp_path / "corpus.bin.part").stat().st_size)

    monkeypatch.setattr(fetch.Download, "_restart", restart)
    with pytest.raises(fetch.FetchError):
        download(server, tmp_path, sha256=SUM)
    assert sizes[0] < 4 << 20


def test_a_file_without_a_stated_size_has_a_limit(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "MOST_UNSAID", 1 << 20, raising=False)
    server.answer = head() + b"x" * (4 << 20)
    with pytest.raises(fetch.FetchError, match=r"more than 1\.0 MiB, and no stated size"):
        download(server, tmp_path)
    assert (tmp_path / "corpus.bin.part").stat().st_size <= 1 << 20


def test_who_drips_bytes_is_left(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte a second kept a node for ever: thirty seconds without one were the only limit."""
    monkeypatch.setattr(fetch, "SLOW_S", 0.5, raising=False)
    server.answer, server.drip = head("Content-Length: 400"), 0.05
    begun = time.monotonic()
    with pytest.raises(fetch.FetchError, match=r"less than 1\.0 MiB in 0 s came"):
        download(server, tmp_path)
    assert time.monotonic() - begun < 60


@pytest.mark.parametrize(
    "about",
    ["[]", "3", DEEP, '{"source": "SOURCE"}', '{"source": "SOURCE", "validator": "a\\nX-Evil: 1"}'],
)
def test_the_record_beside_a_part_is_believed_if_it_is_one(
    server: Server, tmp_path: Path, about: str
) -> None:
    (tmp_path / "corpus.bin.part").write_bytes(b"abc")
    text = about.replace("SOURCE", server.address)
    (tmp_path / "corpus.bin.part.json").write_text(text)
    server.answer = head("Content-Length: 4") + b"text"
    download(server, tmp_path)
    assert (tmp_path / "corpus.bin").read_bytes() == b"text"


def test_a_mirror_that_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(fetch.FetchError, match="is not a file"):
        fetch.Download("file:///dev/zero", str(tmp_path / "x")).run()


def long_names(count: int) -> bytes:
    """A tar of headers that each announce the name of the next one."""
    entry = tarfile.TarInfo("x")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, 1
    return (entry.tobuf(tarfile.GNU_FORMAT) + b"y" + bytes(511)) * count + bytes(1024)


def locked_zip() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as box:
        box.writestr("x", b"text")
    data = bytearray(stream.getvalue())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


@pytest.mark.parametrize(
    ("kind", "content", "said"),
    [
        ("xz", lambda: lzma.compress(bytes(80_000_000)), "holds more than"),
        ("tar", lambda: long_names(3_000), "is damaged"),
        ("zip", locked_zip, "is damaged"),
    ],
)
def test_an_archive_that_would_fill_or_break_is_refused(
    tmp_path: Path,
    kind: str,
    content: Callable[[], bytes],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unpack, "SLACK", 1 << 20, raising=False)
    (tmp_path / "archive").write_bytes(content())
    with pytest.raises(fetch.FetchError, match=said):
        unpack.unpack(str(tmp_path / "archive"), str(tmp_path / "out"), kind, "x")
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("record", ["[3]", "3", DEEP, '{"a": 3}', '{"a": {"stamp": {}}}'])
def test_records_that_are_none_are_read_as_none(tmp_path: Path, record: str) -> None:
    for name in ("trainbench.json", "image.json", "wheel.json", "direct_url.json"):
        (tmp_path / name).write_text(record)
    assert conda.recorded({"prefix": str(tmp_path)}) == {}
    assert image.recorded(str(tmp_path / "image.json")).get("image", "") == ""
    assert apex.wheel({"folder": str(tmp_path)}, {}) == {}
    assert origin(str(tmp_path)) == ""


def test_a_wheel_of_another_name_is_none(tmp_path: Path) -> None:
    """A record that came from another node named a file outside."""
    victim = tmp_path / "victim.whl"
    victim.write_bytes(b"x")
    folder = tmp_path / "wheels"
    folder.mkdir()
    record = {"name": "../victim.whl", "sha256": sha256(str(victim)), "key": {}}
    (folder / "wheel.json").write_text(json.dumps(record))
    assert apex.wheel({"folder": str(folder)}, {}) == {}


def test_a_record_of_an_environment_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "env.json").write_text(DEEP)
    with pytest.raises(ProgramError, match=r"env\.json is nested too deep"):
        Environment({"steps": [], "path": str(tmp_path / "env")})


@pytest.mark.parametrize("line", [DEEP, '{"text": 3}', '{"text": [1]}', "[]", "3"])
def test_a_line_of_text_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "x.jsonl").write_text(line + "\n")
    with pytest.raises(tokenize_text.TextError, match=r"line 1 of .*x\.jsonl is not a JSON object"):
        list(tokenize_text.documents([str(tmp_path / "x.jsonl")], "text"))
