"""Folders of files that a manifest describes, such as datasets: their state, and putting one there.

A dataset is one folder below a root. Its ``dataset.json`` is written last and removed first, so
that a folder that has one was whole once; its SHA-256 is the dataset's identity. Beside the folders
lies ``.state.json``, which is ours alone:

    staged    name of a dataset to the files that were put there: what ``remove`` may take away
    recorded  address to the SHA-256 of its first download, for files of which nobody states one
    checked   path to size, times, inode and SHA-256: a file is read again only if one of the
              others changed. What a disk loses without a trace in them is not seen
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
import time
from collections.abc import Iterator
from typing import Any

from node.answer import ProgramError
from node.checksum import sha256
from node.files import read_json, write_text

MANIFEST = "dataset.json"
LOCK_S = 60.0


class StagedError(ProgramError):
    """A dataset is not what it should be, or cannot be put there; one sentence."""


# The state beside the datasets


class State:
    """``.state.json``; written back by ``save``, and only if something changed."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.path = os.path.join(root, ".state.json")
        content = read_json(self.path)
        self.content: dict[str, Any] = content if isinstance(content, dict) else {}
        for key in ("staged", "recorded", "checked"):
            self.content.setdefault(key, {})
        self._before = json.dumps(self.content, sort_keys=True)

    def save(self) -> None:
        """Write it down; a folder that is not ours to write in costs the cache, no more."""
        if self._before == json.dumps(self.content, sort_keys=True):
            return
        with contextlib.suppress(OSError):
            write_text(
                self.path, json.dumps(self.content, indent=1, sort_keys=True) + "\n", last=True
            )

    def sha256(self, path: str) -> str:
        """The file's SHA-256, read only if it may have changed since it was last read."""
        state = os.stat(path)
        key = [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]
        known = self.content["checked"].get(path)
        if known and known[:4] == key:
            return str(known[4])
        # a link to a file that was read already
        for other in self.content["checked"].values():
            if other[:4] == key:
                self.content["checked"][path] = list(other)
                return str(other[4])
        found = sha256(path)
        self.content["checked"][path] = [*key, found]
        return found

    def forget(self, home: str) -> None:
        """Nothing of a folder is known any more."""
        checked = self.content["checked"]
        for path in [each for each in checked if each.startswith(home + os.sep)]:
            del checked[path]


@contextlib.contextmanager
def locked(root: str) -> Iterator[None]:
    """Alone among the programs that change what lies below ``root``. Raises StagedError."""
    os.makedirs(root, exist_ok=True)
    with open(os.path.join(root, ".lock"), "a", encoding="utf-8") as file:
        until = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise StagedError(
                        f"another program stages data in {root}, perhaps of a run that was cut "
                        "off; wait until it has ended and run this again"
                    ) from None
                time.sleep(0.5)
        yield


# Checking


def manifest_of(home: str) -> dict[str, Any]:
    """The content of dataset.json. Raises StagedError."""
    path = os.path.join(home, MANIFEST)
    if not os.path.exists(path):
        raise StagedError(f"{path} does not exist")
    content = read_json(path)
    if not isinstance(content, dict):
        raise StagedError(f"{path} is not JSON")
    for key in ("prefix", "bytes", "sha256"):
        if key not in content:
            raise StagedError(f"{path} has no {key!r}")
    return content


# Putting in place


def refuse_foreign(home: str, name: str, state: State) -> None:
    """What somebody else put there must not be replaced. Raises StagedError."""
    if name in state.content["staged"] or not os.path.isdir(home) or not os.listdir(home):
        return
    manifest = read_json(os.path.join(home, MANIFEST))
    if not isinstance(manifest, dict) or "recipe" not in manifest:
        raise StagedError(
            f"{home} holds files that setup did not put there; move them away, or give the dataset "
            "another name"
        )


def place(root: str, name: str, out: str, manifest: dict[str, Any], text: str) -> None:
    """Move the files that a manifest lists from ``out`` to the dataset's folder, the manifest last.

    ``text`` is dataset.json, byte for byte. Foreign files of the folder stay.
    """
    home = os.path.join(root, name)
    state = State(root)
    refuse_foreign(home, name, state)
    old = read_json(os.path.join(home, MANIFEST))
    before: dict[str, str] = old.get("sha256", {}) if isinstance(old, dict) else {}
    ledger = {*state.content["staged"].get(name, []), *before, *manifest["sha256"]}
    state.content["staged"][name] = sorted(ledger)
    state.forget(home)
    os.makedirs(home, exist_ok=True)
    state.save()
    if old is not None:
        os.unlink(os.path.join(home, MANIFEST))
    for file in manifest["sha256"]:
        target = os.path.join(home, file)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.replace(os.path.join(out, file), target)
    unlink(home, ledger - set(manifest["sha256"]))
    tokens = manifest["prefix"] + ".bin"
    if before.get(tokens) != manifest["sha256"][tokens]:
        unlink(home, index_maps(home))
    write_text(os.path.join(home, MANIFEST), text, last=True)
    state.content["staged"][name] = sorted(manifest["sha256"])
    for file, digest in manifest["sha256"].items():
        # they were read a moment ago, on their way here
        path = os.path.join(home, file)
        now = os.stat(path)
        key = [now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino]
        state.content["checked"][path] = [*key, digest]
    for address, digest in manifest.get("recorded", {}).items():
        state.content["recorded"].setdefault(address, digest)
    state.save()


def index_maps(home: str) -> set[str]:
    """What trainers computed from the tokens and left beside them."""
    return {os.path.basename(path) for path in glob.glob(os.path.join(home, "*_indexmap_*.npy"))}


def unlink(home: str, files: set[str]) -> None:
    """Remove files of a folder, and the folders below it that are empty then."""
    for file in files:
        path = os.path.join(home, file)
        if os.path.lexists(path):
            os.unlink(path)
        folder = os.path.dirname(path)
        while len(folder) > len(home) and os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)
            folder = os.path.dirname(folder)
