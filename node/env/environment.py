"""An environment with the files beside it, and the error of all that concerns it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from node import parsing
from node.answer import ProgramError
from node.files import read_text, write_text
from node.schema import Mapped, Plain, Text

from .interpreter import probe
from .lock import digest_of_lock, frozen
from .packages import installed
from .pins import pins_of

if TYPE_CHECKING:
    from .pins import Spec


RECORD = Mapped(Text(), Plain())


class EnvError(ProgramError):
    """What is wrong with the environment, with the cure."""


class Environment:
    """An environment and the files beside it."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.steps: list[Spec] = spec["steps"]
        self.path: str = spec["path"]
        self.home = os.path.dirname(self.path)
        self.python = os.path.join(self.path, "bin", "python3")
        self.config = os.path.join(self.path, "bin", "python3-config")
        self.lock_file = os.path.join(self.home, "lock.txt")
        self.record_file = os.path.join(self.home, "env.json")
        self.refresh()

    def refresh(self) -> None:
        """Look again at what is there."""
        self.facts = probe(self.python)
        self.packages = installed(self.facts)
        self.version = str(self.facts.get("version", ""))
        self.record: Spec = parsing.load(self.record_file, RECORD) or {}
        self.lock = read_text(self.lock_file).splitlines()

    def remember(self, **more: Any) -> None:
        """Write the record down."""
        self.record = {"schema": 1, "steps": {}, **self.record, **more}
        write_text(self.record_file, json.dumps(self.record, indent=2, sort_keys=True) + "\n")

    def pip(self) -> str:
        """Which pip it has."""
        return self.packages["pip"]["version"] if "pip" in self.packages else "0"

    def summary(self) -> Spec:
        """What every command says of the environment."""
        held_names = {
            name for step in self.record.get("steps", {}).values() for name in step["holds"]
        }
        names = pins_of(self.steps).keys() | (held_names & self.packages.keys())
        lines = frozen(self.packages)
        return {
            "python": self.version,
            "versions": {
                name: self.packages[name]["version"] if name in self.packages else ""
                for name in sorted(names)
            },
            "lock": digest_of_lock(lines),
            "lines": lines,
        }
