"""What is staged on a node: check it, put it in place, take it away.

``main(spec)`` runs what ``spec["do"]`` says: ``look`` prints what is wrong with each dataset and
exits 0, ``verify`` exits 1 when something is, ``remove`` takes away what setup staged. Standard
library only, Python 3.8 or newer: it runs with whatever Python the node has.

A dataset is one folder below ``spec["root"]``. Its ``dataset.json`` is written last and removed
first, so that a folder that has one was whole once; its SHA-256 is the dataset's identity. Beside
the folders lies ``.state.json``, which is ours alone:

    staged    name of a dataset to the files that were put there: what ``remove`` may take away
    recorded  address to the SHA-256 of its first download, for files of which nobody states one
    checked   path to size, times, inode and SHA-256: a file is read again only if one of the
              others changed. What a disk loses without a trace in them is not seen
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from typing import Any

import megatron_mmap

MANIFEST = "dataset.json"
LOCK_S = 60.0
# Every system finds the vocabulary and the tokens by the name that its document gives them.
VOCAB_NAMES = ("gpt2-vocab.json", "encoder.json")
MERGES_NAMES = ("gpt2-merges.txt", "vocab.bpe")
CURE = "run setup's data step again"


class StagedError(Exception):
    """A dataset is not what it should be, or cannot be put there; one sentence."""


def sha256(path: str) -> str:
    """The file's SHA-256, read in blocks of 1 MiB."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while True:
            block = stream.read(1 << 20)
            if not block:
                return digest.hexdigest()
            digest.update(block)


def read_json(path: str) -> Any:
    """The file's content; None where there is none, or none that can be read."""
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except (OSError, ValueError):
        return None


def write_text(path: str, text: str) -> None:
    """Write a small file whole or not at all."""
    with open(path + ".new", "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(path + ".new", path)


# What an entry of the catalogue asks for


def aliases(name: str, entry: dict[str, Any]) -> dict[str, str]:
    """Further names of files, and whose: one corpus in the naming of every system."""
    tokens = f"{name}_text_document"
    found = {
        f"{prefix}{end}": f"{tokens}{end}"
        for prefix in (f"{name}_text_sentence", *entry.get("prefixes", []))
        for end in (".bin", ".idx")
    }
    found.update(dict.fromkeys(VOCAB_NAMES, "vocab.json"))
    found.update(dict.fromkeys(MERGES_NAMES, "merges.txt"))
    return found


def recipe(entry: dict[str, Any]) -> dict[str, Any]:
    """What a dataset of this entry must say of how it was made; addresses may change."""
    if "corpus" in entry:
        return dict(entry["corpus"])
    inputs = {
        each["file"]: each.get("sha256", "") or each.get("md5", "") for each in entry["inputs"]
    }
    steps = {key: entry[key] for key in ("tokens", "tokenise", "wiki", "program") if entry.get(key)}
    return {"inputs": inputs, **steps}


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
            write_text(self.path, json.dumps(self.content, indent=1, sort_keys=True) + "\n")

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


def faults(home: str, name: str, entry: dict[str, Any] | None, state: State) -> list[str]:
    """All that is wrong with a dataset; ``entry`` is None for one that somebody else made."""
    try:
        manifest = manifest_of(home)
    except StagedError as error:
        return [str(error)]
    found = []
    if entry is not None:
        made = manifest.get("recipe", {})
        for key, asked in recipe(entry).items():
            if made.get(key) != asked:
                words = f"with {key} {made.get(key)}, not {asked}"
                found.append(f"{os.path.join(home, MANIFEST)} was made {words}")
        lacking = [each for each in aliases(name, entry) if each not in manifest["sha256"]]
        if lacking and not found:
            found.append(f"{os.path.join(home, MANIFEST)} lists no {', '.join(lacking)}")
    for file, wanted in manifest["sha256"].items():
        path = os.path.join(home, file)
        if not os.path.isfile(path):
            found.append(f"{path} does not exist")
            continue
        size = os.path.getsize(path)
        if size != manifest["bytes"].get(file, size):
            found.append(f"{path} has {size} bytes, not {manifest['bytes'][file]}")
        elif state.sha256(path) != wanted:
            found.append(f"{path} has sha256 {state.sha256(path)[:12]}, not {wanted[:12]}")
    if not found:
        try:
            megatron_mmap.check(os.path.join(home, manifest["prefix"]))
        except megatron_mmap.DatasetError as error:
            found.append(str(error))
    return found


def look(spec: dict[str, Any]) -> dict[str, Any]:
    """Each dataset's fault (empty for a whole one), identity, and bytes of a beginning.

    With them the node's Python, and its address in the cluster as the inventory says it.
    """
    root = spec["root"]
    state = State(root)
    answers = {}
    for name, entry in spec["datasets"].items():
        home = os.path.join(root, name)
        wrong = faults(home, name, entry, state)
        begun = 0
        for folder, _, files in os.walk(os.path.join(root, ".work", name)):
            begun += sum(os.path.getsize(os.path.join(folder, each)) for each in files)
        identity = "" if wrong else state.sha256(os.path.join(home, MANIFEST))
        answers[name] = {"fault": "; ".join(wrong), "identity": identity, "begun": begun}
    state.save()
    python = list(sys.version_info[:2])
    return {"python": python, "address": spec["address"], "datasets": answers}


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
    _unlink(home, ledger - set(manifest["sha256"]))
    tokens = manifest["prefix"] + ".bin"
    if before.get(tokens) != manifest["sha256"][tokens]:
        _unlink(home, _index_maps(home))
    write_text(os.path.join(home, MANIFEST), text)
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


def _index_maps(home: str) -> set[str]:
    """What trainers computed from the tokens and left beside them."""
    return {os.path.basename(path) for path in glob.glob(os.path.join(home, "*_indexmap_*.npy"))}


def _unlink(home: str, files: set[str]) -> None:
    """Remove files of a folder, and the folders below it that are empty then."""
    for file in files:
        path = os.path.join(home, file)
        if os.path.lexists(path):
            os.unlink(path)
        folder = os.path.dirname(path)
        while len(folder) > len(home) and os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)
            folder = os.path.dirname(folder)


