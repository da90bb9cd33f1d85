"""fetch.py and unpack.py: a download that is cut, resumed, wrong, refused, or too large."""

from __future__ import annotations

import bz2
import errno
import gzip
import hashlib
import http.server
import io
import lzma
import os
import random
import shutil
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from node import fetch
from node.dataset import unpack
from node.program_output import human
from tests.node import run

DATA = random.Random(1).randbytes(3_000_000)
SHA256 = hashlib.sha256(DATA).hexdigest()
MD5 = hashlib.md5(DATA).hexdigest()


class Site:
    """A web server with one file, and the faults that a test asks for."""

    def __init__(self) -> None:
        self.data = DATA
        self.etag = '"1"'
        self.knows_ranges = True
        self.cut_after: list[int] = []  # bytes after which each answer's connection breaks
        self.statuses: list[int] = []  # to answer with, before anything else
        self.asked: list[str | None] = []  # the Range of each request
        self.sent = 0
        self.authorization = ""
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                site.asked.append(self.headers.get("Range"))
                site.authorization = self.headers.get("Authorization", "")
                if site.statuses:
                    self.send_error(site.statuses.pop(0))
                    return
                begin = 0
                span = self.headers.get("Range", "")
                condition = self.headers.get("If-Range", site.etag)
                if span and site.knows_ranges and condition == site.etag:
                    begin = int(span.split("=")[1].rstrip("-"))
                    if begin >= len(site.data):
                        self.send_response(416)
                        self.send_header("Content-Range", f"bytes */{len(site.data)}")
                        self.end_headers()
                        return
                    self.send_response(206)
                    total = len(site.data)
                    self.send_header("Content-Range", f"bytes {begin}-{total - 1}/{total}")
                else:
                    self.send_response(200)
                if site.etag:
                    self.send_header("ETag", site.etag)
                self.send_header("Content-Length", str(len(site.data) - begin))
                self.end_headers()
                rest = site.data[begin:]
                if site.cut_after:
                    rest = rest[: site.cut_after.pop(0)]
                self.wfile.write(rest)
                site.sent += len(rest)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/corpus.bin"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.server.shutdown()
    made.server.server_close()


def download(site: Site, folder: Path, **options: Any) -> fetch.Fetched:
    options.setdefault("wait", lambda seconds: None)
    return fetch.Download(site.address, str(folder / "corpus.bin"), **options).run()


def test_a_whole_file_comes_in_one_request(site: Site, tmp_path: Path) -> None:
    got = download(site, tmp_path, sha256=SHA256, md5=MD5)
    assert got == (len(DATA), 0, SHA256)
    assert (tmp_path / "corpus.bin").read_bytes() == DATA
    assert site.asked == [None]
    assert os.listdir(tmp_path) == ["corpus.bin"]


def test_a_file_that_is_there_is_checked_and_not_asked_for(site: Site, tmp_path: Path) -> None:
    download(site, tmp_path)
    got = download(site, tmp_path, sha256=SHA256)
    assert got == (0, len(DATA), SHA256)
    assert len(site.asked) == 1


def test_a_connection_that_breaks_is_taken_up_where_it_broke(site: Site, tmp_path: Path) -> None:
    site.cut_after = [1_000_000, 500_000]
    got = download(site, tmp_path, sha256=SHA256)
    assert site.asked == [None, "bytes=1000000-", "bytes=1500000-"]
    assert got.received == site.sent == len(DATA)


def test_the_next_run_goes_on_from_there(site: Site, tmp_path: Path) -> None:
    site.cut_after = [1_200_000, *[0] * 20]
    with pytest.raises(fetch.FetchError, match=r"it goes on from 1\.1 MiB"):
        download(site, tmp_path)
    site.cut_after = []
    before = site.sent
    got = download(site, tmp_path)
    assert (got.received, got.resumed) == (1_800_000, 1_200_000)
    assert site.sent - before == 1_800_000
    assert (tmp_path / "corpus.bin").read_bytes() == DATA


def test_two_versions_of_a_file_are_never_mixed(site: Site, tmp_path: Path) -> None:
    site.cut_after = [1_200_000, *[0] * 20]
    with pytest.raises(fetch.FetchError):
        download(site, tmp_path)
    site.cut_after = []
    site.data, site.etag = DATA[::-1], '"2"'
    download(site, tmp_path)
    assert (tmp_path / "corpus.bin").read_bytes() == DATA[::-1]


