"""Ask machines over ssh, all at once, and record their host keys. The effects of `init`."""

import base64
import binascii
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from runner.base.errors import UserError
from runner.enrol.host_list import Machine
from runner.enrol.probe_answer import ASK, MARK, MOST_BYTES
from runner.enrol.programs import run

CONNECT_S = 8
AT_ONCE = 32
_KEY_TYPES = re.compile(r"ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Way:
    """How ssh is to reach the machines; what is empty is left to ssh's own configuration."""

    user: str = ""
    key: str = ""
    port: int | None = None
    config: str = ""

    def argv(self, *more_words: str) -> list[str]:
        """Return ssh with these options, and the words behind them."""
        options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}"]
        if self.config:
            options += ["-F", self.config]
        if self.user:
            options += ["-l", self.user]
        if self.key:
            options += ["-i", self.key]
        if self.port:
            options += ["-p", str(self.port)]
        return ["ssh", *options, *more_words]


@dataclass(frozen=True)
class HostAnswer:
    """What a machine said, or why it could not be asked: ssh's words."""

    answer: str = ""
    silent: str = ""


@dataclass(frozen=True)
class HostKeys:
    """A machine's host keys as lines of known_hosts, the file that they go to, fingerprints."""

    lines: tuple[str, ...]
    file: Path
    fingerprints: tuple[str, ...]


def ask_all(
    machines: Sequence[Machine], way: Way, root: str, addresses: Sequence[str]
) -> dict[str, HostAnswer]:
    """Ask each machine what it is, in one exec. Answers by name, in the machines' order.

    `addresses`: of all that are to be in the inventory.
    """

    def ask(machine: Machine) -> HostAnswer:
        # The first two and the next one: routes to all of 500 are not another question.
        at = addresses.index(machine.address)
        peers = dict.fromkeys([*addresses[:2], addresses[(at + 1) % len(addresses)]])
        script = ["sh", "-s", "--", root, *peers]
        argv = script if machine.local else way.argv("--", machine.address, shlex.join(script))
        return _answer_of(argv)

    return _by_machine(machines, ask)


def scan_all(machines: Sequence[Machine], way: Way) -> dict[str, HostKeys | str]:
    """Read the machines' host keys, by name; a sentence for one that gives none."""

    def scan(machine: Machine) -> HostKeys | str:
        settings = _settings(machine, way)
        host, port = settings.get("hostname", machine.address), settings.get("port", "22")
        host_name = settings.get("hostkeyalias") or (host if port == "22" else f"[{host}]:{port}")
        file = shlex.split(settings.get("userknownhostsfile", "~/.ssh/known_hosts"))[0]
        argv = ["ssh-keyscan", "-T", str(CONNECT_S), "-p", port, "--", host]
        scanned = run(argv).stdout
        lines = key_lines(host_name, scanned)
        if not lines:
            return f"{machine.name} shows no host key at {host}, port {port}"
        fingerprints = run(["ssh-keygen", "-l", "-f", "-"], "\n".join(lines) + "\n").stdout
        return HostKeys(lines, Path(file).expanduser(), tuple(fingerprints.split("\n")[:-1]))

    return _by_machine(machines, scan)


def key_lines(host_name: str, scanned: str) -> tuple[str, ...]:
    """Return what ssh-keyscan printed as lines for `host_name`: only a key type and its base64.

    Pure. A machine chooses what it prints, so nothing of it is taken as it is.
    """
    lines = []
    for line in scanned[:MOST_BYTES].splitlines():
        _, *key = line.split()
        if line.startswith("#") or len(key) != 2 or not _KEY_TYPES.fullmatch(key[0]):
            continue
        try:
            inside = base64.b64decode(key[1], validate=True)
        except (binascii.Error, ValueError):
            continue
        if inside[4 : 4 + len(key[0])] == key[0].encode():
            lines.append(f"{host_name} {key[0]} {key[1]}")
    return tuple(dict.fromkeys(lines))


def record(keys: Mapping[Path, Sequence[str]]) -> None:
    """Add lines to files of known hosts (0600), behind what is there. Raises UserError."""
    for path, lines in keys.items():
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            with open(os.open(path, flags, 0o600), "r+", encoding="utf-8") as stream:
                there = stream.read()
                unended = "\n" if there and not there.endswith("\n") else ""
                stream.write(unended + "".join(f"{line}\n" for line in lines))
        except (OSError, ValueError) as error:
            raise UserError(f"{path} cannot be written: {error}; no host key is recorded") from None


def _by_machine(machines: Sequence[Machine], work: Callable[[Machine], Made]) -> dict[str, Made]:
    with ThreadPoolExecutor(min(AT_ONCE, len(machines))) as pool:
        results = list(pool.map(work, machines))
    return {machine.name: result for machine, result in zip(machines, results, strict=True)}


def _settings(machine: Machine, way: Way) -> dict[str, str]:
    """Return what ssh would use for a machine, by its own account."""
    printed = run(way.argv("-G", "--", machine.address)).stdout
    lines = (line.partition(" ") for line in printed.splitlines())
    return {key: value for key, _, value in lines if value}


def _answer_of(argv: Sequence[str]) -> HostAnswer:
    completed = run(argv, ASK)
    if f"{MARK} user=" in completed.stdout:
        return HostAnswer(completed.stdout)
    return HostAnswer(silent=completed.stderr[-2_000:].strip() or "its shell gives no answer")
