"""What a node lacks, a chunk at a time, from anyone who has that chunk already."""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from node import fetch, manifest_folders, sharing
from node.checksum import BLOCK, sha256
from node.program_output import FULL
from node.sharing.shelf import Shelf
from node.validated_text import FileName, InsidePath, Sha256

CHUNK_S = 300.0  # for a chunk: a node that drips bytes is asked no more for a while
CONNECT_S = 5.0
SHUN_S = 5.0  # a node that did not answer is asked again after so long


class Getter:
    """Fetches what this node lacks."""

    def __init__(self, spec: dict[str, Any], shelf: Shelf) -> None:
        self.me, self.root = spec["me"], spec["root"]
        self.port, self.addresses = spec["port"], spec["addresses"]
        self.headers = {"X-Trainbench-Token": spec["token"], "X-Trainbench-Node": self.me}
        self.holders = [node for node in spec["gives"] if node != self.me]
        self.others = [node for node in spec["gets"] if node not in (self.me, *self.holders)]
        self.recorded: dict[str, list[str]] = spec.get("recorded", {})
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
        socket_.settimeout(sharing.SEND_S)
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
        free = [node for node in self.others if self.shunned.get(node, 0.0) < now]
        sample = random.sample(free, min(3, len(free)))
        # a holder is asked again at once: without one nothing can come
        return sample + random.sample(self.holders, len(self.holders))

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
                    file.write(block)
                    at += len(block)
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, OSError) and error.errno in FULL:
                raise
            self.shunned[node] = time.monotonic() + SHUN_S
        now = time.monotonic()
        if at == end or (at - begin) * CHUNK_S > sharing.CHUNK * (now - began):
            self.progress = now  # who drips bytes gives none
        return at - begin

    def bring(self, digest: Sha256, size: int | None, title: str) -> str:
        """A file as our own path, complete and checked. ``size`` None: one chunk at most."""
        path = self.shelf.path(digest)
        if os.path.exists(path):
            return path
        partial = self.shelf.partial_path(digest)
        for _ in range(2):
            have = os.path.getsize(partial) if os.path.exists(partial) else 0
            self.resumed += have
            with open(partial, "ab") as file:
                while size is None or have < size:
                    end = have + sharing.CHUNK if size is None else min(have + sharing.CHUNK, size)
                    received = 0
                    for node in self._candidates():
                        received = self._chunk(node, digest, have, end, file)
                        if received:
                            break
                    have += received
                    self.received += received
                    if size is None and received:
                        break
                    self._refuse_loss(title)
                    if not received:
                        time.sleep(sharing.PAUSE_S * (0.5 + random.random()))  # noqa: S311  # no secret
            if sha256(partial) == digest:
                os.replace(partial, path)
                return path
            # a node gave on what it had not checked yet, or the disk lost something
            os.unlink(partial)
        raise fetch.FetchError(f"{title} came damaged twice; verify the nodes that have it")

    def _refuse_loss(self, title: str) -> None:
        if time.monotonic() - self.progress > sharing.LOST_S:
            raise fetch.FetchError(
                f"nobody gave a byte of {title} for {sharing.LOST_S:.0f} s, and "
                f"{', '.join(self.holders)} should have it; see that this node reaches them on "
                f"port {self.port}, and run this again: it goes on from where it was"
            )

    def dataset(self, name: FileName, identity: Sha256) -> None:
        """All files of a dataset, and then the dataset in its place."""
        home = os.path.join(self.root, name)
        manifest_folders.refuse_foreign(home, name, manifest_folders.State(self.root))
        title = f"{name}'s {manifest_folders.MANIFEST}"
        with open(self.bring(identity, None, title), "rb") as stream:
            text = stream.read()
        manifest = manifest_folders.manifest_in(text, title)
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
                partial = self.shelf.partial_path(digest)
                need += size - (os.path.getsize(partial) if os.path.exists(partial) else 0)
        fetch.need_room(self.root, need, name)
        for file, digest in sorted(manifest.sha256.items()):
            self.bring(digest, sizes[digest], f"{name}'s {file}")
        self._move_in(name, manifest.sha256, text)

    def _move_in(self, name: FileName, sums: dict[InsidePath, Sha256], text: bytes) -> None:
        """Put the files of the shelf where the dataset's names say."""
        out = os.path.join(self.root, ".work", f"{name}.shared")
        shutil.rmtree(out, ignore_errors=True)
        for file, digest in sums.items():
            target = os.path.join(out, file)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.link(self.shelf.path(digest), target)
        manifest_folders.move_in(self.root, name, out, text, self.recorded.get(name, ()))
        shutil.rmtree(out)


def shut(connection: socket.socket) -> None:
    """End what is being read from a connection, if it still is."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