@pytest.mark.parametrize("sha256", ["", SHA256])
def test_without_a_version_only_a_checksum_allows_to_resume(
    site: Site, tmp_path: Path, sha256: str
) -> None:
    site.etag = ""
    site.cut_after = [1_200_000, *[0] * 20]
    with pytest.raises(fetch.FetchError):
        download(site, tmp_path, sha256=sha256)
    site.cut_after = []
    got = download(site, tmp_path, sha256=sha256)
    assert got.received == (1_800_000 if sha256 else 3_000_000)


def test_a_server_that_knows_no_ranges_is_asked_for_the_whole(site: Site, tmp_path: Path) -> None:
    site.knows_ranges = False
    site.cut_after = [1_200_000]
    assert download(site, tmp_path, sha256=SHA256).received == 4_200_000


def test_a_part_that_is_whole_already_is_taken(site: Site, tmp_path: Path) -> None:
    """416: the run before was ended between the last byte and the checksum."""
    (tmp_path / "corpus.bin.part").write_bytes(DATA)
    assert download(site, tmp_path, sha256=SHA256) == (0, len(DATA), SHA256)
    assert site.asked == [f"bytes={len(DATA)}-"]


def test_a_part_that_is_too_long_is_begun_again(site: Site, tmp_path: Path) -> None:
    (tmp_path / "corpus.bin.part").write_bytes(DATA + b"more")
    assert download(site, tmp_path, sha256=SHA256).received == len(DATA)


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_a_wrong_checksum_removes_the_file_and_names_it(
    site: Site, tmp_path: Path, kind: str
) -> None:
    with pytest.raises(fetch.FetchError) as error:
        download(site, tmp_path, **{kind: "0" * 32}, why="the catalogue")
    words = str(error.value)
    assert words.startswith(f"corpus.bin from {site.address} has {kind} ")
    assert f"not {'0' * 32} as the catalogue says; it was removed" in words
    assert "\n" not in words
    assert os.listdir(tmp_path) == []


def test_what_may_pass_is_tried_again_with_longer_waits(site: Site, tmp_path: Path) -> None:
    waits: list[float] = []
    site.statuses = [503, 500, 429]
    download(site, tmp_path, wait=waits.append)
    assert waits == [1, 2, 4]


def test_what_lasts_is_said_at_once(site: Site, tmp_path: Path) -> None:
    site.statuses = [404]
    with pytest.raises(fetch.FetchError, match="the server says 404 Not Found; correct the addr"):
        download(site, tmp_path)
    assert len(site.asked) == 1


def test_a_server_that_dies_midway_and_stays_away(site: Site, tmp_path: Path) -> None:
    site.cut_after = [1_000_000]

    def stop(seconds: float) -> None:
        site.server.shutdown()
        site.server.server_close()

    with pytest.raises(fetch.FetchError) as error:
        download(site, tmp_path, wait=stop)
    assert "Connection refused; check the node's way to it" in str(error.value)
    assert (tmp_path / "corpus.bin.part").stat().st_size == 1_000_000


def test_user_and_password_go_to_the_server_and_into_no_message(site: Site, tmp_path: Path) -> None:
    address = site.address.replace("//", "//me:my%40word@")
    site.statuses = [403]
    with pytest.raises(fetch.FetchError) as error:
        fetch.Download(address, str(tmp_path / "x")).run()
    assert f"cannot download {site.address}: the server says 403" in str(error.value)
    assert site.authorization == "Basic bWU6bXlAd29yZA=="


def test_a_host_without_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "TRIES", 1)
    target = str(tmp_path / "x")
    source = "https://user:secret@no-such-host.invalid/x?token=secret"
    with pytest.raises(fetch.FetchError) as error:
        fetch.Download(source, target, wait=lambda seconds: None).run()
    words = str(error.value)
    assert words.startswith("cannot download https://no-such-host.invalid/x: ")
    assert "secret" not in words


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_a_folder_in_the_place_of_a_server(tmp_path: Path, form: str) -> None:
    source = tmp_path / "mirror file.bin"
    source.write_bytes(DATA)
    written = form.format(str(source).replace(" ", "%20") if "file:" in form else source)
    target = tmp_path / "x"
    got = fetch.Download(written, str(target), sha256=SHA256).run()
    assert (got.received, target.read_bytes()) == (len(DATA), DATA)
    with pytest.raises(fetch.FetchError, match="No such file or directory; bring the file there"):
        fetch.Download(written + ".gone", str(tmp_path / "y")).run()


