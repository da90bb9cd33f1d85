"""Which machines are meant: from words, a DeepSpeed hostfile, or a partition of Slurm."""

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from node.parsing import parse
from node.printable import printable
from node.schema import Fields, List, Mapped, Plain, UnfitError
from node.validated_text import Address, HostName
from runner.base.errors import UserError
from runner.base.paths import PROJECT
from runner.enrol.programs import run
from runner.terms.orders import MOST_NODES

HOSTFILES = PROJECT / "inventory" / "allocation" / "hosts.py"
_LISTED = Fields(
    {
        "nodes": Fields({"hosts": List(HostName)}),
        "_meta": Fields({"hostvars": Mapped(HostName, Plain())}),
    },
    {},
)


@dataclass(frozen=True)
class Machine:
    """A machine as somebody named it: its name in the inventory, and where ssh finds it.

    `devices` is what a hostfile says; None where nobody did.
    """

    name: HostName
    address: Address
    devices: int | None = None

    @property
    def local(self) -> bool:
        """Whether it is this machine, which needs no ssh."""
        return self.address == "localhost"


def from_words(words: Iterable[str]) -> tuple[Machine, ...]:
    """Read `a,b n[01-04] gpu01=10.0.0.11`. Raises UserError that names the word."""
    machines = []
    for word in (item for text in words for item in _parts(text)):
        name, equals, address = word.partition("=")
        if "[" in word and not equals:
            machines += [_machine(host, host) for host in _expanded(word)]
        else:
            user, at, host = name.rpartition("@")
            if at:
                raise UserError(f"{word}: write {host} alone, and the user as --user {user}")
            machines.append(_machine(name, address if equals else name))
    return bounded(machines)


def from_hostfile(path: Path) -> tuple[Machine, ...]:
    """Read a DeepSpeed hostfile by the program of inventory/allocation. Raises UserError."""
    argv = [sys.executable, str(HOSTFILES), "--list"]
    printed = answer(argv, TRAINBENCH_HOSTFILE=str(path.resolve()))
    try:
        listed = parse(printed.encode(), _LISTED, str(path))
    except UnfitError as error:
        raise UserError(f"{path} cannot be read as a hostfile: {error}") from None
    hostvars = listed["_meta"]["hostvars"]
    machines = []
    for host in listed["nodes"]["hosts"]:
        variables = hostvars.get(host, {})
        devices = variables.get("cluster_devices_per_node")
        machines.append(_machine(host, variables.get("ansible_host", host), devices))
    return bounded(machines)


def from_partition(name: str) -> tuple[Machine, ...]:
    """Return the nodes of one of Slurm's partitions. Raises UserError."""
    printed = answer(["sinfo", "--noheader", "--Node", f"--partition={name}", "--format=%N"])
    if not printed.split():
        raise UserError(f"Slurm has no nodes in a partition {name}; `sinfo -s` lists partitions")
    return bounded(_machine(host, host) for host in printed.split())


def bounded(machines: Iterable[Machine]) -> tuple[Machine, ...]:
    """Return each once. Raises UserError for none, too many, or one name for two addresses."""
    by_name: dict[str, Machine] = {}
    for machine in machines:
        if by_name.setdefault(machine.name, machine) != machine:
            raise UserError(f"{machine.name} is named with two addresses; give each its own name")
    if not by_name:
        raise UserError("no hosts were named; name them, as in --hosts gpu01 gpu02=10.0.0.12")
    if len(by_name) > MOST_NODES:
        raise UserError(
            f"{len(by_name)} hosts are more than {MOST_NODES}, the most of an inventory"
        )
    if len(by_name) > 1 and any(machine.local for machine in by_name.values()):
        raise UserError(
            "other hosts cannot reach this machine as localhost; name this"
            " machine by the address that the others know"
        )
    return tuple(by_name.values())


def _parts(text: str) -> Sequence[str]:
    """Split at spaces, and at commas outside of brackets."""
    depth, parts = 0, [""]
    for letter in text:
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter.isspace() or (letter == "," and not depth):
            parts.append("")
        else:
            parts[-1] += letter
    return [item for item in parts if item]


def _expanded(word: str) -> Sequence[str]:
    return answer(["scontrol", "show", "hostnames", "--", word]).split()


def _machine(name: str, address: object, devices: object = None) -> Machine:
    try:
        count = devices if isinstance(devices, int) and 1 <= devices <= MOST_NODES else None
        return Machine(HostName(name), Address(address), count)
    except UnfitError as error:
        raise UserError(
            f"a host {error}; write NAME, ADDRESS or NAME=ADDRESS, such as gpu01=10.0.0.11"
        ) from None


def answer(argv: Sequence[str], **env: str) -> str:
    """Return what a program of this machine prints. Raises UserError with its first words."""
    cure = "start it where Slurm's programs are, or name each host"
    completed = run(argv, env={**os.environ, **env}, cure=cure)
    if completed.returncode != 0:
        first_line = (completed.stderr.strip() or "it said nothing").splitlines()[0]
        raise UserError(printable(first_line.removeprefix("error: "))[:500])
    return completed.stdout
