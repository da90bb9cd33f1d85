"""The machine, at its boundary: files, programs, the kernel."""

from __future__ import annotations

import array
import fcntl
import glob
import os
import resource
import socket
import struct
import subprocess

TOOL_S = 30.0  # nvidia-smi without persistence mode takes seconds a GPU
SIOCGIFCONF, SIOCGIFMTU = 0x8912, 0x8921


class Machine:
    """Where facts come from: files, programs, the kernel. Tests give one with recorded answers."""

    def text(self, path: str) -> str | None:
        """A file's text, stripped; None where it cannot be read."""
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                return stream.read().strip("\0\n ")
        except OSError:
            return None

    def glob(self, pattern: str) -> list[str]:
        """Paths that match, sorted."""
        return sorted(glob.glob(pattern))

    def real(self, path: str) -> str:
        """The path with its links resolved."""
        return os.path.realpath(path)

    def run(self, *argv: str) -> tuple[int, str] | None:
        """A program's exit code and words; None where there is no such program."""
        try:
            completed = subprocess.run(
                argv,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "LC_ALL": "C"},
                timeout=TOOL_S,
                check=False,
            )
        except OSError:
            return None
        except subprocess.TimeoutExpired:
            return 124, f"{argv[0]} gave no answer within {TOOL_S:.0f} s"
        return completed.returncode, completed.stdout.decode("utf-8", "replace")

    def addresses(self) -> dict[str, list[str]]:
        """Interface name to its addresses, from the kernel."""
        by_interface: dict[str, list[str]] = {}
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            room = array.array("B", bytes(40 * 512))
            at, _ = room.buffer_info()
            packed = fcntl.ioctl(asker, SIOCGIFCONF, struct.pack("iL", len(room), at))
            data = room.tobytes()[: struct.unpack("iL", packed)[0]]
        for start in range(0, len(data), 40):  # struct ifreq: 16 bytes of name, then sockaddr_in
            name = data[start : start + 16].split(b"\0", 1)[0].decode()
            address = socket.inet_ntoa(data[start + 20 : start + 24])
            by_interface.setdefault(name.split(":")[0], []).append(address)
        for line in (self.text("/proc/net/if_inet6") or "").splitlines():
            digits, *_, name = line.split()
            address = socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))
            by_interface.setdefault(name, []).append(address)
        return by_interface

    def mtu(self, interface: str) -> int | None:
        """From the kernel and not /sys, which may show another network namespace."""
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
                packed = fcntl.ioctl(
                    asker, SIOCGIFMTU, struct.pack("16si12x", interface.encode(), 0)
                )
        except OSError:
            return None
        return int(struct.unpack("16si12x", packed)[1])

    def resolve(self, name: str) -> list[str]:
        """A host name's addresses."""
        try:
            return sorted({str(entry[4][0]) for entry in socket.getaddrinfo(name, None)})
        except OSError:
            return []

    def disk(self, path: str) -> tuple[int, int]:
        """(free, total) MiB of the file system that holds the path, or will hold it."""
        while not os.path.isdir(path) and path != "/":
            path = os.path.dirname(path)
        space = os.statvfs(path)
        return space.f_bavail * space.f_frsize >> 20, space.f_blocks * space.f_frsize >> 20

    def processors(self) -> int:
        """CPUs that this process may use."""
        return len(os.sched_getaffinity(0))

    def cpu_quota_percent(self) -> int | None:
        """What cgroups let this process have of CPUs' time, 100 for one CPU; None: all of it."""
        quotas = []
        for line in (self.text("/proc/self/cgroup") or "").splitlines():
            _, kinds, path = line.split(":", 2)
            if kinds and "cpu" not in kinds.split(","):
                continue
            above = path.strip("/").split("/")
            for depth in range(len(above) + 1):
                folder = "/".join(["/sys/fs/cgroup", *above[:depth]]).rstrip("/")
                values = (self.text(folder + "/cpu.max") or "").split()
                if kinds:
                    folder = "/".join(["/sys/fs/cgroup/cpu", *above[:depth]]).rstrip("/")
                    files = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
                    values = [self.text("%s/%s" % (folder, name)) or "" for name in files]
                if len(values) == 2 and all(word.isdigit() for word in values) and int(values[1]):
                    quotas.append(100 * int(values[0]) // int(values[1]))
        return min(quotas) if quotas else None

    def limits(self) -> dict[str, int | None]:
        """What a process of this user may have; None is unlimited."""
        kinds = {
            "open_files": resource.RLIMIT_NOFILE,
            "locked_memory_bytes": resource.RLIMIT_MEMLOCK,
            "processes": resource.RLIMIT_NPROC,
            "stack_bytes": resource.RLIMIT_STACK,
        }
        values = {name: resource.getrlimit(kind)[0] for name, kind in kinds.items()}
        return {
            name: None if value == resource.RLIM_INFINITY else value
            for name, value in values.items()
        }