def remove(spec: dict[str, Any]) -> dict[str, Any]:
    """Take away what setup staged; what it found, and datasets of others, stay."""
    root, check = spec["root"], spec["check"]
    if not os.path.isdir(root):
        return {"changed": False, "removed": [], "kept": []}
    state = State(root)
    ours = dict(state.content["staged"])
    for path in glob.glob(os.path.join(glob.escape(root), "*", MANIFEST)):
        manifest = read_json(path)
        if isinstance(manifest, dict) and "recipe" in manifest:
            ours.setdefault(os.path.basename(os.path.dirname(path)), list(manifest["sha256"]))
    tools = [each for each in (".tools", ".work") if os.path.isdir(os.path.join(root, each))]
    if not check:
        for name, files in ours.items():
            home = os.path.join(root, name)
            if os.path.isdir(home):
                _unlink(home, {*files, *_index_maps(home), MANIFEST})
                if not os.listdir(home):
                    os.rmdir(home)
        for each in tools:
            shutil.rmtree(os.path.join(root, each))
        _unlink(root, {".state.json", ".lock"})
        if not os.listdir(root):
            os.rmdir(root)
    kept = sorted(os.listdir(root)) if os.path.isdir(root) else []
    return {"changed": bool(ours or tools), "removed": sorted(ours), "kept": kept}


def main(spec: dict[str, Any]) -> int:
    """Do what is asked; the exit code."""
    try:
        if spec["do"] == "remove":
            # a program that stages now keeps its lock: nothing is taken from under it
            with locked(spec["root"]) if os.path.isdir(spec["root"]) else contextlib.nullcontext():
                print(json.dumps(remove(spec)))
            return 0
        found = look(spec)
    except (StagedError, OSError) as error:
        print(f"dataset error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(found, sort_keys=True))
    if spec["do"] == "look":
        return 0
    wrong = {name: each["fault"] for name, each in found["datasets"].items() if each["fault"]}
    for name, words in wrong.items():
        cure = "" if "setup" in words else f"; {CURE}"
        print(f"dataset {name}: {words}{cure}", file=sys.stderr)
    return 1 if wrong else 0
