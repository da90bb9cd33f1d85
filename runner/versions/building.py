"""Build the pin sets of a matrix on the nodes, by the roles of their systems (software.yml)."""

import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.base.console import Screen
from runner.base.errors import UserError
from runner.folder import names
from runner.launch.playbook import INTERRUPTED, PlaybookEnd, run_playbook
from runner.matrix.pins_key import HERE, NO_COMMIT
from runner.study.study import BuildInterruptedError, PinSets
from runner.systems.common.pins import pins
from runner.versions.git_history import repository_of

PLAYBOOK = "software.yml"
MOST_WORDS = 300  # of why a pin set could not be built


@dataclass
class Builder:
    """Builds pin sets on the nodes of an inventory; its playbooks' output goes to `runs`.

    `here` is the folder of the matrix, whose git repository `repository: .` means.
    """

    inventory: Path
    runs: Path
    here: Path
    console: Screen | None = None  # for its steps; None: standard output

    def build(self, systems: Mapping[str, PinSets]) -> dict[tuple[str, str], str]:
        """Build each system's pin sets; return why, of those that could not be built.

        Raises UserError for one that cannot be asked for, BuildInterruptedError.
        """
        failed: dict[tuple[str, str], str] = {}
        for system, sets in systems.items():
            ready = {name: self._ready(name, pin_set) for name, pin_set in sets.items()}
            if not ready:
                continue
            why = self._played(system, ready)
            if why and len(ready) == 1:
                failed[system, next(iter(ready))] = why
            elif why:  # one of them: the others are built by themselves
                for name, pin_set in ready.items():
                    if why := self._played(system, {name: pin_set}):
                        failed[system, name] = why
        return failed

    def _ready(self, name: str, pin_set: Mapping[str, Any]) -> dict[str, Any]:
        """Return a pin set as the role takes it, its repository an address."""
        source = pin_set.get("source")
        if source is None:
            return dict(pin_set)
        if source.get("commit") in (None, NO_COMMIT):
            raise UserError(
                f"pin set {name}: its source names no commit, which only `ci` and `bisect` fill in;"
                " write commit: with its 40 digits, or use one of these commands"
            )
        if source["repository"] != HERE:
            return dict(pin_set)
        return {**pin_set, "source": {**source, "repository": str(repository_of(self.here))}}

    def _played(self, system: str, sets: PinSets) -> str:
        """Run the role of a system for these pin sets; return why it failed, or nothing."""
        variables = {
            "cluster_systems": [system],
            "trainer_pins": {**({} if system == "command" else pins(system)), **sets},
            "trainer_pin_sets": list(sets),
            f"{system}_pin_sets": list(sets),
        }
        log = self.runs / names.SETUP / f"{self.inventory.resolve().name}-build.log"
        with tempfile.NamedTemporaryFile("w", suffix=".json", prefix="trainbench-pins-") as file:
            json.dump(variables, file)
            file.flush()
            arguments = ["-e", f"@{file.name}"]
            ended = run_playbook(
                PLAYBOOK, self.inventory, arguments, log, verbose=False, console=self.console
            )
        if ended.code == INTERRUPTED:
            raise BuildInterruptedError
        return "" if ended.code == 0 else _why(ended, log)


def _why(ended: PlaybookEnd, log: Path) -> str:
    """Return on which node a playbook failed, and Ansible's reason."""
    messages = _last_error(log)
    hosts = ", ".join(ended.failed)
    return f"{hosts}: {messages}" if hosts else messages


def _last_error(log: Path) -> str:
    """Return what Ansible said of the task that failed, on one line."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    messages = re.findall(r'"msg": "((?:[^"\\]|\\.)*)"', text)
    fatal = [line for line in text.splitlines() if "fatal:" in line or "ERROR" in line]
    reason = (
        messages[-1] if messages else (fatal or text.splitlines() or ["Ansible said nothing"])[-1]
    )
    return " ".join(reason.replace("\\n", " ").split())[-MOST_WORDS:]
