"""Bring datasets, and images, from the nodes that have them to those that do not, node to node.

Every node concerned runs this program at the same time. Each serves what it has, over HTTP on its
own address in the cluster, and fetches what it lacks from the others, a chunk at a time, from
anyone who has that chunk already. So the first chunks come from the holders, and while a node
fetches the next one it gives on the last: all links are busy at once, the holders send each byte a
few times however many nodes there are, and there are no rounds, no order and nobody in charge who
could be lost. (A tree or a chain would be as fast, but a node that goes away takes its branch with
it.) Neither the control node, nor root, nor ssh between the nodes takes part.

    share:share     take part; answer what came and went

Its spec, which is on no command line, since the token lets read:

    root, me              where datasets lie here; this node's name
    token                 of this one run: who does not know it gets nothing
    addresses, port       name to address of every node that takes part, and where all listen
    holders, wants        names of nodes that have something; dataset to identity, for this node
    waiting               nodes that lack something

A file is known by its SHA-256 and nothing else, on the wire too. It is checked when it is whole,
and a part is kept (``<root>/.work/share/<sha256>.part``): the next run goes on from there. A
holder ends when all that lack something said they are done, or were not heard for LOST_S; a node
that lacks something ends when it has it, or nobody gave it a byte for LOST_S. So nothing is left
running when the control node, or a part of the cluster, is gone.
"""

from __future__ import annotations

import contextlib
import hmac
import http.client
import http.server
import ipaddress
import os
import random
import re
import shutil
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from typing import Any

from node import fetch, staged
from node.answer import ProgramError
from node.checked import FileName, InsidePath, Sha256
from node.checksum import BLOCK, sha256
from node.schema import Mapped

CHUNK = staged.MOST_MANIFEST
CHUNK_S = 300.0  # for a chunk: a node that drips bytes is asked no more for a while
LOST_S = 30.0
CONNECT_S = 5.0
SEND_S = 20.0  # for one read or write on a connection that stands
AT_ONCE = 4  # uploads of one node; who comes when it is busy asks another
SHUN_S = 5.0  # a node that did not answer is asked again after so long
PAUSE_S = 0.1
ASKED = Mapped(FileName, Sha256)  # datasets and their identities, which other nodes said


