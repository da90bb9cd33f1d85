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
from collections.abc import Iterable, Iterator
from typing import AbstractSet, Any, Dict, NamedTuple, Optional

from node import parsing
from node.answer import ProgramError
from node.checksum import sha256
from node.files import write_bytes, write_text
from node.schema import Fields, List, Mapped, Plain, Row, Text, Whole
from node.validated_text import FileName, InsidePath, Sha256

MANIFEST = "dataset.json"
MOST_MANIFEST = 8 << 20  # bytes of a dataset.json; share fetches it as one chunk
MOST_FILES = 100_000  # of one dataset
LOCK_S = 60.0

Sums = Dict[InsidePath, Sha256]  # Python 3.8 takes no dict[...] outside of annotations


class StagedError(ProgramError):
    """A dataset is not what it should be, or cannot be put there; one sentence."""


class Manifest(NamedTuple):
    """What of a dataset.json programs here use: whatever node wrote it, its names stay inside."""

    prefix: InsidePath
    bytes: Dict[InsidePath, int]
    sha256: Sums
    recipe: Optional[Dict[str, Any]]  # None for one that somebody made by hand
    recorded: Dict[str, Sha256]


_ADDRESS = Text(most=4_000)
_CHECKED = Row(Whole(), Whole(), Whole(), Whole(), Sha256)
KIND = Fields(
    {
        "prefix": InsidePath,
        "bytes": Mapped(InsidePath, Whole(), MOST_FILES),
        "sha256": Mapped(InsidePath, Sha256, MOST_FILES),
    },
    {
        "recipe": (Mapped(Text(), Plain(lines=True)), None),
        "recorded": (Mapped(_ADDRESS, Sha256), {}),
    },
    make=Manifest,
)
STATE = Fields(
    {},
    {
        "staged": (Mapped(FileName, List(InsidePath)), {}),
        "recorded": (Mapped(_ADDRESS, Sha256), {}),
        "checked": (Mapped(Text(lines=True), _CHECKED, 10 * MOST_FILES), {}),
    },
)


# The state beside the datasets


class State:
    """``.state.json``; written back by ``save``, and only if something changed."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.path = os.path.join(root, ".state.json")
        # Without it a cache is lost; whose the datasets are, their manifests say.
        content = parsing.recall(self.path, STATE) or STATE.check({}, "")
        self.content: dict[str, Any] = {key: dict(entry) for key, entry in content.items()}
        self._before = json.dumps(self.content, sort_keys=True)

    def save(self) -> None:
        """Write it down; a folder that we may not write in costs only the cache."""
        if self._before == json.dumps(self.content, sort_keys=True):
            return
        with contextlib.suppress(OSError):
            write_text(
                self.path,
                json.dumps(self.content, indent=1, sort_keys=True) + "\n",
                survives_power_loss=True,
            )

    def sha256(self, path: str) -> str:
        """The file's SHA-256, read only if it may have changed since it was last read."""
        key = stamp(path)
        entry = self.content["checked"].get(path)
        if entry and entry[:4] == key:
            return str(entry[4])
        # a link to a file that was read already
        for other_entry in self.content["checked"].values():
            if other_entry[:4] == key:
                self.content["checked"][path] = list(other_entry)
                return str(other_entry[4])
        checksum = sha256(path)
        self.content["checked"][path] = [*key, checksum]
        return checksum

    def forget(self, home: str) -> None:
        """Nothing of a folder is known any more."""
        checked = self.content["checked"]
        for path in [
            path_of_file for path_of_file in checked if path_of_file.startswith(home + os.sep)
        ]:
            del checked[path]


def stamp(path: str) -> list[int]:
    """Return what tells whether a file was touched since."""
    state = os.stat(path)
    return [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]


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


def manifest_of(home: str) -> Manifest:
    """The content of dataset.json. Raises ProgramError."""
    path = os.path.join(home, MANIFEST)
    manifest: Manifest | None = parsing.load(path, KIND, MOST_MANIFEST)
    if manifest is None:
        raise StagedError(f"{path} does not exist")
    return manifest


