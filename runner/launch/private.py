"""Where ansible-runner keeps its files: a folder a play, and no secret in any of them."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.base.exclusive import make_private, open_lock, refuse_untrusted, take
from runner.folder import names

PATIENCE_S = 10.0  # with another bench of the same runs/ that sweeps there
NEVER_S = -1.0  # one try


@contextmanager
def private_folder(private: Path) -> Iterator[Path]:
    """Give a play a new folder in `private`, 0700 as that is, and sweep what killed plays left.

    A reused folder would leak the last play's variables. Each is locked while its runner lives, so
    that benches of other campaigns sweep none but those of the dead.
    """
    make_private(private)
    refuse_untrusted(private, above=False)  # those above it are the campaign's, which is held
    with open_lock(private / names.LOCK) as door:
        take(door, PATIENCE_S)
        for folder in private.glob("tmp*"):
            _sweep(folder)
        folder = Path(tempfile.mkdtemp(prefix="tmp", dir=private))
        lock = open_lock(folder / names.LOCK)
        take(lock, NEVER_S)
    with lock:
        yield folder


@contextmanager
def in_memory(path: Path) -> Iterator[None]:
    """Let what is written to `path` go to memory alone, which ends with this process."""
    make_private(path.parent)
    memory = os.memfd_create(path.name)
    try:
        path.symlink_to(f"/proc/self/fd/{memory}")
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(memory)


def _sweep(folder: Path) -> None:
    """Remove a play's folder whose runner was killed; one whose play failed stays for a look."""
    if (folder / "artifacts" / "play" / "rc").exists():
        return
    with open_lock(folder / names.LOCK) as lock:
        if take(lock, NEVER_S):
            shutil.rmtree(folder, ignore_errors=True)