class Shelf:
    """The files that this node can give, whole or as far as they came, by SHA-256."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.whole: dict[Sha256, str] = {}

    def part(self, digest: Sha256) -> str:
        """Where a file is while it comes."""
        return os.path.join(self.folder, digest + ".part")

    def path(self, digest: Sha256) -> str:
        """Where it is when it is whole."""
        return os.path.join(self.folder, digest)

    def add_dataset(self, home: str, identity: Sha256) -> None:
        """All files of a dataset that was checked."""
        self.whole[identity] = os.path.join(home, staged.MANIFEST)
        for file, digest in staged.manifest_of(home).sha256.items():
            self.whole[digest] = os.path.join(home, file)

    def find(self, digest: Sha256) -> str | None:
        """What of the file can be read now."""
        for path in (self.whole.get(digest), self.path(digest), self.part(digest)):
            if path and os.path.exists(path):
                return path
        return None


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
        self.lock = threading.Lock()

    def hear(self, name: str) -> None:
        """A node that lacks something is alive."""
        self.heard[name] = time.monotonic()

    def open(self) -> tuple[list[str], list[str]]:
        """The nodes that still lack something: those that live, and those that are lost."""
        left = sorted(self.waiting - self.done)
        now = time.monotonic()
        lost = [each for each in left if now - self.heard[each] > LOST_S]
        return [each for each in left if each not in lost], lost


class Handler(http.server.BaseHTTPRequestHandler):
    """GET /<sha256> with a Range gives what is there of it; POST /done says who needs no more."""

    protocol_version = "HTTP/1.1"
    timeout = SEND_S
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
            with self.hub.lock:
                self.hub.busy += 1
            self._send(path, int(span[1]), int(span[2]) + 1)
        except OSError:
            self.close_connection = True  # who asked went away, and asks another
        finally:
            self.hub.slots.release()
            with self.hub.lock:
                self.hub.busy -= 1

    def _send(self, path: str, begin: int, end: int) -> None:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            end = min(end, size, begin + CHUNK)
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


class Getter:
    """Fetches what this node lacks."""

    def __init__(self, spec: dict[str, Any], shelf: Shelf) -> None:
        self.me, self.root = spec["me"], spec["root"]
        self.port, self.addresses = spec["port"], spec["addresses"]
        self.headers = {"X-Trainbench-Token": spec["token"], "X-Trainbench-Node": self.me}
        self.holders = [each for each in spec["holders"] if each != self.me]
        self.others = [
            each for each in spec["waiting"] if each != self.me and each not in self.holders
        ]
        self.shelf = shelf
        self.shunned: dict[str, float] = {}
        self.progress = time.monotonic()
        self.received = self.resumed = 0

    @contextlib.contextmanager
    def _connected(self, node: str) -> Iterator[http.client.HTTPConnection]:
        """A connection without a proxy (the cluster's network is not behind one), for CHUNK_S."""
        connection = http.client.HTTPConnection(self.addresses[node], self.port, timeout=CONNECT_S)
        connection.connect()
        socket_ = connection.sock
        socket_.settimeout(SEND_S)
        # whatever the node sends: a header that never ends would be heard for ever
        end = threading.Timer(CHUNK_S, shut, [socket_])
        end.daemon = True
        end.start()
        try:
            yield connection
        finally:
            end.cancel()
            connection.close()

    def done(self) -> None:
        """Tell the holders, who wait for it."""
        for node in self.holders:
            lost = contextlib.suppress(OSError, http.client.HTTPException)
            with lost, self._connected(node) as connection:
                connection.request("POST", "/done", headers=self.headers)
                connection.getresponse()

    def _candidates(self) -> list[str]:
        """Whom to ask: a few that lack something too, before those that everybody would ask."""
        now = time.monotonic()
        free = [each for each in self.others if self.shunned.get(each, 0.0) < now]
        some = random.sample(free, min(3, len(free)))
        # a holder is asked again at once: without one nothing can come
        return some + random.sample(self.holders, len(self.holders))

    def _chunk(self, node: str, digest: Sha256, begin: int, end: int, file: Any) -> int:
        """Append bytes ``begin`` to ``end`` as far as the node has them; how many came."""
        headers = {**self.headers, "Range": f"bytes={begin}-{end - 1}"}
        at, began = begin, time.monotonic()
        try:
            with self._connected(node) as connection:
                connection.request("GET", f"/{digest}", headers=headers)
                answer = connection.getresponse()
                if answer.status == 403:  # what is left of an earlier run, which ends soon
                    self.shunned[node] = time.monotonic() + SHUN_S
                while answer.status == 206 and at < end:  # it may send more than it was asked for
                    block = answer.read(min(BLOCK, end - at))
                    if not block:
                        break
                    left = memoryview(block)
                    while left:
                        written = file.write(left)
                        left, at = left[written:], at + written
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, OSError) and error.errno in fetch.FULL:
                raise
            self.shunned[node] = time.monotonic() + SHUN_S
        now = time.monotonic()
        if at == end or (at - begin) * CHUNK_S > CHUNK * (now - began):
            self.progress = now  # who drips bytes gives none
        return at - begin

    def bring(self, digest: Sha256, size: int | None, what: str) -> str:
        """A file as a path of ours, whole and checked. ``size`` None: one chunk at most."""
        path = self.shelf.path(digest)
        if os.path.exists(path):
            return path
        part = self.shelf.part(digest)
        for _ in range(2):
            have = os.path.getsize(part) if os.path.exists(part) else 0
            self.resumed += have
            with open(part, "ab", buffering=0) as file:
                while size is None or have < size:
                    end = have + CHUNK if size is None else min(have + CHUNK, size)
                    came = 0
                    for node in self._candidates():
                        came = self._chunk(node, digest, have, end, file)
                        if came:
                            break
                    have += came
                    self.received += came
                    if size is None and came:
                        break
                    self._refuse_loss(what)
                    if not came:
                        time.sleep(PAUSE_S * (0.5 + random.random()))  # noqa: S311  # no secret
            if sha256(part) == digest:
                os.replace(part, path)
                return path
            os.unlink(
                part
            )  # a node gave on what it had not checked yet, or the disk lost something
        raise fetch.FetchError(f"{what} came damaged twice; verify the nodes that have it")

    def _refuse_loss(self, what: str) -> None:
        if time.monotonic() - self.progress > LOST_S:
            raise fetch.FetchError(
                f"nobody gave a byte of {what} for {LOST_S:.0f} s, and {', '.join(self.holders)} "
                f"should have it; see that this node reaches them on port {self.port}, and run "
                "this again: it goes on from where it was"
            )

    def dataset(self, name: FileName, identity: Sha256) -> None:
        """All files of a dataset, and then the dataset in its place."""
        home = os.path.join(self.root, name)
        staged.refuse_foreign(home, name, staged.State(self.root))
        what = f"{name}'s {staged.MANIFEST}"
        with open(self.bring(identity, None, what), "rb") as stream:
            text = stream.read()
        manifest = staged.manifest_in(text, what)
        sizes = {digest: manifest.bytes[file] for file, digest in manifest.sha256.items()}
        for file, digest in manifest.sha256.items():
            old = os.path.join(home, file)  # what is there and right need not come again
            if os.path.exists(self.shelf.path(digest)) or not os.path.isfile(old):
                continue
            if os.path.getsize(old) == sizes[digest] and sha256(old) == digest:
                os.link(old, self.shelf.path(digest))
        need = 0
        for digest, size in sizes.items():
            if os.path.exists(self.shelf.path(digest)):
                self.resumed += size
            else:
                part = self.shelf.part(digest)
                need += size - (os.path.getsize(part) if os.path.exists(part) else 0)
        fetch.need_room(self.root, need, name)
        for file, digest in sorted(manifest.sha256.items()):
            self.bring(digest, sizes[digest], f"{name}'s {file}")
        self._place(name, manifest.sha256, text)

    def _place(self, name: FileName, sums: dict[InsidePath, Sha256], text: bytes) -> None:
        """Put the files of the shelf where the dataset's names say."""
        out = os.path.join(self.root, ".work", f"{name}.shared")
        shutil.rmtree(out, ignore_errors=True)
        for file, digest in sums.items():
            target = os.path.join(out, file)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.link(self.shelf.path(digest), target)
        staged.place(self.root, name, out, text)
        shutil.rmtree(out)


