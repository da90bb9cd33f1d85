"""share.py: nodes as threads, each with an address of its own on the loopback."""

import concurrent.futures
import hashlib
import http.client
import json
import os
import random
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from node import fetch, manifest_folders, share, sharing
from node.checksum import sha256
from node.dataset import inspection, megatron_mmap
from node.sharing import serving
from node.sharing.getting import Getter
from node.sharing.shelf import Shelf
from node.validated_text import Sha256
from tests.node import run


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Nodes:
    """Folders that stand for nodes; the first ``holders`` of them have the dataset."""

    def __init__(self, tmp_path: Path, count: int, holders: int = 1, tokens: int = 500_000) -> None:
        self.names = [f"n{number}" for number in range(1, count + 1)]
        self.addresses = {name: f"127.0.0.{number + 1}" for number, name in enumerate(self.names)}
        self.roots = {name: tmp_path / name for name in self.names}
        self.holders = self.names[:holders]
        self.port = free_port()
        for root in self.roots.values():
            root.mkdir()
        for name in self.holders:
            self.make(self.roots[name], tokens)
        self.manifest = json.loads((self.roots["n1"] / "d" / "dataset.json").read_text())
        self.identity = sha256(str(self.roots["n1"] / "d" / "dataset.json"))
        digests = {digest: file for file, digest in self.manifest["sha256"].items()}
        self.size = sum(self.manifest["bytes"][file] for file in digests.values())
        self.size += (self.roots["n1"] / "d" / "dataset.json").stat().st_size

    @staticmethod
    def make(root: Path, tokens: int) -> None:
        out = root / "d"
        (out / "text").mkdir(parents=True)
        numbers = random.Random(1)
        with megatron_mmap.Writer(out / "d_text_document", "uint16") as writer:
            writer.add_document([numbers.randrange(60_000) for _ in range(tokens)])
        os.link(out / "d_text_document.bin", out / "d_text_sentence.bin")
        (out / "text" / "x").write_text("text")
        files = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
        manifest = {
            "prefix": "d_text_document",
            "bytes": {file: (out / file).stat().st_size for file in files},
            "sha256": {file: sha256(str(out / file)) for file in files},
            "recipe": {},
        }
        (out / "dataset.json").write_text(json.dumps(manifest))

    def spec(self, name: str, getters: list[str]) -> dict[str, Any]:
        return {
            "root": str(self.roots[name]),
            "me": name,
            "token": "t" * 40,
            "addresses": self.addresses,
            "port": self.port,
            "identity": {"d": self.identity},
            "gives": {holder: ["d"] for holder in self.holders},
            "gets": {getter: ["d"] for getter in getters},
        }

    def share(self, names: list[str] | None = None) -> dict[str, Any]:
        """Run the program on the nodes at the same time; node to its answer or its error."""
        names = names or self.names
        getters = [name for name in self.names if name not in self.holders]

        def run(name: str) -> Any:
            try:
                return share.exchange(self.spec(name, getters))
            except fetch.FetchError as error:
                return str(error)

        with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
            return dict(zip(names, pool.map(run, names), strict=True))

    def whole(self, name: str) -> bool:
        root = str(self.roots[name])
        return not inspection.faults(
            os.path.join(root, "d"), "d", None, manifest_folders.State(root)
        )


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "CHUNK", 1 << 16)
    monkeypatch.setattr(sharing, "LOST_S", 2.0)
    monkeypatch.setattr(sharing, "PAUSE_S", 0.02)


def test_all_have_it_and_links_are_links_again(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 5)
    answers = nodes.share()
    assert all(nodes.whole(name) for name in nodes.names)
    home = nodes.roots["n5"] / "d"
    assert (home / "d_text_document.bin").samefile(home / "d_text_sentence.bin")
    for name in nodes.names[1:]:
        assert answers[name]["received"] == nodes.size  # the same bytes once, however many names
        assert not list((nodes.roots[name] / ".work").iterdir())
    assert sum(each["sent"] for each in answers.values()) == 4 * nodes.size
    # the others gave too: the holder did not send it four times
    assert answers["n1"]["sent"] < 4 * nodes.size


