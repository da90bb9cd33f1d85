"""Processes of a node, seen from the machine, and ends of processes."""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .system import ClusterError, Identity, arguments, identity, wait_for

INIT = str(Path(__file__).resolve().parent / "init.py")
SERVICES = ("munged", "slurmctld", "slurmd", "slurmdbd", "mariadbd", "bindfs")
GONE_S = 10.0  # how long killed processes may take to go: a node's last one writes its disk out


class Process(NamedTuple):
    """A process of a node."""

    pid: int  # as the node numbers it
    host_pid: int
    argv: list[str]
    program: str  # the executable's file name

    @property
    def is_sshd(self) -> bool:
        """The listener or a session (sshd-session, from OpenSSH 9.8 on)."""
        return self.program.startswith("sshd")

    @property
    def is_service(self) -> bool:
        """A daemon of the node, or of one of its mounts, which stays; slurmstepd is a job's."""
        return self.is_sshd or self.program in SERVICES

    @property
    def is_listener(self) -> bool:
        """The sshd that takes new connections; it says so in its title."""
        return self.is_sshd and "[listener]" in " ".join(self.argv)


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def table(init: int | None) -> list[Process]:
    """All processes of the node whose PID 1 this is, zombies left out."""
    if init is None:
        return []
    found = []
    with suppress(OSError):
        ours = os.readlink(f"/proc/{init}/ns/pid")
        for host_pid in _all_pids():
            with suppress(OSError):  # gone while we look
                if os.readlink(f"/proc/{host_pid}/ns/pid") != ours or identity(host_pid) is None:
                    continue
                status = Path(f"/proc/{host_pid}/status").read_text(errors="replace")
                numbers = next(line for line in status.splitlines() if line.startswith("NSpid:"))
                # Debian's alternatives: slurmd is a link to slurmd-wlm
                program = Path(os.readlink(f"/proc/{host_pid}/exe")).name.removesuffix("-wlm")
                pid = int(numbers.split()[-1])
                found.append(Process(pid, host_pid, arguments(host_pid), program))
    return sorted(found)


def label(cluster: str, hostname: str) -> str:
    """The word in PID 1's arguments by which a node is found again."""
    return f"tb-{cluster}-{hostname}"


def inits(cluster: str) -> list[int]:
    """PID 1 of every node of the cluster, and what is just about to become one."""
    found = []
    for pid in _all_pids():
        words = arguments(pid)
        # python -I -S .../init.py LABEL CONFIG; the script may be another checkout's
        ours = len(words) == 6 and words[3].endswith("/init.py")
        if ours and words[4].startswith(label(cluster, "node")) and identity(pid):
            found.append(pid)
    return found


def kill_and_wait(pids: Sequence[int]) -> None:
    """SIGKILL processes, numbered as this machine does, and wait until they are gone.

    Raises ClusterError when one is still there after GONE_S seconds.
    """
    alive: list[Identity] = [who for who in map(identity, pids) if who is not None]
    for who in alive:
        with suppress(ProcessLookupError):
            os.kill(who.pid, signal.SIGKILL)
    if not wait_for(lambda: all(identity(who.pid) != who for who in alive), GONE_S):
        pids = [who.pid for who in alive]
        raise ClusterError(f"processes {pids} do not end {GONE_S:g} s after SIGKILL")