def manifest_in(text: bytes, title: str) -> Manifest:
    """What the text of a dataset.json says. Raises ProgramError."""
    manifest: Manifest = parsing.parse(text, KIND, title, MOST_MANIFEST)
    for file in manifest.sha256:
        if file not in manifest.bytes:
            raise StagedError(f"{title} does not say how many bytes {file} has")
    return manifest


# Putting in place


def refuse_foreign(home: str, name: str, state: State) -> Manifest | None:
    """Return what there is that setup put there; raise StagedError for what somebody else did."""
    try:
        manifest = manifest_of(home)
    except ProgramError:
        manifest = None
    ours = name in state.content["staged"] or (manifest and manifest.recipe is not None)
    if not ours and os.path.isdir(home) and os.listdir(home):
        raise StagedError(
            f"{home} holds files that setup did not put there; move them away, or give the dataset "
            "another name"
        )
    return manifest


def move_in(
    root: str, name: FileName, out: str, text: bytes, addresses: Iterable[str] = ()
) -> None:
    """Move the files that a manifest lists from ``out`` to the dataset's folder, the manifest last.

    ``text`` is dataset.json, byte for byte. Foreign files of the folder stay. ``addresses`` are
    the dataset's own, as the control node names them: checksums of others are not recorded,
    whatever the manifest says.
    """
    home = os.path.join(root, name)
    manifest = manifest_in(text, f"{name}'s {MANIFEST}")
    state = State(root)
    old = refuse_foreign(home, name, state)
    before: Sums = old.sha256 if old else {}
    ledger = {*state.content["staged"].get(name, []), *before, *manifest.sha256}
    places = {file: inside(home, file) for file in ledger}
    state.content["staged"][name] = sorted(ledger)
    state.forget(home)
    os.makedirs(home, exist_ok=True)
    state.save()
    if os.path.lexists(os.path.join(home, MANIFEST)):
        os.unlink(os.path.join(home, MANIFEST))
    for file in manifest.sha256:
        os.makedirs(os.path.dirname(places[file]), exist_ok=True)
        os.replace(os.path.join(out, file), places[file])
    unlink(home, ledger - manifest.sha256.keys())
    if tokens_of(before, manifest) != tokens_of(manifest.sha256, manifest):
        unlink(home, index_maps(home))
    write_bytes(os.path.join(home, MANIFEST), text, survives_power_loss=True)
    state.content["staged"][name] = sorted(manifest.sha256)
    for file, digest in manifest.sha256.items():
        # they were read a moment ago, on their way here
        path = places[file]
        state.content["checked"][path] = [*stamp(path), digest]
    recordable = frozenset(addresses)
    for address, digest in manifest.recorded.items():
        if address in recordable:
            state.content["recorded"].setdefault(address, digest)
    state.save()


def inside(home: str, file: InsidePath) -> str:
    """Where a file of a folder is written or removed. Raises StagedError where a link leads out."""
    folder = os.path.dirname(file)
    while folder:
        if os.path.islink(os.path.join(home, folder)):
            raise StagedError(
                f"{os.path.join(home, folder)} is a link, and setup changes nothing behind it; "
                "remove it and run setup again"
            )
        folder = os.path.dirname(folder)
    return os.path.join(home, file)


def tokens_of(sums: Sums, manifest: Manifest) -> list[Sha256]:
    """The checksum of the tokens that a manifest names, among those given; none for another's."""
    return [digest for file, digest in sums.items() if file == manifest.prefix + ".bin"]


def index_maps(home: str) -> set[InsidePath]:
    """What trainers computed from the tokens and left beside them."""
    paths = glob.glob(os.path.join(glob.escape(home), "*_indexmap_*.npy"))
    return {InsidePath(os.path.basename(path)) for path in paths}


def unlink(home: str, files: AbstractSet[InsidePath]) -> None:
    """Remove files of a folder, and the folders below it that are empty then."""
    for file in files:
        path = inside(home, file)
        if os.path.lexists(path):
            os.unlink(path)
        folder = os.path.dirname(path)
        while len(folder) > len(home) and os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)
            folder = os.path.dirname(folder)
