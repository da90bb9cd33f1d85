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
        kept = [line for line in lines if line and b":" not in line and not line.startswith(b"=")]
        out += base64.b64decode(b"".join(kept))
    return out


def fingerprints(data: bytes) -> list[str]:
    """Fingerprints of the primary keys in a keyring (RFC 4880: SHA-1 over the key's packet)."""
    found = []
    at = 0
    while at < len(data):
        tag = data[at]
        if not tag & 0x80:
            raise ValueError("not an OpenPGP key")
        if tag & 0x40:  # new format
            kind, first = tag & 0x3F, data[at + 1]
            if first < 192:
                size, start = first, at + 2
            elif first < 224:
                size, start = ((first - 192) << 8) + data[at + 2] + 192, at + 3
            else:
                size, start = int.from_bytes(data[at + 2 : at + 6], "big"), at + 6
        else:
            kind, width = (tag >> 2) & 0x0F, 1 << (tag & 3)
            size, start = int.from_bytes(data[at + 1 : at + 1 + width], "big"), at + 1 + width
        body = data[start : start + size]
        if kind == 6:
            whole = b"\x99" + len(body).to_bytes(2, "big") + body
            found.append(hashlib.sha1(whole).hexdigest().upper())  # noqa: S324  # what the format says
        at = start + size
    return found


def key_fault(data: bytes | None, expected: list[str]) -> str:
    """What is wrong with a keyring, empty for nothing: every key in it must be an expected one."""
    if data is None:
        return "missing"
    try:
        found = fingerprints(dearmor(data))
    except (ValueError, IndexError):
        return "not an OpenPGP key"
    wanted = {each.replace(" ", "").upper() for each in expected}
    if not found:
        return "empty"
    if set(found) <= wanted:
        return ""
    return f"key {', '.join(found)}, not {' or '.join(sorted(wanted))}"
