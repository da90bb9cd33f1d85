"""OpenPGP keys and their fingerprints, on a node that may have no gpg: pure."""

from __future__ import annotations

import base64
import hashlib


def dearmor(data: bytes) -> bytes:
    """The bytes of an OpenPGP key, whether or not it comes as text."""
    if b"-----BEGIN PGP PUBLIC KEY BLOCK-----" not in data:
        return data
    out = b""
    for block in data.split(b"-----BEGIN PGP PUBLIC KEY BLOCK-----")[1:]:
        body = block.split(b"-----END PGP")[0].replace(b"\r", b"").strip(b"\n")
        # headers such as `Version: ...` end with an empty line; the last line is a checksum
        lines = [line.strip() for line in body.split(b"\n")]
        encoded = [
            line for line in lines if line and b":" not in line and not line.startswith(b"=")
        ]
        out += base64.b64decode(b"".join(encoded))
    return out


def fingerprints(data: bytes) -> list[str]:
    """Fingerprints of the primary keys in a keyring (RFC 4880: SHA-1 over the key's packet)."""
    prints = []
    at = 0
    while at < len(data):
        tag = data[at]
        if not tag & 0x80:
            raise ValueError("not an OpenPGP key")
        if tag & 0x40:  # new format
            kind, length = tag & 0x3F, data[at + 1]
            if length < 192:
                size, start = length, at + 2
            elif length < 224:
                size, start = ((length - 192) << 8) + data[at + 2] + 192, at + 3
            else:
                size, start = int.from_bytes(data[at + 2 : at + 6], "big"), at + 6
        else:
            kind, width = (tag >> 2) & 0x0F, 1 << (tag & 3)
            size, start = int.from_bytes(data[at + 1 : at + 1 + width], "big"), at + 1 + width
        body = data[start : start + size]
        if kind == 6:
            packet = b"\x99" + len(body).to_bytes(2, "big") + body
            prints.append(hashlib.sha1(packet).hexdigest().upper())  # noqa: S324  # what the format says
        at = start + size
    return prints


def key_fault(data: bytes | None, expected: list[str]) -> str:
    """What is wrong with a keyring, empty for nothing: every key in it must be an expected one."""
    if data is None:
        return "missing"
    try:
        present = fingerprints(dearmor(data))
    except (ValueError, IndexError):
        return "not an OpenPGP key"
    allowed = {fingerprint.replace(" ", "").upper() for fingerprint in expected}
    if not present:
        return "empty"
    if set(present) <= allowed:
        return ""
    return f"key {', '.join(present)}, not {' or '.join(sorted(allowed))}"
