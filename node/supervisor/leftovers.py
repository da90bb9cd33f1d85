"""What others, or an earlier run, left on a node, in sentences. Pure.

Texts of /proc and numbers of disks go in (surroundings.py reads them); out come sentences that
name pid, user and age. docs/reliability.md says which of them refuse a run, and which are noted.
"""

from __future__ import annotations

import re

from node.printable import printable
from node.time_words import lasts

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Callable, Iterable, Iterator, Sequence

    Who = Callable[["SeenProcess"], str]

MIB = 1 << 20
SHM = "/dev/shm"  # noqa: S108  # not written to
SHM_NEED = 16 * MIB  # of /dev/shm that a run must find: semaphores, DataLoader's batches, NCCL
SHM_NOTED = 0.05  # of /dev/shm that leftovers hold: half as much of the node's memory, usually
MEMORY_NOTED = 0.1  # of the memory that is free
SETTLED_S = 30.0  # a process is looked at from this age on: what starts a run is younger
CANDIDATE = 0.25  # cores that a process took over its life, or it runs now: it is timed
BUSY = 0.1  # cores that it takes while it is timed, to count
# Of the run's cores that others take: a run on processors waits for its slowest thread, and one on
# devices needs some to feed them.
NOTED_CORES = 0.5
NOTED_FRACTION = 1 / 16

# What torch, NCCL, Python, OpenMPI, UCX, PSM2 and CUDA call their files in /dev/shm.
SHARED = re.compile(
    r"torch_|nccl-|psm_|psm2_shm|sem\.|pym-|pymp-|loky-|joblib_|cuda\.shm\.|ucx_shm|vader_|sm_segment"
    r"|__KMP_REGISTERED_LIB_|gloo|ray"
)
_MAPPED = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) \S+ \S+ ([0-9a-f:]+) (\d+) +/dev/shm/.*?( \(deleted\))?$",
    re.MULTILINE,
)
_SLURM_JOB = re.compile(r"/job_(\d+)")


class SeenProcess:
    """A process: seconds since it began, seconds on processors, bytes of memory."""

    def __init__(
        self, pid: int, ppid: int, state: str, start: int, age_s: float, cpu_s: float, memory: int
    ) -> None:
        self.pid, self.ppid, self.state, self.start = pid, ppid, state, start
        self.age_s, self.cpu_s, self.memory = age_s, cpu_s, memory
        self.name = ""

    @property
    def kernel(self) -> bool:
        """Whether it is a thread of the kernel's."""
        return 2 in (self.pid, self.ppid)


def process(stat: bytes, up_s: float, ticks: int, page: int) -> SeenProcess | None:
    """Read /proc/PID/stat; the node is up for `up_s`, its clock ticks `ticks` times a second."""
    head, _, tail = stat.rpartition(b")")
    pid, _, name = head.partition(b" (")
    fields = tail.split()
    try:
        start, spent = int(fields[19]), int(fields[11]) + int(fields[12])
        seen_process = SeenProcess(
            *(int(pid), int(fields[1]), fields[0].decode(), start),
            *(max(up_s - start / ticks, 0.0), spent / ticks, int(fields[21]) * page),
        )
    except (IndexError, ValueError):
        return None
    seen_process.name = printable(name.decode("utf-8", "replace"))
    return seen_process


def named(found: SeenProcess, user: str, cgroups: str = "") -> str:
    """Name a process: pid 4711 (python3) of alice, 3 days old. Slurm's cgroups tell its job."""
    job = _SLURM_JOB.search(cgroups)
    of_job = ", in Slurm job %s" % job[1] if job else ""
    text = "pid %d (%s)%s, %s old%s"
    of_user = " of %s" % user if user else ""
    return text % (found.pid, found.name, of_user, lasts(found.age_s), of_job)


# -- disks -------------------------------------------------------------------------------------


class Disk:
    """A file system: bytes and files that it has, and that are free to the run's user."""

    def __init__(self, size: int, free: int, files: int = 0, files_free: int = 0) -> None:
        self.size, self.free, self.files, self.files_free = size, free, files, files_free


