"""One node: what can be done in it and to it."""

import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any

from . import network
from .cgroups import MemoryGroup
from .inventory import interpreter
from .processes import INIT, Process, kill_and_wait, label, table
from .registry import Record
from .system import SEARCH_PATH, ClusterError, arguments, identity, wait_for, which

ENTER = str(Path(__file__).resolve().parent / "enter.sh")
SSHD_PID_FILE = "/run/sshd.pid"
BOOT_S = 120.0
ENVIRONMENT = {
    "PATH": SEARCH_PATH,
    "HOME": "/root",
    "USER": "root",
    "LOGNAME": "root",
    "SHELL": "/bin/sh",
    "LANG": "C.UTF-8",
}


@dataclass
class Node:
    """A test node; made by Cluster.

    ``hostname`` (node1, ...) and ``address`` (IPv4) name it; ``folder`` is its folder on this
    machine.
    """

    record: Record
    number: int  # 1 for the first

    def __post_init__(self) -> None:
        self.hostname = f"node{self.number}"
        self.address = network.address(self.record.subnet, self.number)
        self.folder = Path(self.record.directory) / self.hostname
        self.disk = self.folder / "disk"
        self.pid_file = self.folder / "pid"
        self.config_file = self.folder / "boot.json"
        self.label = label(self.record.name, self.hostname)
        self.memory = MemoryGroup(f"trainbench-{self.record.name}-{self.hostname}")
        self.sshd_argv = [which("sshd") or "sshd", "-E", "/var/log/sshd.log"]

    @property
    def host_key(self) -> str:
        """The public host key's line."""
        return (self.folder / "host_key.pub").read_text()

    @property
    def pid(self) -> int | None:
        """The node's PID 1 as this machine numbers it; None while the node is down."""
        try:
            pid = int(self.pid_file.read_text())
        except (OSError, ValueError):
            return None
        return pid if self.label in arguments(pid) and identity(pid) else None

    # Its life

    def start_boot(self) -> subprocess.Popen[str]:
        """Begin to boot; several nodes boot side by side.  Finish with ``finish_boot``."""
        self.pid_file.unlink(missing_ok=True)
        self.link(True)
        return subprocess.Popen(
            [interpreter(), "-I", "-S", INIT, self.label, str(self.config_file)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": SEARCH_PATH},
            cwd="/",
            start_new_session=True,
        )

    def finish_boot(self, booting: subprocess.Popen[str]) -> None:
        """Wait until the node takes ssh connections; raises ClusterError with what init says."""
        try:
            words = booting.communicate(timeout=BOOT_S)[1].strip()
        except subprocess.TimeoutExpired:
            booting.kill()
            booting.communicate()
            words = f"nothing heard for {BOOT_S:g} s"
        if booting.returncode != 0:
            raise ClusterError(f"{self.hostname} did not boot: {words}")

    def boot(self) -> None:
        """Start a node that is down, with its disk as it was left."""
        if self.pid is not None:
            raise ClusterError(f"{self.hostname} is up already")
        self.finish_boot(self.start_boot())

    def kill(self) -> None:
        """The whole node is gone at once, as by a power cut: nobody hears a word from it."""
        pid = self.pid
        if pid is None:
            return
        # First the cable: the kernel would say goodbye on every connection of a killed process.
        self.link(False)
        kill_and_wait([pid])
        self.memory.remove_children()

    def reboot(self, down_s: float = 0.0) -> None:
        """Power-cycle the node; it stays off for ``down_s`` seconds."""
        self.kill()
        sleep(down_s)
        self.boot()

    # Work in it

    def exec(self, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
        """Run a command as root in the node, without ssh; ``subprocess.run``'s options.

        Output is kept as text and the time limit is 60 s unless ``options`` say otherwise; the
        environment is a fresh one.  A command that a signal ends has the signal's negative number
        as returncode.  Raises ClusterError when the node is down.
        """
        return _run(self.enter(argv), {"env": ENVIRONMENT, **options})

    def popen(self, argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a command in the node; it ends with the returned process, daemons do not."""
        defaults = {"text": True, "env": ENVIRONMENT, "stdin": subprocess.DEVNULL}
        return subprocess.Popen(self.enter(argv), **{**defaults, **options})

    def ssh(self, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
        """Run a command over ssh, the host key checked; options and defaults as ``exec``.

        Unlike ``exec`` it gives 255 when the node is out of reach or a signal ends the command.
        """
        config = Path(self.record.directory) / "ssh_config"
        # ssh joins its words with spaces for the remote shell: hand it one that is quoted
        return _run(["ssh", "-F", str(config), self.hostname, "--", shlex.join(argv)], options)

    def read(self, path: str) -> str:
        """A file of the node; raises ClusterError when it cannot be read."""
        done = self.exec(["cat", "--", path], errors="replace")
        if done.returncode != 0:
            raise ClusterError(f"{self.hostname}: {done.stderr.strip()}")
        return str(done.stdout)

    def processes(self) -> list[tuple[int, list[str]]]:
        """(pid in the node, argv) of all but init and services (sshd, Slurm), without zombies."""
        return [(each.pid, each.argv) for each in self._work()]

    def signal(self, pid: int, number: int = signal.SIGKILL) -> None:
        """Send a signal to a process by the node's numbering; raises ClusterError without one."""
        for each in table(self.pid):
            if each.pid == pid:
                os.kill(each.host_pid, number)
                return
        raise ClusterError(f"{self.hostname} has no process {pid}")

    def kill_processes(self) -> None:
        """SIGKILL all that ``processes`` lists."""
        kill_and_wait([each.host_pid for each in self._work()])

    def _work(self) -> list[Process]:
        return [each for each in table(self.pid) if each.pid != 1 and not each.is_service]

    def enter(self, argv: Sequence[str]) -> list[str]:
        """The command as this machine runs it to run in the node; it ends with its caller."""
        pid = self.pid
        if pid is None:
            raise ClusterError(f"{self.hostname} is down")
        return ["/bin/sh", ENTER, self.memory.procs, str(pid), *argv]

    # Faults

    def link(self, up: bool) -> None:
        """Plug the node's cable in or pull it: the node keeps its addresses and processes."""
        network.set_link(self.record.name, self.number, up)

    def kill_sshd(self, *, listener: bool = True, sessions: bool = True) -> None:
        """SIGKILL the listener, the open sessions, or both; what sessions started lives on."""
        daemons = [each for each in table(self.pid) if each.is_sshd]
        kill_and_wait(
            [each.host_pid for each in daemons if (listener if each.is_listener else sessions)]
        )

    def start_sshd(self) -> None:
        """Start the listener and wait until it listens; does nothing where it runs."""
        if any(each.is_listener for each in table(self.pid)):
            return
        self.exec(["rm", "-f", SSHD_PID_FILE], check=True)
        done = self.exec(self.sshd_argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        written = Path(f"/proc/{self.pid}/root{SSHD_PID_FILE}")
        if done.returncode != 0 or not wait_for(written.exists, timeout_s=10):
            raise ClusterError(f"{self.hostname}: sshd did not start: see /var/log/sshd.log in it")

    def limit_memory(self, mib: int | None) -> None:
        """Limit the memory of all the node's processes together, in MiB; None: no limit.

        Files on tmpfs (/run, /dev/shm, a sized disk) count.  Raises ClusterError where the machine
        has no memory cgroup, or the node uses more than that already.
        """
        self.memory.limit(mib)

    @property
    def _filler(self) -> Path:
        return self.disk / "filler"  # beside the upper layer: takes its space, is not seen

    def fill_disk(self, leave_mib: int = 0) -> None:
        """Fill the node's disk (/, /tmp, /var/tmp) but for ``leave_mib`` MiB.

        Raises ClusterError for a node without ``upper_size_mib``: its disk is the machine's.
        """
        if self.record.upper_size_mib is None:
            raise ClusterError("only a cluster with upper_size_mib has disks that can be filled")
        with self._filler.open("ab") as file:
            disk = os.statvfs(self.disk)
            size = disk.f_bavail * disk.f_frsize - (leave_mib << 20)
            if size > 0:
                os.posix_fallocate(file.fileno(), file.tell(), size)

    def free_disk(self) -> None:
        """Undo ``fill_disk``."""
        self._filler.unlink(missing_ok=True)

    def faults(self) -> list[str]:
        """What is broken now, in words; empty for a healthy node."""
        if self.pid is None:
            return ["down"]
        found = [] if network.link_is_up(self.record.name, self.number) else ["link down"]
        if not any(each.is_listener for each in table(self.pid)):
            found.append("no sshd")
        if self._filler.exists():
            found.append("disk filled")
        return found


def _run(argv: list[str], options: dict[str, Any]) -> subprocess.CompletedProcess[Any]:
    """subprocess.run with this package's defaults: output kept as text, no input, 60 s."""
    defaults: dict[str, Any] = {"text": True, "timeout": 60}
    if not {"stdout", "stderr", "capture_output"} & options.keys():
        defaults["capture_output"] = True
    if "input" not in options:
        defaults["stdin"] = subprocess.DEVNULL
    return subprocess.run(argv, **{**defaults, **options})
