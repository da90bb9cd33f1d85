"""Checksums of files."""

from __future__ import annotations

import hashlib

BLOCK = 1 << 20


def sha256(path: str) -> str:
    """Return a file's SHA-256."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(BLOCK), b""):
            digest.update(block)
    return digest.hexdigest()
