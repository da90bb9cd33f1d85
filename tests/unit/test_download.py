"""roles/python_env/files/download.py against a real HTTP server of this machine."""

from __future__ import annotations

import hashlib
import http.server
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roles.python_env.files import download

CONTENT = bytes(range(256)) * 4096
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """A file at /file, with ranges; `cut` ends the first answers after so many bytes."""

    cut: list[int]
    asked: list[str | None]
    ranges = True


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        if self.path != "/file":
            self.send_error(404)
            return
        match = re.fullmatch(r"bytes=(\d+)-", wanted or "") if self.server.ranges else None
        start = int(match.group(1)) if match else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        body = CONTENT[start:]
        self.send_response(206 if match else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.server.cut.pop(0)] if self.server.cut else body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("time.sleep", lambda _: None)
    with Server(("127.0.0.1", 0), Handler) as made:
        made.cut, made.asked = [], []
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def spec(server: Server, path: Path, **more: Any) -> dict[str, Any]:
    url = f"http://127.0.0.1:{server.server_port}/file"
    given = {"url": url, "path": str(path), "sha256": SHA256, "mirrors": {}, "check": False}
    return {**given, **more}


def test_brought_once(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    assert download.download(spec(server, path, check=True)) == {"changed": True, "sha256": SHA256}
    assert not path.parent.exists()
    assert download.download(spec(server, path)) == {"changed": True, "sha256": SHA256}
    assert path.read_bytes() == CONTENT
    assert download.download(spec(server, path)) == {"changed": False, "sha256": SHA256}
    assert server.asked == [None]
    assert os.listdir(path.parent) == ["file"]


def test_goes_on_where_a_connection_broke_off(server: Server, tmp_path: Path) -> None:
    server.cut = [100_000, 200_000]
    download.download(spec(server, tmp_path / "file"))
    assert server.asked == [None, "bytes=100000-", "bytes=300000-"]


def test_goes_on_where_the_last_run_broke_off(server: Server, tmp_path: Path) -> None:
    server.cut = [100_000] * 3
    with pytest.raises(download.DownloadError, match="the next run goes on from 0 MiB"):
        download.download(spec(server, tmp_path / "file"))
    assert download.download(spec(server, tmp_path / "file"))["changed"]
    assert server.asked[-1] == "bytes=300000-"


def test_what_was_there_of_another_file_is_given_up(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(b"x" * 1000)
    assert download.download(spec(server, tmp_path / "file"))["sha256"] == SHA256
    assert server.asked == ["bytes=1000-", None]


def test_a_server_without_ranges_gives_it_all_again(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / "file.part").write_bytes(b"x" * 1000)
    assert download.download(spec(server, tmp_path / "file"))["sha256"] == SHA256


def test_a_wrong_checksum_puts_nothing_in_place(server: Server, tmp_path: Path) -> None:
    with pytest.raises(download.DownloadError, match=f"has sha256 {SHA256}, not 00") as raised:
        download.download(spec(server, tmp_path / "file", sha256="00"))
    assert "correct the checksum" in str(raised.value)
    assert os.listdir(tmp_path) == []


def test_no_such_address_is_no_matter_of_trying_again(server: Server, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{server.server_port}/other"
    with pytest.raises(download.DownloadError, match=r"answers 404 .*; see the address, or name a"):
        download.download(spec(server, tmp_path / "file", url=url))
    assert len(server.asked) == 1


def test_a_folder_may_stand_for_the_address(server: Server, tmp_path: Path) -> None:
    (tmp_path / "pub").mkdir()
    (tmp_path / "pub" / "file").write_bytes(CONTENT)
    for instead in (f"{tmp_path}/pub/", f"file://{tmp_path}/pub/"):
        asked = spec(server, tmp_path / f"{len(instead)}", url="https://example.org/file")
        done = download.download({**asked, "mirrors": {"https://example.org/": instead}})
        assert done == {"changed": True, "sha256": SHA256}
    absent = spec(server, tmp_path / "x", url="https://example.org/other")
    with pytest.raises(download.DownloadError, match=f"^{tmp_path}/pub/other cannot be downloaded"):
        download.download({**absent, "mirrors": {"https://example.org/": f"{tmp_path}/pub/"}})


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_said(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").symlink_to("/dev/full")
    with pytest.raises(download.DownloadError, match=f"^the disk of {tmp_path} is full after"):
        download.download(spec(server, tmp_path / "file"))
