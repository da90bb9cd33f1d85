"""Checksums of files."""

from __future__ import annotations

import hashlib

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any

BLOCK = 1 << 20


def sha256(path: str) -> str:
    """Return a file's SHA-256."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(BLOCK), b""):
            digest.update(block)
    return digest.hexdigest()


def checksums(path: str) -> dict[str, str]:
    """The file's SHA-256 and MD5 (upstream states some in MD5), read once."""
    # MD5 proves that the file is upstream's, not that nobody forged it; hence both are recorded
    digests = {"sha256": hashlib.sha256(), "md5": _md5()}
    with open(path, "rb") as stream:
        while True:
            block = stream.read(BLOCK)
            if not block:
                return {kind: digest.hexdigest() for kind, digest in digests.items()}
            for digest in digests.values():
                digest.update(block)


def _md5() -> Any:
    try:
        return hashlib.md5(usedforsecurity=False)  # a node in FIPS mode refuses it otherwise
    except TypeError:  # Python 3.8
        return hashlib.md5()  # noqa: S324
