"""Download one file: resumed where it was left, checked by checksum, retried while it gets on.

    fetch:bring     put the file in place, if it is not there; answer {"changed": bool}

Its spec: url (the public address), path (where the file goes), sha256 and md5 (left out or "" where
nobody knows it), mirrors (beginning of an address to its replacement).

A source is an http or https address, a file:// address, or an absolute path. What came so far lies
beside the target as ``<target>.part``, so that the next run goes on from there;
``<target>.part.json`` says of which file of the server it is a part, so that two versions of a file
are never mixed.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import shutil
import stat
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from io import BufferedIOBase
from typing import Any, NamedTuple

from node import parsing
from node.answer import ProgramError
from node.checksum import BLOCK, checksums
from node.files import write_text
from node.mirrors import mirrored
from node.printable import printable
from node.program_output import FULL, full_disk, human
from node.schema import Fields, Mapped, Text
from node.validated_text import Sha256

TIMEOUT_S = 30  # without a byte
SLOW_S = 300.0  # a connection that brings less than SLOW_BYTES in that time is ended
SLOW_BYTES = 1 << 20
MOST_UNSAID = 16 << 30  # bytes of a file whose server does not say its size
TRIES = 6  # in a row without a byte gained: 1 + 2 + 4 + 8 + 16 s of waiting
MAX_WAIT_S = 30.0
PROGRESS_S = 30.0
# A server's words that waiting may change; all other refusals last.
PASSING = (408, 425, 429, 500, 502, 503, 504)
RECORDED = Mapped(Text(most=4_000), Sha256)  # an address, without user and password
# What a server calls a version is sent back to it in a header.
ABOUT = Fields({"source": Text(lines=True), "validator": Text(r"[ -~]*", most=1_000)})


class FetchError(ProgramError):
    """A file cannot be had; the message is one sentence with the cure."""


class _AgainError(Exception):
    """Something that another try may fix."""


class Fetched(NamedTuple):
    """What a download did: bytes that came now, bytes that were there, and the file's SHA-256."""

    received: int
    resumed: int
    sha256: str


def redacted(source: str) -> str:
    """A source as messages and logs may show it: without user, password and query."""
    parts = urllib.parse.urlsplit(source)
    if not parts.netloc:
        return printable(source)
    return printable(
        urllib.parse.urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    )


def count(header: str | None) -> int | None:
    """The number that a header says; None for another text."""
    return int(header) if header and re.fullmatch("[0-9]{1,18}", header) else None


def _without_user(source: str) -> tuple[str, str]:
    """An address without its user and password, and those as HTTP sends them."""
    parts = urllib.parse.urlsplit(source)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return source, ""
    secret = base64.b64encode(urllib.parse.unquote(user).encode()).decode()
    return urllib.parse.urlunsplit(parts._replace(netloc=host)), f"Basic {secret}"


def need_room(folder: str, need: int, title: str) -> None:
    """Refuse what does not fit on the disk. Raises FetchError."""
    free = shutil.disk_usage(folder).free
    if need > free:
        raise FetchError(
            f"the disk of {folder} is too small for {title}: {human(need)} more are needed and "
            f"{human(free)} are free; free {human(need - free)}, or set cluster_root to a "
            "larger disk, and run this again: it goes on from where it was"
        )


def full(folder: str, title: str, need: int | None) -> FetchError:
    """What to say of a disk that became full on the way; ``need`` is what was still to come."""
    more = f": {human(need)} more are needed" if need is not None else ""
    return FetchError(
        f"{full_disk(folder)} while writing {title}{more}; free "
        "some, or set cluster_root to a larger disk, and run this again: it goes on from where it "
        "was"
    )


def say(message: str) -> None:
    """Print progress; standard output is for results."""
    print(message, file=sys.stderr, flush=True)


