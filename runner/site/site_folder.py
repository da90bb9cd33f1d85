"""A site's folder: written whole or not at all, and never over what is none of ours."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from node.printable import printable
from runner import __version__
from runner.base.errors import UserError
from runner.base.escapes import json_text

MARK = "trainbench-site.json"  # says that a folder is a site, which the next one may replace


@contextmanager
def new_site(target: Path) -> Iterator[Path]:
    """Give an empty folder that takes the place of `target` once it is full.

    Until then, and where anything fails, `target` is what it was. Raises UserError where it holds
    what is no site, or cannot be written.
    """
    target = Path(os.path.abspath(target))  # a link stays a link's name
    shown = printable(str(target))
    _refuse_others(target, shown)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise UserError(f"{shown} cannot be written: {error.strerror}") from None
    try:
        umask = os.umask(0)
        os.umask(umask)
        fresh.chmod(0o777 & ~umask)
        write(fresh / MARK, json_text({"schema": 1, "trainbench": __version__}) + "\n")
        yield fresh
        _refuse_others(target, shown)  # what came meanwhile
        _replace(target, fresh)
    except OSError as error:
        raise UserError(f"{shown} cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _refuse_others(target: Path, shown: str) -> None:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise UserError(f"{shown} is no folder; name one that is not there, or a site to replace")
    if target.is_dir() and any(target.iterdir()) and not (target / MARK).is_file():
        raise UserError(
            f"{shown} holds files that `python -m runner site` did not write; name a folder that is"
            " empty or not there, or a site to replace"
        )


def _replace(target: Path, fresh: Path) -> None:
    old = None
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
        target.replace(old)
    try:
        fresh.replace(target)
    except OSError:
        if old is not None:
            old.replace(target)
        raise
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)


def write(path: Path, text: str) -> None:
    """Write a file of a site, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
