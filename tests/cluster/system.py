"""The machine underneath: commands, processes, and what it must offer."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from types import FrameType
from typing import Any, NamedTuple

# Root's PATH may lack the sbin folders, in cron and in CI.
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# command -> Debian's package that has it
COMMANDS = {
    "ip": "iproute2",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "mount": "mount",
    "umount": "mount",
    "nsenter": "util-linux",
    "pivot_root": "util-linux",
    "setpriv": "util-linux",
    "unshare": "util-linux",
}


class ClusterError(Exception):
    """What went wrong, in one sentence that a user can act on."""


class RefusedError(ClusterError):
    """What was asked for cannot be, with nothing begun: another request or machine is the cure."""


class Identity(NamedTuple):
    """A process that cannot be mistaken for a later one with the same number."""

    pid: int
    start_ticks: int  # clock ticks since boot, field 22 of /proc/PID/stat


def which(command: str) -> str | None:
    """The command's path, or None."""
    return shutil.which(command, path=SEARCH_PATH)


def run(
    argv: Sequence[str], *, text_in: str | None = None, check: bool = True, timeout_s: float = 30
) -> subprocess.CompletedProcess[str]:
    """Run one of the machine's commands and keep its output.

    Raises ClusterError with the command's own words when it fails and ``check`` is set, or when
    it takes longer than ``timeout_s`` seconds.
    """
    try:
        done = subprocess.run(
            list(argv),
            input=text_in if text_in is not None else "",
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env={**os.environ, "PATH": SEARCH_PATH, "LC_ALL": "C"},
            start_new_session=True,  # Ctrl-C in the terminal is for us, not for a half-done `ip`
        )
    except FileNotFoundError:
        raise ClusterError(f"{argv[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise ClusterError(f"{' '.join(argv)} took longer than {timeout_s:g} s") from None
    if check and done.returncode != 0:
        words = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
        raise ClusterError(f"{' '.join(argv)}: {words}")
    return done


def wait_for(condition: Callable[[], bool], timeout_s: float, poll_s: float = 0.005) -> bool:
    """Poll until ``condition`` holds; False when it did not within ``timeout_s`` seconds."""
    end = monotonic() + timeout_s
    while not condition():
        if monotonic() > end:
            return False
        sleep(poll_s)
    return True


def identity(pid: int) -> Identity | None:
    """The process's identity, or None when it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name may hold spaces and brackets
    return None if fields[0] in "ZX" else Identity(pid, int(fields[19]))


def arguments(pid: int | str) -> list[str]:
    """The process's argv, empty when it is gone."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return [part.decode(errors="replace") for part in raw.rstrip(b"\0").split(b"\0") if raw]


def base_python() -> str:
    """The real interpreter behind virtual environments and pyenv's shims."""
    # typeshed leaves _base_executable out; inside a venv it names the interpreter behind it
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM off while cleaning up: half a clean-up leaves traces."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []

    def hold(number: int, _frame: FrameType | None) -> None:
        held.append(number)

    before: dict[int, Any] = {n: signal.signal(n, hold) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if held:
        os.kill(os.getpid(), held[0])


def missing() -> str | None:
    """What this machine lacks for test nodes, as one sentence; None when nothing."""
    if not sys.platform.startswith("linux"):
        return f"test nodes need Linux (namespaces and overlayfs); this is {sys.platform}"
    if os.geteuid() != 0:
        return "test nodes need root (for namespaces, mounts and a bridge): run this as root"
    lacking = sorted(command for command in COMMANDS if which(command) is None)
    if lacking:
        packages = " ".join(sorted({COMMANDS[command] for command in lacking}))
        return (
            f"test nodes need {', '.join(lacking)}: install the packages {packages} "
            f"(apt-get install {packages})"
        )
    namespaces = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--fork")
    trial = run(["unshare", *namespaces, "true"], check=False)
    if trial.returncode != 0:
        return (
            "test nodes need a kernel that lets root make namespaces "
            f"(in a container: --privileged); this one says: {trial.stderr.strip()}"
        )
    if not _has_overlay():
        return "test nodes need overlayfs, and this kernel has none"
    return None


def _has_overlay() -> bool:
    def listed() -> bool:
        return "\toverlay\n" in Path("/proc/filesystems").read_text()

    if not listed() and which("modprobe"):
        run(["modprobe", "overlay"], check=False)
    return listed()


def overlay_works_on(folder: Path) -> bool:
    """Whether the folder's filesystem can hold the upper layer (an overlay's or NFS cannot)."""
    parts = [folder / "probe" / part for part in ("upper", "work", "root")]
    for part in parts:
        part.mkdir(parents=True)
    upper, work, root = parts
    options = f"lowerdir=/,upperdir={upper},workdir={work},index=off"
    try:
        trial = ["unshare", "--mount", "mount", "-nt", "overlay", "-o", options, "probe", str(root)]
        return run(trial, check=False).returncode == 0
    finally:
        shutil.rmtree(folder / "probe", ignore_errors=True)
