"""relied.json: the files that make up a trainer's own folder, so that a change is named."""

from collections.abc import Mapping
from pathlib import Path

from node.kinds import RELIED_FILES, having
from runner.base.text import listing
from runner.folder import names
from runner.folder.stored import UnreadableError, load, write_json

Files = Mapping[str, str]  # a path in the folder to the start of its checksum
FILE = having({"files": RELIED_FILES})


def relied_files(campaign: Path) -> dict[str, Files]:
    """Return a campaign's files by what they make up; empty where they were not recorded."""
    try:
        return dict((load(campaign / names.RELIED, FILE) or {"files": {}})["files"])
    except UnreadableError:  # it only names what changed
        return {}


def record_files(campaign: Path, files: Mapping[str, Files]) -> None:
    """Write them down."""
    write_json(
        campaign / names.RELIED, {"files": {name: dict(sums) for name, sums in files.items()}}
    )


def changed_files(was: Files, now: Files) -> str:
    """Say `train.py changed, new.py is new`; nothing where none of it is known."""
    changes = [
        f"{path} is new"
        if path not in was
        else f"{path} is gone"
        if path not in now
        else f"{path} changed"
        for path in sorted({**was, **now})
        if was.get(path) != now.get(path)
    ]
    return listing(changes)
