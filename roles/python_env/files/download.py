"""Download one file: resumed where it broke off, in place only when its checksum is right.

    python3 download.py < SPEC

SPEC is JSON: url (the public address), path (where the file goes), sha256 (64 digits, or "" where
nobody knows it), mirrors (beginning of an address to what stands in its place: another address, or
a folder of this node), check (say only what would happen). Prints {"changed": bool, "sha256": ""}.
Runs on the node by its own Python (3.8 or newer), standard library only. Exits 0, or 1 with one
line on stderr that says what is wrong and the cure.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import json
import os
import shutil
import sys
import time
import urllib.error
import urllib.request
from typing import Any, BinaryIO

BLOCK = 1 << 20
TRIES = 3
TIMEOUT_S = 60
MIB = 1 << 20


class DownloadError(Exception):
    """Why there is no file, with the cure."""


def mirrored(address: str, mirrors: dict[str, str]) -> str:
    """The address to use: the longest beginning that a mirror stands for is replaced."""
    fitting = [beginning for beginning in mirrors if address.startswith(beginning)]
    if not fitting:
        return address
    beginning = max(fitting, key=len)
    return mirrors[beginning] + address[len(beginning) :]


def sha256_of(path: str) -> str:
    """The file's checksum."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(BLOCK), b""):
            found.update(block)
    return found.hexdigest()


def fetch(url: str, part: str) -> None:
    """Bring what is missing of the file, from where it broke off."""
    have = os.path.getsize(part) if os.path.exists(part) else 0
    headers = {"User-Agent": "trainbench", **({"Range": f"bytes={have}-"} if have else {})}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  # a site may name file://
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT_S)  # noqa: S310
    except urllib.error.HTTPError as error:
        if have and error.code == 416:  # there is no more: it was whole already, or is another file
            return
        raise
    with answer:
        resumed = have > 0 and getattr(answer, "status", None) == 206
        with open(part, "ab" if resumed else "wb") as file:
            shutil.copyfileobj(answer, file, BLOCK)
            file.flush()
        # A connection that ends early looks like the end of the file to copyfileobj.
        length = answer.headers.get("Content-Length")
        got = os.path.getsize(part) - (have if resumed else 0)
        if length is not None and got < int(length):
            raise http.client.IncompleteRead(b"", int(length) - got)


def download(spec: dict[str, Any]) -> dict[str, Any]:
    """Put the file in place, or raise DownloadError."""
    path, wanted = spec["path"], spec["sha256"]
    if os.path.exists(path):
        have = sha256_of(path)
        if have == wanted or not wanted:
            return {"changed": False, "sha256": have}
    if spec["check"]:
        return {"changed": True, "sha256": wanted}
    url = mirrored(spec["url"], spec["mirrors"])
    address = f"file://{url}" if url.startswith("/") else url
    part = path + ".part"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    for attempt in range(1, TRIES + 1):
        resumed = os.path.exists(part)
        try:
            fetch(address, part)
        except (OSError, http.client.HTTPException) as error:
            failed(error, url, part, last=attempt == TRIES)
            time.sleep(attempt)
            continue
        have = sha256_of(part)
        if not wanted or have == wanted:
            os.replace(part, path)
            return {"changed": True, "sha256": have}
        os.unlink(part)
        if not resumed:
            raise DownloadError(
                f"{url} has sha256 {have}, not {wanted}; correct the checksum, or have the mirror "
                "give the right file"
            )
        # What was there may have been of another file: once more from the beginning.
    raise DownloadError(f"{url} came with another sha256 than {wanted} each time; see the mirror")


def failed(error: Exception, url: str, part: str, last: bool) -> None:
    """Raise what no second try can cure, or the last try's reason."""
    have = os.path.getsize(part) // MIB if os.path.exists(part) else 0
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise DownloadError(
            f"the disk of {os.path.dirname(part)} is full after {have} MiB of {url}; free some "
            "space, and the next run goes on from there"
        ) from None
    code = getattr(error, "code", None)
    reason = getattr(error, "reason", None) or error
    if code in (401, 403, 404, 410):
        raise DownloadError(
            f"{url} answers {code} {reason}; see the address, or name a mirror in site_mirrors"
        ) from None
    if last or isinstance(error, (PermissionError, FileNotFoundError)):
        raise DownloadError(
            f"{url} cannot be downloaded: {reason}; the next run goes on from {have} MiB"
        ) from None


def main(source: BinaryIO) -> int:
    """Run the command line; the exit code."""
    try:
        print(json.dumps(download(json.load(source)), sort_keys=True))
    except (DownloadError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.stdin.buffer))