def test_nobody_waits_when_all_are_done(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 3, tokens=1000)
    begun = time.monotonic()
    answers = nodes.share()
    assert time.monotonic() - begun < sharing.LOST_S
    assert answers["n1"]["lost"] == []


def test_a_part_is_gone_on_with(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 2)
    tokens = nodes.roots["n1"] / "d" / "d_text_document.bin"
    folder = nodes.roots["n2"] / ".work" / "share"
    folder.mkdir(parents=True)
    part = folder / (sha256(str(tokens)) + ".part")
    part.write_bytes(tokens.read_bytes()[:900_000])
    answer = nodes.share()["n2"]
    assert (answer["received"], answer["resumed"]) == (nodes.size - 900_000, 900_000)
    assert nodes.whole("n2")


def test_what_is_right_already_does_not_come_again(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 2)
    nodes.share()
    (nodes.roots["n2"] / "d" / "text" / "x").write_text("txet")
    answer = nodes.share()["n2"]
    assert answer["received"] < 10_000
    assert nodes.whole("n2")


def test_a_damaged_part_is_fetched_again(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 2)
    tokens = nodes.roots["n1"] / "d" / "d_text_document.bin"
    folder = nodes.roots["n2"] / ".work" / "share"
    folder.mkdir(parents=True)
    (folder / (sha256(str(tokens)) + ".part")).write_bytes(b"x" * 900_000)
    nodes.share()
    assert nodes.whole("n2")


def test_one_that_never_comes_delays_but_stops_nobody(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 4)
    answers = nodes.share(["n1", "n2", "n3"])
    assert nodes.whole("n2")
    assert nodes.whole("n3")
    assert answers["n1"]["lost"] == ["n4"]


def test_without_a_holder_it_ends_and_says_whom_it_missed(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 3)
    answers = nodes.share(["n2", "n3"])
    assert "nobody gave a byte of d's dataset.json for 2 s, and n1 should have it" in answers["n2"]
    assert f"reaches them on port {nodes.port}" in answers["n3"]


def test_a_holder_that_goes_midway_is_replaced_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = Nodes(tmp_path, 4, holders=2)
    real = serving.Handler._send
    sent = threading.Event()

    def send(self: serving.Handler, path: str, begin: int, end: int) -> None:
        if begin > 300_000 and self.connection.getsockname()[0] == nodes.addresses["n1"]:
            sent.set()
            raise OSError("gone")
        real(self, path, begin, end)

    monkeypatch.setattr(serving.Handler, "_send", send)
    nodes.share()
    assert sent.is_set()
    assert nodes.whole("n3")
    assert nodes.whole("n4")


def one_that_gives(nodes: Nodes, spec: Any) -> tuple[serving.Hub, Any]:
    """n1 with the dataset, and its server, which listens."""
    shelf = Shelf(str(nodes.roots["n1"].parent))
    shelf.add_dataset(str(nodes.roots["n1"] / "d"), Sha256(nodes.identity))
    hub = serving.Hub(spec, shelf)
    return hub, serving.listen(nodes.addresses["n1"], nodes.port, hub)


