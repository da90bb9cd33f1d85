"""The files of a folder that decide what a trainer in it does, as one checksum.

Programs count everywhere; settings where they are beside programs, at the top, or in a
folder called after them (conf, config, recipes). What runs write must not count, as the next run
would be another one then: folders that are called after results (out, runs, checkpoints, wandb) are
left out, and so is what is hidden, or no plain file.
"""

from __future__ import annotations

import hashlib
import os
import re
import time

from node.answer import ProgramError
from node.files import NotPlainError, open_plain
from node.printable import printable

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Iterable, Iterator, List, Tuple

PROGRAMS = (".py", ".pyi", ".pyx", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".sh")
SETTINGS = (".toml", ".yaml", ".yml", ".json", ".cfg", ".ini")
RESULTS = re.compile(
    r"\..*|__pycache__|node_modules|site-packages|wandb|mlruns|lightning_logs|multirun|work_dirs"
    r"|runs?|(out(put)?|result|checkpoint|ckpt)s?([-_.0-9].*)?",
    re.IGNORECASE,
)
OF_SETTINGS = re.compile(r"(conf|recipe|setting).*", re.IGNORECASE)
VENV = "pyvenv.cfg"  # of a folder that is a Python's environment
MOST_ENTRIES = 200_000  # that are looked at
MOST_FILES = 20_000  # that are read
MOST_BYTES = 256 << 20
LIMIT_S = 120.0
CURE = "put it under git, with a .gitignore that names what runs write"


class FingerprintError(ProgramError):
    """Why it cannot be said what a folder or a Python is, with the cure."""


class Limits:
    """What one folder may cost, and which files in it do not count; `folder` is its user's name.

    `apart` are checksums of files that decide nothing, such as the matrix that names the trainer.
    `told` is what its checksum was made of last: paths, and what is at each.
    """

    def __init__(self, folder: str, apart: Iterable[str] = ()) -> None:
        self.folder, self.apart = printable(folder), frozenset(apart)
        self.counted_entries: List[Tuple[str, str]] = []
        self.entries, self.files, self.bytes = MOST_ENTRIES, MOST_FILES, MOST_BYTES
        self.until = time.monotonic() + LIMIT_S

    def entry(self) -> None:
        """Count a file or folder that is looked at. Raises FingerprintError."""
        self.entries -= 1
        self._hold(self.entries, "more than %d files and folders" % MOST_ENTRIES)
        self.remaining_s()

    def file(self) -> None:
        """Count a file that is read. Raises FingerprintError."""
        self.files -= 1
        self._hold(self.files, "more than %d program and settings files" % MOST_FILES)
        self.remaining_s()

    def read(self, count: int) -> None:
        """Count bytes that were read. Raises FingerprintError."""
        self.bytes -= count
        self._hold(self.bytes, "more than %d MiB of programs and settings" % (MOST_BYTES >> 20))

    def remaining_s(self) -> float:
        """Return the seconds that are left. Raises FingerprintError without any."""
        seconds_left = self.until - time.monotonic()
        self._hold(seconds_left, "more than can be looked at in %g s" % LIMIT_S)
        return seconds_left

    def _hold(self, remaining: float, excess: str) -> None:
        if remaining < 0:
            raise FingerprintError("%s holds %s; %s" % (self.folder, excess, CURE))


def holds_results(path: str) -> bool:
    """Whether a path within the folder leads through one that holds results."""
    return any(RESULTS.fullmatch(component) for component in path.split("/")[:-1])


def chosen(paths: Iterable[str]) -> List[str]:
    """Return those of the paths within a folder that count, in one order on every node."""
    looked = [path for path in paths if not holds_results(path)]
    programs = [path for path in looked if path.endswith(PROGRAMS)]
    beside = {os.path.dirname(path) for path in programs} | {""}
    settings = [
        path
        for path in looked
        if path.endswith(SETTINGS)
        and (
            os.path.dirname(path) in beside
            or any(OF_SETTINGS.fullmatch(component) for component in path.split("/")[:-1])
        )
    ]
    return sorted(programs + settings)


def walked(top: str, limits: Limits) -> Iterator[str]:
    """Yield the files below a folder, by their paths within it; links to folders lead nowhere."""
    ahead = [""]
    while ahead:
        folder = ahead.pop()
        try:
            with os.scandir(os.path.join(top, folder)) as scanned:
                entries = list(_counted(scanned, limits))
        except (PermissionError, FileNotFoundError, NotADirectoryError):
            if not folder:
                raise
            continue  # what may not be read is no program of this user's
        if folder and any(entry.name == VENV for entry in entries):
            continue
        for entry in entries:
            path = os.path.join(folder, entry.name)
            if not entry.is_dir(follow_symlinks=False):
                yield path
            elif not RESULTS.fullmatch(entry.name):
                ahead.append(path)


def _counted(scanned: Iterable[os.DirEntry[str]], limits: Limits) -> Iterator[os.DirEntry[str]]:
    for entry in scanned:
        limits.entry()
        yield entry


def content(path: str, limits: Limits) -> str:
    """Return what is at a path as a word: a plain file's checksum, or why it is missing."""
    limits.file()
    checksum = hashlib.sha256()
    try:
        with open_plain(os.path.realpath(path)) as stream:  # a trainer may have links
            for block in iter(lambda: stream.read(1 << 20), b""):
                limits.read(len(block))
                checksum.update(block)
    except NotPlainError:
        return "no file"
    except PermissionError:
        return "unreadable"
    except OSError as error:
        if not os.path.exists(path):  # it went meanwhile, or a link leads nowhere
            return "missing"
        message = "%s cannot be read: %s; fix it, or move it away"
        raise FingerprintError(message % (printable(path), error.strerror)) from None
    return checksum.hexdigest()


def digest(entries: Iterable[Tuple[str, str]]) -> str:
    """Return one checksum of paths and what is at each."""
    checksum = hashlib.sha256()
    for path, state in entries:
        name = os.fsencode(path)
        checksum.update(b"%d %s %s\n" % (len(name), name, state.encode()))
    return checksum.hexdigest()


def checksum_of(top: str, limits: Limits) -> str:
    """Return the checksum of a folder's programs and settings. Raises OSError, FingerprintError."""
    paths = chosen(walked(top, limits))
    return digest(
        counted(((path, content(os.path.join(top, path), limits)) for path in paths), limits)
    )


def counted(entries: Iterable[Tuple[str, str]], limits: Limits) -> List[Tuple[str, str]]:
    """Return those that count, and keep them as what was told of the folder."""
    limits.counted_entries = [(path, state) for path, state in entries if state not in limits.apart]
    return limits.counted_entries
