"""A site's folder: written whole or not at all, and never over other files."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from node.printable import printable
from node.program_output import os_error_words
from runner import __version__
from runner.base.errors import UserError
from runner.base.escapes import json_text
from runner.base.text import listing

MARK = "trainbench-site.json"  # says what a site wrote into a folder: the next one may replace that


class UnwritableError(UserError):
    """A file of a site cannot be written: the site is at fault, and no campaign."""


@contextmanager
def new_site(target: Path, sources: Sequence[Path] = ()) -> Iterator[Path]:
    """Give an empty folder that takes the place of `target` once it is full.

    Until then, and where anything fails, `target` is what it was. Raises UserError where it holds
    what no site wrote, is in a source or has one in it, or cannot be written.
    """
    target = Path(os.path.abspath(target))  # a link stays a link's name
    name = printable(str(target))
    _refuse_sources(target, name, sources)
    _refuse_others(target, name)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        why = os_error_words(error, str(target.parent))
        raise UserError(f"{name} cannot be written: {why}") from None
    try:
        umask = os.umask(0)
        os.umask(umask)
        fresh.chmod(0o777 & ~umask)
        yield fresh
        wrote = sorted(path.name for path in fresh.iterdir())
        files = sorted(_files(fresh))
        mark = {"schema": 1, "trainbench": __version__, "wrote": wrote, "files": files}
        write(fresh / MARK, json_text(mark) + "\n")
        _refuse_others(target, name)  # what came meanwhile
        _replace(target, fresh)
    except OSError as error:
        why = os_error_words(error, str(fresh))
        raise UserError(f"{name} cannot be written: {why}") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _refuse_others(target: Path, name: str) -> None:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise UserError(f"{name} is not a folder; name a new one, or a site to replace")
    there = {path.name for path in target.iterdir()} if target.is_dir() else set()
    written, files = _wrote(target)
    foreign = sorted(there - written) or sorted(_files(target) - files if files else ())
    if foreign:
        raise UserError(
            f"{name} holds what `python -m runner site` did not write"
            f" ({printable(listing(foreign))}); move it elsewhere, or name a folder"
            " that is empty or not there"
        )


def _refuse_sources(target: Path, name: str, sources: Sequence[Path]) -> None:
    home = target.resolve()
    for source in (source.resolve() for source in sources):
        if home == source or home in source.parents or (source in home.parents):
            raise UserError(
                f"{name} and {printable(str(source))} are inside each other, so the campaign would"
                " be replaced or be in its own site; name a folder beside it"
            )
    here = Path.cwd()
    if home == here or home in here.parents:
        raise UserError(f"{name} is the current folder and would be replaced; name another folder")


def _files(folder: Path) -> set[str]:
    """Return all files and links below a folder, by their paths in it."""
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


def _wrote(target: Path) -> tuple[set[str], set[str]]:
    """Return the names in a folder that a site says it wrote, and all its files; none without
    a site. One of an older version names no files.
    """
    try:
        mark = json.loads((target / MARK).read_text())
        files = set(map(str, mark.get("files", ())))
        return {MARK, *map(str, mark["wrote"])}, {MARK, *files} if files else set()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return set(), set()


def _replace(target: Path, fresh: Path) -> None:
    old = None
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
        target.replace(old)
    try:
        fresh.replace(target)
    except BaseException:  # Ctrl-C, too, finds a site at its place
        if old is not None:
            old.replace(target)
        raise
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)


def write(path: Path, text: str) -> None:
    """Write a file of a site, with the folders above it. Raises UnwritableError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        why = os_error_words(error, str(path.parent))
        raise UnwritableError(f"the site cannot be written: {why}") from None