def test_who_lacks_the_token_gets_nothing(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 2, tokens=1000)
    spec = nodes.spec("n1", ["n2"])
    hub, server = one_that_gives(nodes, spec)

    def ask(path: str, token: str, span: str = "bytes=0-99") -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(nodes.addresses["n1"], nodes.port, timeout=5)
        headers = {"X-Trainbench-Token": token, "X-Trainbench-Node": "n2", "Range": span}
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()

    manifest = (nodes.roots["n1"] / "d" / "dataset.json").read_bytes()
    assert ask(f"/{nodes.identity}", "wrong") == (403, b"")
    assert ask(f"/{nodes.identity}", "") == (403, b"")
    assert ask(f"/{nodes.identity}", spec["token"]) == (206, manifest[:100])
    assert ask(f"/{nodes.identity}", spec["token"], "bytes=999999-1999999") == (416, b"")
    assert ask("/" + "0" * 64, spec["token"]) == (404, b"")
    assert ask("/../../etc/passwd", spec["token"]) == (400, b"")
    hub.close()  # who comes now is not counted in what was sent, and gets nothing either
    assert ask(f"/{nodes.identity}", spec["token"]) == (503, b"")
    assert hub.sent == 100
    server.shutdown()
    server.server_close()


def test_one_that_asks_without_end_is_sent_no_more_than_all_can_need(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 2, tokens=1000)
    spec = nodes.spec("n1", ["n2"])
    hub, server = one_that_gives(nodes, spec)
    headers = {"X-Trainbench-Token": spec["token"], "X-Trainbench-Node": "n2"}
    statuses = []
    for _ in range(1000):
        connection = http.client.HTTPConnection(nodes.addresses["n1"], nodes.port, timeout=5)
        span = {"Range": "bytes=0-999999"}
        connection.request("GET", f"/{nodes.identity}", headers={**headers, **span})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        statuses.append(answer.status)
        if statuses[-1] != 206:
            break
    manifest = (nodes.roots["n1"] / "d" / "dataset.json").stat().st_size
    assert statuses[-1] == 429
    assert hub.most < hub.sent <= hub.most + manifest
    assert hub.wait() == ["n2"]  # it waits for it no longer
    server.shutdown()
    server.server_close()


def test_what_a_holder_gives_on_of_another_dataset_is_not_asking_without_end(
    tmp_path: Path,
) -> None:
    """A small dataset's holder, which also gave on a large one, said that it had given enough."""
    nodes = Nodes(tmp_path, 2, tokens=1000)
    spec = nodes.spec("n1", ["n2"])
    hub, server = one_that_gives(nodes, spec)
    large = b"x" * (2 * hub.most)
    digest = Sha256(hashlib.sha256(large).hexdigest())
    Path(hub.shelf.path(digest)).write_bytes(large)  # as it lies when it came from another node
    getter = Getter(nodes.spec("n2", ["n2"]), Shelf(str(nodes.roots["n2"])))
    getter.bring(digest, len(large), "the large one")
    assert hub.sent >= len(large)
    assert not hub.had_enough()
    getter.bring(Sha256(nodes.identity), None, "the small one")
    server.shutdown()
    server.server_close()


def test_addresses_that_cannot_serve(tmp_path: Path) -> None:
    hub: Any = None
    with pytest.raises(fetch.FetchError, match="which no other node reaches; set cluster_address"):
        serving.listen("localhost", 0, hub)
    with pytest.raises(fetch.FetchError, match=r"192\.0\.2\.1 port 29871: .*; set cluster_address"):
        serving.listen("192.0.2.1", 29871, hub)
    with pytest.raises(fetch.FetchError, match="set cluster_address"):
        serving.listen("no-such-host.invalid", 0, hub)


def test_a_disk_that_is_too_small_is_said_before_a_byte_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = Nodes(tmp_path, 2)

    def refuse(folder: str, need: int, what: str) -> None:
        raise fetch.FetchError(f"{folder} {need} {what}")

    monkeypatch.setattr(fetch, "need_room", refuse)
    answers = nodes.share()
    assert answers["n2"].startswith(str(nodes.roots["n2"]))
    assert answers["n1"]["lost"] == []  # it said that it needs no more


def test_the_program_says_what_it_did(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 1, tokens=1000)
    assert run("share:share", nodes.spec("n1", [])).facts["received"] == 0
    assert hashlib.sha256(b"").hexdigest() not in nodes.manifest["sha256"].values()
