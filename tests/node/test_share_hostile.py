"""share.py against a node that holds a dataset and answers as it likes."""

import concurrent.futures
import hashlib
import http.client
import http.server
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from node import checksum, share, sharing
from node.answer import ProgramError
from node.dataset import inspection
from node.sharing import getting
from tests.node import run

PRECIOUS = b"precious\n"
EVIL = b"evil\n"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Liar(http.server.BaseHTTPRequestHandler):
    """Answer what `files` has by the path asked for; `drip` seconds between its bytes, for ever."""

    files: dict[str, bytes]
    drip: float = 0.0
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        self.send_response(204)
        self.end_headers()

    def do_GET(self) -> None:
        content = self.files.get(self.path.lstrip("/"))
        if content is None:
            self.send_error(404)
            return
        self.send_response(206)
        self.send_header("Content-Length", str(10**9 if self.drip else len(content)))
        self.end_headers()
        try:
            while self.drip:
                self.wfile.write(b"x")
                self.wfile.flush()
                time.sleep(self.drip)
            self.wfile.write(content)
        except OSError:
            self.close_connection = True


class Holder:
    """The node that lies, and the folder of one that takes from it."""

    def __init__(self, tmp_path: Path) -> None:
        self.root = tmp_path / "node" / "datasets"
        self.root.mkdir(parents=True)
        self.recorded: dict[str, list[str]] = {}
        self.victim = tmp_path / "victim" / "precious"
        self.victim.parent.mkdir()
        self.victim.write_bytes(PRECIOUS)
        self.handler: Any = type("Handler", (Liar,), {"files": {}})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def serves(self, *contents: bytes) -> None:
        self.handler.files |= {digest(content): content for content in contents}

    def manifest(self, **fields: Any) -> bytes:
        return json.dumps(
            {"prefix": "d", "recipe": {}, "bytes": {}, "sha256": {}, **fields}
        ).encode()

    def takes(self, identity: str, name: str = "d") -> str:
        """What the node that takes says; empty where it took."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.2", 0))
            mine = probe.getsockname()[1]
        spec = {
            "root": str(self.root),
            "me": "taker",
            "token": "t" * 40,
            "addresses": {"taker": "127.0.0.2", "holder": "127.0.0.1"},
            "port": mine,
            "identity": {name: identity},
            "gives": {"holder": [name]},
            "gets": {"taker": [name]},
            "recorded": self.recorded,
        }
        port = self.server.server_address[1]
        real = http.client.HTTPConnection

        def connection(host: str, _: int, **more: Any) -> Any:
            return real(host, port, **more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(http.client, "HTTPConnection", connection)
            try:
                share.exchange(spec)
            except (ProgramError, OSError) as error:
                return str(error)
        return ""

    def untouched(self) -> bool:
        others = {path.name for path in self.victim.parent.iterdir()}
        return self.victim.read_bytes() == PRECIOUS and others == {"precious"}


@pytest.fixture
def holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Holder]:
    monkeypatch.setattr(sharing, "LOST_S", 2.0)
    monkeypatch.setattr(sharing, "PAUSE_S", 0.02)
    monkeypatch.setattr(getting, "SHUN_S", 0.1)
    holder = Holder(tmp_path)
    yield holder
    holder.server.shutdown()
    holder.server.server_close()


def test_a_node_that_gives_one_dataset_pins_checksums_of_its_own_addresses_alone(
    holder: Holder,
) -> None:
    """Another dataset's file, which this node downloads one day, would be refused, or forged."""
    own, other = "https://a.example/d.bin", "https://b.example/other.gz"
    manifest = holder.manifest(
        bytes={"x": len(EVIL)},
        sha256={"x": digest(EVIL)},
        recorded={own: digest(b"1"), other: digest(EVIL)},
    )
    holder.serves(manifest, EVIL)
    holder.recorded = {"d": [own]}
    assert holder.takes(digest(manifest)) == ""
    state = json.loads((holder.root / ".state.json").read_text())
    assert state["recorded"] == {own: digest(b"1")}


@pytest.mark.parametrize(
    "name",
    [
        "../../../victim/precious",
        "a/../../../../victim/precious",
        "VICTIM",
        "../../../victim/new",
        "..",
        "a//b",
        "a\nb",
        "a\u0000b",
        "\ud800",
        "x" * 5_000,
    ],
)
@pytest.mark.parametrize("field", ["sha256", "prefix"])
def test_a_name_that_leads_out_writes_nothing(holder: Holder, name: str, field: str) -> None:
    """Issue 12, point 1: names of a holder's dataset.json were joined unchecked."""
    name = str(holder.victim) if name == "VICTIM" else name
    files = {"d.bin": digest(EVIL)}
    if field == "sha256":
        files[name] = digest(EVIL)
    manifest = holder.manifest(
        sha256=files,
        bytes=dict.fromkeys(files, len(EVIL)),
        prefix=name if field == "prefix" else "d",
    )
    holder.serves(manifest, EVIL)
    said = holder.takes(digest(manifest))
    assert "it must be a path inside its folder" in said
    assert said.isprintable()
    assert holder.untouched()
    assert not (holder.root / "d").exists()


@pytest.mark.parametrize("where", ["identity", "digest"])
def test_a_checksum_that_is_a_path_writes_nothing(holder: Holder, where: str) -> None:
    """What a node calls its dataset became a path of the node that takes, `.part` and all."""
    (holder.victim.parent / "precious.part").write_bytes(PRECIOUS)
    path = "../../../../victim/precious"
    manifest = holder.manifest(sha256={"d.bin": path}, bytes={"d.bin": 9})
    holder.serves(manifest)
    holder.handler.files |= {path: manifest, "../../../../victim/precious": manifest}
    said = holder.takes(path if where == "identity" else digest(manifest))
    assert "it must be a SHA-256 of 64 hex digits" in said
    assert (holder.victim.parent / "precious.part").read_bytes() == PRECIOUS


