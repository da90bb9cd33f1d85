"""What `doctor` and verify.yml learned of an inventory's nodes, as a folder."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from node.facts.kinds import ENVIRONMENT
from node.schema import Fields, Mapped, Maybe, Number, Text, Whole, Words
from node.validated_text import HostName
from runner.base.dataclass_schema import shape
from runner.base.exclusive import make_private
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.lock import HeldFolder
from runner.folder.stored import UnreadableError, load

_EXPECTED = Fields({}, {"device": (Maybe(Text(most=100)), None), "devices": (Maybe(Whole()), None)})


@dataclass(frozen=True)
class Failure:
    """What a role's verify entry said of a node."""

    role: Annotated[str, Text(most=1_000)]
    message: Annotated[str, Text(most=100_000, lines=True)]


@dataclass(frozen=True)
class AskedNode:
    """A node that was asked: whether it was lost on the way, and what is wrong with it."""

    lost: bool = True
    failures: tuple[Failure, ...] | None = ()


@dataclass(frozen=True)
class Asked:
    """What asked.json holds: when, by which roles, which nodes."""

    at: Annotated[float, Number(0)]
    nodes: Annotated[Mapping[str, AskedNode], Mapped(HostName, shape(AskedNode))]
    roles: tuple[str, ...] | None = ()
    inventory: Annotated[str, Text(most=5_000)] = ""  # its path; older ones do not say


@dataclass(frozen=True)
class Reply:
    """What env/<host>.json holds: what a node is and what the inventory expects, or why not."""

    env: Annotated[Mapping[str, Any], ENVIRONMENT] | None = None
    expected: Annotated[Mapping[str, Any], _EXPECTED] | None = field(default_factory=dict)
    unreachable: Annotated[str, Words()] | None = None


@dataclass(frozen=True)
class Probe(RunFolder):
    """The folder of one measurement."""

    number: int


class Checkup(HeldFolder):
    """What `doctor` and verify.yml found of one inventory's nodes, as a folder.

    roles/verify/action_plugins/survey.py writes asked.json and env/.
    """

    @property
    def asked(self) -> Asked | None:
        """asked.json; None before. Raises UnreadableError."""
        questions: Asked | None = load(self.path / names.ASKED, shape(Asked))
        return questions

    def node(self, host: str) -> Reply:
        """Return what a node said of itself, or why there is nothing."""
        where = f"{names.ENVS}/{names.of_host(HostName(host))}"
        try:
            return load(self.path / where, shape(Reply), where) or Reply()
        except UnreadableError as error:
            return Reply(unreachable=str(error))

    def forget(self) -> None:
        """Remove what was found last time, so that none of it is taken for today's."""
        (self.path / names.ASKED).unlink(missing_ok=True)
        for path in (self.path / names.ENVS).glob("*.json"):
            path.unlink()

    @property
    def refusal(self) -> str:
        """What a second doctor is told."""
        return f"another doctor asks the nodes of {self.name}"

    def new_probe(self) -> Probe:
        """Make the folder of a new measurement (0700)."""
        numbers = [
            int(match[1])
            for path in self.path.glob("probe*")
            if (match := re.fullmatch(r"probe(\d{1,9})", path.name))
        ]
        number = max(numbers, default=0) + 1
        path = self.path / f"probe{number}"
        make_private(path)
        return Probe(path, number)


def checkup_of(runs: Path, inventory: str) -> Checkup:
    """Return the folder of an inventory's checkups. verify_out_dir of roles/verify is the same."""
    return Checkup(runs / names.DOCTOR / inventory)