def shut(connection: socket.socket) -> None:
    """End what is being read from a connection, if it still is."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def share(spec: dict[str, Any]) -> dict[str, Any]:
    """Take part alone among the programs that change the folder; what came and went, in bytes."""
    try:
        with staged.locked(spec["root"]):
            return exchange(spec)
    except ProgramError as error:
        raise ProgramError(f"dataset error: {error}") from None
    except OSError as error:
        words = fetch.full(spec["root"], "a dataset", None) if error.errno in fetch.FULL else error
        raise ProgramError(f"dataset error: {words}") from None


def exchange(spec: dict[str, Any]) -> dict[str, Any]:
    """Take part until there is no more to do; what came and went, in bytes."""
    root, me = spec["root"], spec["me"]
    folder = os.path.join(root, ".work", "share")
    os.makedirs(folder, exist_ok=True)
    shelf = Shelf(folder)
    has, wants = (ASKED.check(spec[key], key) for key in ("has", "wants"))
    for name, identity in has.items():
        shelf.add_dataset(os.path.join(root, name), identity)
    hub = Hub(spec, shelf)
    getter = Getter(spec, shelf)
    server = None
    try:
        server = listen(spec["addresses"][me], spec["port"], hub)
        for name, identity in wants.items():
            getter.dataset(name, identity)
    finally:
        if wants:
            getter.done()
        lost: list[str] = []
        if server is not None:
            while me in spec["holders"]:
                left, lost = hub.open()
                if not left:
                    break
                time.sleep(PAUSE_S)
            until = time.monotonic() + LOST_S
            while hub.busy and time.monotonic() < until:
                time.sleep(PAUSE_S)
            server.shutdown()
            server.server_close()
    shutil.rmtree(folder)  # only now: until here all of it was given on
    return {
        "received": getter.received,
        "resumed": getter.resumed,
        "sent": hub.sent,
        "lost": lost,
    }