def test_nothing_is_written_behind_a_link(holder: Holder) -> None:
    (holder.root / "d").mkdir()
    (holder.root / "d" / "text").symlink_to(holder.victim.parent)
    (holder.root / ".state.json").write_text(json.dumps({"staged": {"d": ["text/other"]}}))
    files = {"d.bin": digest(EVIL), "text/precious": digest(EVIL)}
    manifest = holder.manifest(sha256=files, bytes=dict.fromkeys(files, len(EVIL)))
    holder.serves(manifest, EVIL)
    assert "text is a link, and setup changes nothing behind it" in holder.takes(digest(manifest))
    assert holder.untouched()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[]", "d's dataset.json is a list; it must be a mapping"),
        (b"\xff\xfe", "d's dataset.json is not JSON"),
        (b"[" * 100_000, "d's dataset.json is nested too deep"),
        (b'{"prefix": "d", "bytes": {}}', "d's dataset.json has no sha256"),
        (b'{"prefix": ["d"]}', "d's dataset.json: prefix is a list"),
        ({"bytes": {"d.bin": -1}}, "bytes.['d.bin'] is -1; it must be 0 to"),
        ({"bytes": {"d.bin": 1e300}}, "is 1e+300; it must be a whole number"),
        ({"bytes": {"d.bin": True}}, "is true; it must be a whole number"),
        ({"bytes": {"d.bin": 10**17}}, "free"),
        ({"bytes": {}}, "does not say how many bytes d.bin has"),
        ({"recorded": {"http://x": "y"}}, "it must be a SHA-256"),
        ({"recipe": 3}, "recipe is 3; it must be a mapping"),
        ({"bytes": {f"f{n}": 1 for n in range(100_001)}}, "has 100001 names, more than 100000"),
    ],
)
def test_a_manifest_that_does_not_fit_is_one_sentence(
    holder: Holder, content: Any, said: str
) -> None:
    if isinstance(content, dict):
        content = holder.manifest(**{"sha256": {"d.bin": digest(EVIL)}, **content})
    holder.serves(content)
    words = holder.takes(digest(content))
    assert said.replace(".[", "[") in words
    assert words.isprintable()
    assert len(words) < 500


def test_who_sends_more_than_was_asked_for_fills_no_disk(
    holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is said to have 5 bytes is read no further, whatever the holder sends."""
    sizes = []
    real = checksum.sha256

    def watched(path: str) -> str:
        sizes.append(os.path.getsize(path))
        return real(path)

    monkeypatch.setattr(getting, "sha256", watched)
    manifest = holder.manifest(sha256={"d.bin": digest(EVIL)}, bytes={"d.bin": len(EVIL)})
    holder.serves(manifest)
    holder.handler.files[digest(EVIL)] = b"x" * (8 << 20)
    assert "came damaged twice" in holder.takes(digest(manifest))
    assert max(sizes) <= len(manifest)


def test_who_drips_bytes_holds_nobody_for_ever(
    holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getting, "CHUNK_S", 0.3, raising=False)
    manifest = holder.manifest(sha256={"d.bin": digest(EVIL)}, bytes={"d.bin": 1 << 20})
    holder.serves(manifest)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(holder.handler, "drip", 0.02)
        monkeypatch.setattr(
            Liar, "do_GET", lambda self, real=Liar.do_GET: give(self, real, digest(manifest))
        )
        taking = pool.submit(holder.takes, digest(manifest))
        try:
            assert "nobody gave a byte of d's d.bin for 2 s" in taking.result(timeout=20)
        finally:
            monkeypatch.setattr(holder.handler, "drip", 0.0)


def give(handler: Any, real: Any, quick: str) -> None:
    """The manifest at once, all else byte by byte."""
    if handler.path == f"/{quick}":
        handler.send_response(206)
        handler.send_header("Content-Length", str(len(handler.files[quick])))
        handler.end_headers()
        handler.wfile.write(handler.files[quick])
    else:
        handler.files = {**handler.files, handler.path.lstrip("/"): b""}
        real(handler)


def test_a_manifest_that_lies_removes_and_reads_nothing_outside(tmp_path: Path) -> None:
    """What came from another node is on the disk: removal, look and state believe it no more."""
    root, victim = tmp_path / "node" / "datasets", tmp_path / "precious"
    (root / "d").mkdir(parents=True)
    victim.write_bytes(PRECIOUS)
    names = ["../../../precious", str(victim)]
    manifest = {
        "prefix": "d",
        "recipe": {},
        "bytes": dict.fromkeys(names, len(PRECIOUS)),
        "sha256": dict.fromkeys(names, digest(PRECIOUS)),
    }
    (root / "d" / "dataset.json").write_text(json.dumps(manifest))
    state = {"staged": {"d": names, "../..": ["precious"]}}
    (root / ".state.json").write_text(json.dumps(state))
    asked = {"root": str(root), "datasets": {"d": None}, "address": "a"}
    fault = run("dataset.inspection:look", asked).facts["datasets"]["d"]["fault"]
    assert "it must be a path inside its folder" in fault
    inspection.take_away({"root": str(root), "check": False})
    assert victim.read_bytes() == PRECIOUS
