"""What setup put there: systems with their pins, datasets."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from .machine import Machine
from .text_values import load


def pins(machine: Machine, root: str) -> dict[str, Any]:
    """Each system and pin set that is installed, what it is made of, and its lock."""
    pin_sets = {}
    for path in machine.glob(f"{root}/systems/*/*/installed.json"):
        home = path.rsplit("/", 1)[0]
        content = load(machine, path)
        lock = machine.text(f"{home}/lock.txt")
        pin_sets["/".join(home.rsplit("/", 2)[1:])] = {
            "home": home,
            "identity": None if content is None else content.get("identity"),
            "lock_sha256": None if lock is None else hashlib.sha256(lock.encode()).hexdigest(),
            "lock": locked(lock or ""),
            "torch": torch_version(machine, home),
        }
    return pin_sets


def locked(text: str) -> dict[str, str]:
    """A lock's packages: name to version (or address)."""
    packages = {}
    for line in text.splitlines():
        line = line.split(" --hash", 1)[0].split("#", 1)[0].strip().rstrip("\\").strip()
        if match := re.match(r"([A-Za-z0-9._-]+)\s*(?:==|@|=)\s*(\S.*)", line):
            packages[match[1].lower()] = match[2]
    return packages


def torch_version(machine: Machine, home: str) -> str | None:
    """The torch of an environment, from its own file and without importing it."""
    for library in ("lib/python3*/site-packages", "lib/python3*/dist-packages"):
        for path in machine.glob(f"{home}/env/{library}/torch/version.py"):
            match = re.search(r"__version__ = '([^']+)'", machine.text(path) or "")
            return match[1] if match else "unknown"
    return None


def datasets(machine: Machine, root: str) -> dict[str, Any]:
    """Each dataset's checksums, as its manifest has them (the role's verify reads the files)."""
    checksums = {}
    for path in machine.glob(f"{root}/datasets/*/dataset.json"):
        content = load(machine, path) or {}
        checksums[path.rsplit("/", 2)[1]] = {"sha256": content.get("sha256")}
    return checksums