class Download:
    """One file on its way; ``run`` is all there is to call."""

    def __init__(
        self,
        source: str,
        target: str,
        sha256: str = "",
        md5: str = "",
        why: str = "the catalogue",
        cure: str = "",
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """``why`` says who stated the checksum, ``cure`` what to do where the file has another."""
        self.source, self.target = source, target
        self.expected = {"sha256": sha256, "md5": md5}
        self.why, self.wait = why, wait
        self.cure = cure or "correct the source or the checksum"
        self.partial = target + ".part"
        self.about = self.partial + ".json"
        self.folder = os.path.dirname(target)
        self.total: int | None = None
        self.received = 0
        self.doubtful = False  # the part may be of another file; its checksum tells

    def run(self) -> Fetched:
        """Bring the file. Raises FetchError."""
        resumed = self._size()
        if os.path.exists(self.target):
            resumed = os.path.getsize(self.target)
        else:
            self._gather()
            os.replace(self.partial, self.target)
        sums = checksums(self.target)
        wrong = [
            kind
            for kind, expected_sum in self.expected.items()
            if expected_sum and sums[kind] != expected_sum
        ]
        self._forget()
        if not wrong:
            return Fetched(self.received, resumed, sums["sha256"])
        os.unlink(self.target)
        if self.doubtful:
            self.doubtful = False
            return self.run()
        raise FetchError(
            f"{os.path.basename(self.target)} from {redacted(self.source)} has {wrong[0]} "
            f"{sums[wrong[0]]}, not {self.expected[wrong[0]]} as {self.why} says; it was removed: "
            f"{self.cure}, and run this again"
        )

    # The whole

    def _gather(self) -> None:
        """Try until the part is whole, as long as tries get on."""
        failures = 0
        while True:
            before = self._size()
            try:
                self._receive()
                return
            except _AgainError as error:
                failures = 1 if self._size() > before else failures + 1
                if failures >= TRIES:
                    raise FetchError(
                        f"cannot download {redacted(self.source)}: {error}; check the node's way "
                        "to it, or name a proxy in site_proxy or a mirror in site_mirrors, and run "
                        f"this again: it goes on from {human(self._size())}"
                    ) from None
                self.wait(min(2.0 ** (failures - 1), MAX_WAIT_S))
            except OSError as error:
                if error.errno in FULL:
                    bytes_left = None if self.total is None else self.total - self._size()
                    raise full(self.folder, os.path.basename(self.target), bytes_left) from None
                raise FetchError(f"cannot write {self.partial}: {error.strerror}") from None

    def _size(self) -> int:
        try:
            return os.path.getsize(self.partial)
        except FileNotFoundError:
            return 0

    def _forget(self) -> None:
        for path in (self.partial, self.about):
            if os.path.exists(path):
                os.unlink(path)

    # Of which file of the server the part is

    def _validator(self) -> str:
        """What the server called the file when the part was begun; empty for another source."""
        about = parsing.recall(self.about, ABOUT)
        return str(about["validator"]) if about.get("source") == self.source else ""

    def _begin(self, validator: str) -> None:
        with open(self.about, "w", encoding="utf-8") as stream:
            json.dump({"source": self.source, "validator": validator}, stream)

    def _restart(self) -> None:
        """Nothing of the part can be used."""
        self.doubtful = False
        with open(self.partial, "wb"):
            pass

    # One try

    def _receive(self) -> None:
        if self.source.startswith(("http://", "https://")):
            self._receive_http()
        else:
            self._receive_file()

    def _receive_file(self) -> None:
        """From a folder that the node sees, such as a shared disk."""
        path = self.source
        if path.startswith("file://"):
            path = urllib.request.url2pathname(urllib.parse.urlsplit(path).path)
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise FetchError(
                    f"{printable(path)} is not a file; bring it there, or correct site_mirrors"
                )
            stream = open(path, "rb")  # noqa: SIM115  # closed below; an error here is another
        except OSError as error:
            raise FetchError(
                f"cannot read {printable(path)}: {error.strerror}; bring the file there, or"
                " correct site_mirrors"
            ) from None
        with stream:
            state = os.fstat(stream.fileno())
            validator = f"{state.st_size} {state.st_mtime_ns}"
            if self._size() and self._validator() != validator:
                self._restart()
            self._begin(validator)
            stream.seek(self._size())
            self._copy(stream, state.st_size)

    def _receive_http(self) -> None:
        have, validator = self._size(), self._validator()
        headers = {"User-Agent": "trainbench", "Accept-Encoding": "identity"}
        if have and not validator and not any(self.expected.values()):
            self._restart()  # it could be of another version, and no checksum would tell
            have = 0
        if have:
            headers["Range"] = f"bytes={have}-"
            self.doubtful = not validator
        if have and validator:
            headers["If-Range"] = validator
        # the scheme is http or https: _receive saw to it
        address, secret = _without_user(self.source)
        request = urllib.request.Request(address, headers=headers)  # noqa: S310
        if secret:  # for this host, and not for one that it sends us to
            request.add_unredirected_header("Authorization", secret)
        try:
            answer = urllib.request.urlopen(request, timeout=TIMEOUT_S)  # noqa: S310
        except urllib.error.HTTPError as error:
            self._refused(error, have)
            return
        except urllib.error.URLError as error:
            raise _AgainError(
                str(getattr(error.reason, "strerror", None) or error.reason)
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise _AgainError(printable(str(error)) or type(error).__name__) from None
        except ValueError as error:  # of where the server sends us
            raise FetchError(
                f"cannot download {redacted(self.source)}: {printable(str(error))}; correct the "
                "address, or name a mirror in site_mirrors"
            ) from None
        with answer:
            size = count(answer.headers.get("Content-Length"))
            if answer.status == 206:
                span, _, of = answer.headers.get("Content-Range", "").rpartition("/")
                total = count(of)
                if not span.startswith(f"bytes {have}-") or total is None:
                    self._restart()
                    raise _AgainError("the server answered with another part than asked for")
                self._copy(answer, total)
                return
            if have:
                self._restart()  # another version, or a server that knows no parts
            etag = answer.headers.get("ETag", "")
            strong = etag if etag and not etag.startswith("W/") else ""
            self._begin(strong or answer.headers.get("Last-Modified", ""))
            self._copy(answer, size)

    def _ended(self, why: str) -> FetchError:
        """The error of a download that is not gone on with by itself."""
        return FetchError(
            f"cannot download {redacted(self.source)}: {why}; name a mirror in site_mirrors, and "
            "run this again: it goes on from where it was"
        )

    def _refused(self, error: urllib.error.HTTPError, have: int) -> None:
        """What an error's status means; returns only if the part turns out to be whole."""
        if error.code == 416:
            total = error.headers.get("Content-Range", "").rpartition("/")[2]
            if total == str(have):
                return
            self._restart()
            raise _AgainError("the server has less than what came before")
        status = f"the server says {error.code} {printable(str(error.reason))[:200]}"
        if error.code in PASSING:
            after = count(error.headers.get("Retry-After"))
            if after is not None:
                self.wait(min(float(after), MAX_WAIT_S))
            raise _AgainError(status)
        raise FetchError(
            f"cannot download {redacted(self.source)}: {status}; correct the address, or name a "
            "mirror in site_mirrors"
        )

    def _copy(self, stream: BufferedIOBase, total: int | None) -> None:
        """Append what comes to the part; ``total`` is the size of the whole in bytes."""
        self.total = total
        have = self._size()
        if total is not None:
            need_room(self.folder, total - have, os.path.basename(self.target))
        last_report = watched = time.monotonic()
        least = have + SLOW_BYTES
        # unbuffered: what was written is there, whatever ends us
        with open(self.partial, "ab", buffering=0) as file:
            while total is None or have <= total:  # a server may send more than it said
                try:
                    block = stream.read1(BLOCK)
                except (OSError, http.client.HTTPException) as error:
                    raise _AgainError(printable(str(error)) or type(error).__name__) from None
                if not block:
                    break
                if total is None and have + len(block) > MOST_UNSAID:
                    raise self._ended(f"it has more than {human(MOST_UNSAID)}, and no stated size")
                unwritten = memoryview(block)
                while unwritten:
                    written = file.write(unwritten)
                    have, unwritten = have + written, unwritten[written:]
                    self.received += written
                if time.monotonic() - watched > SLOW_S:
                    if have < least:
                        speed = f"{human(SLOW_BYTES)} in {SLOW_S:.0f} s"
                        raise self._ended(f"less than {speed} came")
                    watched, least = time.monotonic(), have + SLOW_BYTES
                if time.monotonic() - last_report > PROGRESS_S:
                    last_report = time.monotonic()
                    of = f" of {human(total)}" if total else ""
                    say(f"{os.path.basename(self.target)}: {human(have)}{of}")
        if total is not None and have != total:
            if have > total:
                self._restart()
            raise _AgainError(f"the connection ended after {human(have)} of {human(total)}")


# --- the program ----------------------------------------------------------------------------------


def bring(spec: dict[str, Any]) -> dict[str, bool]:
    """Put the file in place, if it is not there. Raises FetchError.

    `record` is a file that keeps, by address, the checksum of the first download of what has none
    stated; `recorded` is the one that another node has from there. `key` says where to state it.
    """
    path, expected = spec["path"], {kind: spec.get(kind, "") for kind in ("sha256", "md5")}
    record = "" if any(expected.values()) else spec.get("record", "")
    before: dict[str, str] = {**parsing.recall(record, RECORDED)} if record else {}
    address, why, cure = redacted(spec["url"]), "its pin", ""
    if record:
        expected["sha256"] = before.get(address) or spec.get("recorded", "")
        why = "another node, which has it,"
        if address in before:
            why = f"its first download, recorded in {record},"
        cure = f"state the right one as {spec['key']}, or ask who keeps the address what changed"
    if os.path.exists(path):
        sums = checksums(path)
        if all(sums[kind] == digest for kind, digest in expected.items() if digest):
            _record(record, {**before, address: sums["sha256"]}, before)
            return {"changed": False}
        os.unlink(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    source = mirrored(spec["url"], spec["mirrors"])
    download = Download(source, path, **expected, why=why, cure=cure).run()
    if _record(record, {**before, address: download.sha256}, before):
        say(
            f"{os.path.basename(path)} has no stated checksum; its SHA-256, {download.sha256}, is"
            f" compared from now on: state it as {spec['key']}"
        )
    return {"changed": True}


def _record(path: str, content: dict[str, str], before: dict[str, str]) -> bool:
    """Write checksums down, if there is a file for them and they are others than before."""
    if not path or content == before:
        return False
    write_text(path, json.dumps(content, indent=1, sort_keys=True) + "\n")
    return True