def full(path: str, disk: Disk, need: int) -> str | None:
    """Say why the disk of `path` cannot hold what a run writes there, or None."""
    if disk.free < need:
        message = "only %d MiB are free on the disk of %s and a run needs %d; make room there"
        return message % (disk.free // MIB, path, need // MIB)
    if disk.files and not disk.files_free:
        return "the disk of %s has room for no further file (df -i); remove some there" % path
    return None


# -- /dev/shm ----------------------------------------------------------------------------------


class Shared:
    """What holds a part of /dev/shm: a file there, or a deleted one that `holder` still has."""

    def __init__(
        self, name: str, size: int, age_s: float, user: str, holder: SeenProcess | None = None
    ) -> None:
        self.name, self.size, self.age_s, self.user = name, size, age_s, user
        self.holder = holder


def shm_needs_a_look(disk: Disk) -> bool:
    """Whether so much of /dev/shm is in use that its files are to be listed."""
    return disk.free < SHM_NEED or disk.size - disk.free >= SHM_NOTED * disk.size


def creator(name: str) -> int | None:
    """Return the process whose pid the name of a file in /dev/shm has: torch_4711_12_0."""
    match = re.match(r"(?:torch_|loky-|pym-|__KMP_REGISTERED_LIB_)(\d+)[_-]", name)
    return int(match[1]) if match else None


def mapped(maps: str, device: str) -> Iterator[tuple[int, int, bool]]:
    """Yield what /proc/PID/maps has of /dev/shm, a `device` (00:1a): inode, bytes, if deleted."""
    for match in _MAPPED.finditer(maps):
        if match[3] == device:
            yield int(match[4]), int(match[2], 16) - int(match[1], 16), bool(match[5])


def dead(
    name: str, uid: int, age_s: float, pids: set[int], uids: set[int], readable: bool, seen: bool
) -> bool:
    """Whether a file of /dev/shm that no process is seen to hold was left by processes now dead.

    `pids` and `uids` are those of the processes here; `readable`: what its user's processes hold
    was read; `seen`: everybody's processes are (not so under hidepid). One that just begins may
    not have come to it yet.
    """
    if age_s < SETTLED_S or not SHARED.match(name):
        return False
    if readable:
        return True
    made_by = creator(name)
    return seen and (uid not in uids or (made_by is not None and made_by not in pids))


def shm_refusal(disk: Disk, found: Sequence[Shared], who: Who) -> str | None:
    """Say why a run finds no room in /dev/shm, and who has it, or None."""
    if disk.free >= SHM_NEED:
        return None
    message = "only %d of %d MiB of %s are free and a run needs %d: %s"
    most = (
        "; ".join(_held(shared, who) for shared in _largest(found)[:3])
        or "no process seen here uses it; remove old files there, or enlarge it"
    )
    return message % (disk.free // MIB, disk.size // MIB, SHM, SHM_NEED // MIB, most)


def shm_note(disk: Disk, left: Sequence[Shared], who: Who) -> str | None:
    """Say that what is left in /dev/shm takes much of it, or None."""
    total = sum(shared.size for shared in left)
    if not total or total < SHM_NOTED * disk.size:
        return None
    message = "%s holds %d MiB that dead processes left: %s"
    return message % (
        SHM,
        total // MIB,
        "; ".join(_held(shared, who) for shared in _largest(left)[:3]),
    )


def _largest(found: Iterable[Shared]) -> list[Shared]:
    return sorted(found, key=lambda shared: -shared.size)


def _held(shared: Shared, who: Who) -> str:
    if shared.holder is not None:
        message = "%s has %d MiB in deleted files; end it"
        return message % (who(shared.holder), shared.size // MIB)
    message = "%s has %d MiB, of %s, %s old; remove it where nobody uses it"
    return message % (printable(shared.name), shared.size // MIB, shared.user, lasts(shared.age_s))


# -- processors and memory ---------------------------------------------------------------------


def suspects(table: Iterable[SeenProcess], own: set[int]) -> list[SeenProcess]:
    """Return the processes that may keep a processor busy; `own` are those that start the run."""
    return [
        process
        for process in table
        if process.age_s >= SETTLED_S
        and not process.kernel
        and process.pid not in own
        and (process.state == "R" or process.cpu_s >= CANDIDATE * process.age_s)
    ]


def cpu_note(
    used: Sequence[tuple[float, SeenProcess]], cores: int, granted: int, device: str, who: Who
) -> str | None:
    """Say that others keep the run's processors busy, or None.

    `used` are processes that may run on the run's `cores` processors, with how many they take;
    `granted` is how many the run's job has, where it shares them with other jobs.
    """
    busy = sorted((use for use in used if use[0] >= BUSY), key=lambda use: -use[0])
    total = sum(use[0] for use in busy)
    limit = NOTED_CORES if device == "cpu" else max(NOTED_CORES, NOTED_FRACTION * granted)
    if total - (cores - granted) < limit:
        return None
    message = "%s takes %.1f of the run's %d cores" % (who(busy[0][1]), busy[0][0], cores)
    remaining = "; %d others take %.1f" % (len(busy) - 1, total - busy[0][0])
    return message + (remaining if len(busy) > 1 else "")


def memory_note(
    available: int, total: int, granted: int, table: Iterable[SeenProcess], who: Who
) -> str | None:
    """Say that little memory is free, and who has most of it, or None. All in bytes.

    `granted` is how much the run's job has, where it shares the node with other jobs.
    """
    if available >= min(MEMORY_NOTED * total, granted):
        return None
    message = "only %.1f of %.1f GiB of memory are free" % (available / 2**30, total / 2**30)
    most = max(table, key=lambda process: process.memory, default=None)
    if most is None or not most.memory:
        return message
    return "%s; %s has %.1f GiB" % (message, who(most), most.memory / 2**30)
