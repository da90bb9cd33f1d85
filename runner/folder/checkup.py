"""What `doctor` and verify.yml learned of an inventory's nodes, as a folder."""

import re
from pathlib import Path
from typing import Any

from runner.folder import names
from runner.folder.attempt import Attempt
from runner.folder.lock import HeldFolder
from runner.folder.stored import read_json


class Checkup(HeldFolder):
    """What `doctor` and verify.yml found of one inventory's nodes, as a folder.

    roles/verify/action_plugins/survey.py writes asked.json and env/.
    """

    @property
    def asked(self) -> dict[str, Any] | None:
        """asked.json: the nodes, and what the roles' verify entries said; None before."""
        return read_json(self.path / names.ASKED)

    def node(self, host: str) -> dict[str, Any]:
        """Return what a node said of itself: `env` and `expected`, or why it is `unreachable`."""
        return read_json(self.path / names.ENVS / names.of_host(host)) or {}

    def forget(self) -> None:
        """Remove what was found last time, so that none of it is taken for today's."""
        (self.path / names.ASKED).unlink(missing_ok=True)
        for path in (self.path / names.ENVS).glob("*.json"):
            path.unlink()

    @property
    def refusal(self) -> str:
        """What a second doctor is told."""
        return f"another doctor asks the nodes of {self.name}"

    def new_probe(self) -> Attempt:
        """Make the folder of a new measurement (0700)."""
        numbers = [
            int(match[1])
            for path in self.path.glob("probe*")
            if (match := re.fullmatch(r"probe(\d+)", path.name))
        ]
        number = max(numbers, default=0) + 1
        path = self.path / f"probe{number}"
        path.mkdir(mode=0o700, parents=True)
        return Attempt(path, "doctor", 1, number)


def checkup_of(runs: Path, inventory: str) -> Checkup:
    """Return the folder of an inventory's checkups. verify_out_dir of roles/verify is the same."""
    return Checkup(runs / names.DOCTOR / inventory)