def test_a_disk_that_is_too_small_is_said_before_a_byte_is_written(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 1 << 20})
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(fetch.FetchError) as error:
        download(site, tmp_path)
    assert "2.9 MiB more are needed and 1.0 MiB are free; free 1.9 MiB, or" in str(error.value)
    assert not (tmp_path / "corpus.bin").exists()


def test_a_disk_that_others_fill_on_the_way(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is a stand-in: a file that takes 1 MB and then says ENOSPC."""
    real = open

    class Full:
        def __init__(self, file: Any) -> None:
            self.file, self.left = file, 1_000_000

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def write(self, data: bytes) -> int:
            if not self.left:
                raise OSError(errno.ENOSPC, "No space left on device")
            written: int = self.file.write(data[: self.left])
            self.left -= written
            return written

    def fake(path: str, mode: str = "r", *args: Any, **options: Any) -> Any:
        file = real(path, mode, *args, **options)
        return Full(file) if mode == "ab" else file

    monkeypatch.setattr(fetch, "open", fake, raising=False)
    with pytest.raises(fetch.FetchError, match=r"free\) while writing corpus\.bin: 1\.9 MiB more"):
        download(site, tmp_path, sha256=SHA256)
    monkeypatch.undo()
    assert download(site, tmp_path, sha256=SHA256).received == 2_000_000


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1 << 50, "1024.0 TiB"),
    ],
)
def test_sizes_as_people_say_them(size: int, words: str) -> None:
    assert human(size) == words


# --- the program, as python_env and conda run it ----------------------------------------


def spec(site: Site, path: Path, **more: Any) -> dict[str, Any]:
    return {"url": site.address, "path": str(path), "sha256": SHA256, "mirrors": {}, **more}


def test_brought_once(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    assert fetch.bring(spec(site, path)) == {"changed": True}
    assert path.read_bytes() == DATA
    assert fetch.bring(spec(site, path)) == {"changed": False}
    assert fetch.bring(spec(site, path, sha256="", md5=MD5)) == {"changed": False}
    assert site.asked == [None]
    assert os.listdir(path.parent) == ["file"]


def test_a_file_without_a_stated_checksum_is_compared_with_its_first_download(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, record = tmp_path / "wheels" / "toy.whl", tmp_path / "wheels" / "recorded.json"
    site.address = site.address.replace("://", "://user:pa55word@")
    asked = spec(site, path, sha256="", record=str(record), key="sha256 of toy's pin set x, wheels")
    assert fetch.bring(asked) == {"changed": True}
    said = f"its SHA-256, {SHA256}, is compared from now on: state it as sha256 of toy's pin set x"
    assert said in capsys.readouterr().err
    assert "pa55word" not in record.read_text()
    assert fetch.bring(asked) == {"changed": False}
    assert capsys.readouterr().err == ""
    path.unlink()
    site.data, site.etag = b"another file", '"2"'
    with pytest.raises(fetch.FetchError) as error:
        fetch.bring(asked)
    assert f"not {SHA256} as its first download, recorded in {record}, says" in str(error.value)
    assert "state the right one as sha256 of toy's pin set x, wheels, or ask who" in str(
        error.value
    )
    assert not path.exists()
    path.write_bytes(b"left there by somebody")  # a file that is there is no better
    with pytest.raises(fetch.FetchError, match="as its first download"):
        fetch.bring(asked)


def test_a_file_without_a_stated_checksum_is_the_one_that_another_node_has(
    site: Site, tmp_path: Path
) -> None:
    record = str(tmp_path / "recorded.json")
    other = {"sha256": "", "record": record, "key": "k", "recorded": "0" * 64}
    with pytest.raises(fetch.FetchError, match=r"not 000.* as another node, which has it, says"):
        fetch.bring(spec(site, tmp_path / "a.whl", **other))
    assert fetch.bring(spec(site, tmp_path / "a.whl", **{**other, "recorded": SHA256}))["changed"]


def test_no_address_or_path_is_said_with_its_escapes(tmp_path: Path) -> None:
    name = "\x1b]0;owned\x07\x1b[2J.whl"
    for source in (f"file:///nowhere/{name}", f"/nowhere/{name}", str(tmp_path)):
        with pytest.raises(fetch.FetchError) as error:
            fetch.Download(source, str(tmp_path / "x")).run()
        assert str(error.value).isprintable()


def test_what_was_there_of_another_file_is_given_up(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(b"x" * 1000)
    assert fetch.bring(spec(site, tmp_path / "file"))["changed"]
    assert site.asked == ["bytes=1000-", None]
    (tmp_path / "file").write_bytes(b"of an older pin")
    assert fetch.bring(spec(site, tmp_path / "file"))["changed"]
    assert (tmp_path / "file").read_bytes() == DATA


def test_a_folder_may_stand_for_the_address(site: Site, tmp_path: Path) -> None:
    (tmp_path / "pub").mkdir()
    (tmp_path / "pub" / "file").write_bytes(DATA)
    mirrors = {"https://example.org/": f"file://{tmp_path}/pub/"}
    given = spec(site, tmp_path / "x", url="https://example.org/file", mirrors=mirrors)
    assert fetch.bring(given) == {"changed": True}


def test_a_wrong_checksum_is_one_line(site: Site, tmp_path: Path) -> None:
    given = spec(site, tmp_path / "file", sha256="00")
    ran = run("fetch:bring", given, {"no_proxy": "127.0.0.1"})
    assert ran.code == 1
    assert f"has sha256 {SHA256}, not 00 as its pin says; it was removed" in ran.words
    assert "\n" not in ran.words
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_said(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file.part").symlink_to("/dev/full")
    with pytest.raises(
        fetch.FetchError,
        match=rf"^the disk is full \({tmp_path}, mounted at /\S*, has .* free\) while writing",
    ):
        fetch.bring(spec(site, tmp_path / "file"))


# --- archives -------------------------------------------------------------------------------------


def zipped(data: bytes) -> bytes:
    box = io.BytesIO()
    with zipfile.ZipFile(box, "w") as file:
        file.writestr("folder/x", data)
    return box.getvalue()


def tarred(data: bytes) -> bytes:
    box = io.BytesIO()
    with tarfile.open(fileobj=box, mode="w:xz") as file:
        entry = tarfile.TarInfo("folder/x")
        entry.size = len(data)
        file.addfile(entry, io.BytesIO(data))
    return box.getvalue()


PACK: dict[str, Callable[[bytes], bytes]] = {
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "gz": gzip.compress,
    "zip": zipped,
    "tar": tarred,
}


@pytest.mark.parametrize("kind", unpack.KINDS)
def test_decompression(tmp_path: Path, kind: str) -> None:
    archive, target = tmp_path / "archive", tmp_path / "x"
    archive.write_bytes(PACK[kind](DATA))
    assert unpack.unpack(str(archive), str(target), kind, "folder/x") == len(DATA)
    assert target.read_bytes() == DATA


@pytest.mark.parametrize("kind", unpack.KINDS)
@pytest.mark.parametrize("fault", ["cut", "foreign"])
def test_a_damaged_archive_is_removed(tmp_path: Path, kind: str, fault: str) -> None:
    archive, target = tmp_path / "archive", tmp_path / "x"
    archive.write_bytes(PACK[kind](DATA)[:1_500_000] if fault == "cut" else b"<html>" * 1000)
    with pytest.raises(fetch.FetchError, match=r"is damaged .* it was removed, run this again"):
        unpack.unpack(str(archive), str(target), kind, "folder/x")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_disk_that_is_full_before_the_text_is_out_keeps_the_archive(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.write_bytes(PACK["xz"](DATA))
    (tmp_path / "x.part").symlink_to("/dev/full")
    with pytest.raises(fetch.FetchError, match=r"^the disk is full .* while writing x; free"):
        unpack.unpack(str(archive), str(tmp_path / "x"), "xz", "x")
    assert os.listdir(tmp_path) == ["archive"]


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_member_that_is_not_there(tmp_path: Path, kind: str) -> None:
    archive = tmp_path / "archive"
    archive.write_bytes(PACK[kind](DATA))
    with pytest.raises(fetch.FetchError, match="holds no folder/y; correct the catalogue"):
        unpack.unpack(str(archive), str(tmp_path / "x"), kind, "folder/y")
    assert os.listdir(tmp_path) == ["archive"]
