"""JSON files of a campaign: written whole or not at all; whatever one holds is checked first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from node import parsing
from node.schema import UnfitError, unfit, value_text
from runner.base.errors import UserError
from runner.base.exclusive import make_private
from runner.base.files import atomic_file

if TYPE_CHECKING:
    from node.schema import Kind

SCHEMA = 1


class UnreadableError(UserError):
    """A file of a campaign holds what this version does not write."""


def load(path: Path, kind: Kind, where: str = "") -> Any:
    """Return what a JSON file says, checked by `kind`; None where there is no such file.

    `where` is what messages call the file, its path without. Raises UnreadableError of one sentence
    for a file that cannot be read, or does not fit.
    """
    try:
        return parsing.load(str(path), kind, where=where)
    except UnfitError as error:
        raise UnreadableError(str(error)) from None


class OfThisVersion:
    """A kind whose file says which version of it is meant; another one is refused as that."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def check(self, value: Any, where: str) -> Any:
        """Return what the kind makes of it. Raises UnfitError."""
        if isinstance(value, dict) and value.get("schema", SCHEMA) != SCHEMA:
            version = value_text(value["schema"])
            raise unfit(where, f"is of another version of TrainBench: schema {version}")
        return self.kind.check(value, where)

    def json_schema(self) -> dict[str, Any]:
        """Return the kind's."""
        return self.kind.json_schema()


def write_json(path: Path, content: dict[str, Any]) -> bytes:
    """Write JSON so that a crash leaves the old file or the new one, on the disk, whole.

    Returns its bytes.
    """
    make_private(path.parent)
    text = json.dumps({"schema": SCHEMA, **content}, indent=1).encode() + b"\n"
    with atomic_file(path, follow=False) as stream:
        stream.write(text)
    return text


def write_script(path: Path, text: str) -> None:
    """Write a program that its owner alone may read and start, in place of whatever is there."""
    with atomic_file(path, 0o700, follow=False) as stream:
        stream.write(text.encode())
