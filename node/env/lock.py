"""The lock: every package that is there, its checksum, and what has drifted from it."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .pins import Packages

# Tools that every environment is born with: which release they are makes no node another.
INSTALLERS = {"pip", "setuptools", "wheel"}


def frozen(packages: Packages) -> list[str]:
    """The lock's lines: every package once, sorted."""
    return sorted(
        f"{name}=={entry['version']}" + (f" @ {entry['origin']}" if entry["origin"] else "")
        for name, entry in packages.items()
    )


def parsed(lines: list[str]) -> dict[str, tuple[str, str]]:
    """Lock lines back: name to version and origin."""
    halves = [line.partition(" @ ") for line in lines if line and not line.startswith("#")]
    pins = [(pin.partition("=="), address) for pin, _, address in halves]
    return {name: (version, address) for (name, _, version), address in pins}


def header(version: str) -> str:
    """The lock's first line."""
    return f"# python {version}"


def digest_of_lock(lines: list[str]) -> str:
    """A checksum that is the same where the packages are, whatever the folders are called."""
    pins = [
        f"{name}=={version} {os.path.basename(address)}".strip()
        for name, (version, address) in sorted(parsed(lines).items())
        if name not in INSTALLERS
    ]
    return hashlib.sha256("\n".join(pins).encode()).hexdigest()


def drifted(lock: list[str], packages: Packages) -> dict[str, str]:
    """Packages that are not as the lock says: name to what is wrong, in words."""
    was, now, faults = parsed(lock), parsed(frozen(packages)), {}
    for name in sorted(was.keys() | now.keys()):
        before, after = was.get(name), now.get(name)
        if after is None:
            faults[name] = f"{name} {was[name][0]} of the lock is not there"
        elif before is None:
            faults[name] = f"{name} {after[0]} is not in the lock"
        elif before[0] != after[0]:
            faults[name] = f"{name} is {after[0]}, not {before[0]} as in the lock"
        elif before != after:
            whence = [address or "an index" for address in (after[1], before[1])]
            faults[name] = f"{name} {after[0]} came from {whence[0]}, not from {whence[1]}"
    return faults
