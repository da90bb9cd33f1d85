"""Look around on a node before a run: refuse, note, and end what an earlier run left.

leftovers.py judges what was seen. What cannot be seen, as under hidepid or without rights, is
neither reported nor an error. A clean node costs a few files of /proc: more is read if needed.
"""

from __future__ import annotations

import os
import time

from node.causes import Cause
from node.files import read_text
from node.program_output import pairs

from . import leftovers
from .answers import RefusedError
from .gpus import check_gpus
from .leftovers import MIB, SeenProcess
from .orphans import end_orphans
from .process_scan import Around, disk_of, read_bytes
from .shared_memory import look_at_shm

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any

FREE_BYTES = 64 * MIB  # what a run's disks must have at least: logs, sockets, caches
FULL_BYTES = MIB  # what is no more than a few small files
TIMED_S = 0.1  # that processes are watched for, where some seem busy: ten of the kernel's ticks


def look_around(job: dict[str, Any]) -> list[str]:
    """Refuse a node that the run cannot begin on; return what may disturb it, in sentences."""
    around = Around()
    notes = look_at_disks(job)
    notes += end_orphans(job, around)
    notes += look_at_shm(around)
    if job.get("device") == "cuda":
        check_gpus(visible_devices(job, "CUDA_VISIBLE_DEVICES"), around.named)
    elif job.get("device") == "npu":
        from .npus import check_npus  # few nodes have any, and its imports take long

        check_npus(visible_devices(job, "ASCEND_RT_VISIBLE_DEVICES"), around.named)
    notes += look_at_processors(job, around)
    notes += look_at_memory(around)
    return notes


def visible_devices(job: dict[str, Any], variable: str) -> list[str]:
    """Return the run's devices on this node: indices or UUIDs.

    What the run's environment says counts, then the run's own list.
    """
    value = job["env"].get(variable)
    if value is None:
        return [str(number) for number in job["device_ids"]]
    return [word.strip() for word in value.split(",") if word.strip()]


def look_at_disks(job: dict[str, Any]) -> list[str]:
    """Refuse a full disk of the run's folders; note one of the user's home."""
    env = {**os.environ, **job["env"]}
    for path, need in (
        (job["runs"], FREE_BYTES),
        (job.get("scratch"), FREE_BYTES),
        (env.get("TMPDIR") or "/tmp", FULL_BYTES),  # noqa: S108  # where programs write
    ):
        if fault := full(path, need):
            raise RefusedError(Cause.DISK_FULL, fault)
    fault = full(env.get("HOME"), FULL_BYTES)
    return [fault] if fault else []


def full(path: str | None, need: int) -> str | None:
    """Say why the disk of `path` cannot hold what a run writes there; None also without one."""
    disk = disk_of(path) if path and os.path.isabs(path) else None
    return leftovers.full(path, disk, need) if path and disk else None


def look_at_processors(job: dict[str, Any], around: Around) -> list[str]:
    """Note processes that keep the run's processors busy; they are timed only where some may."""
    load = read_text("/proc/loadavg").split()
    if len(load) < 4 or load[3].split("/")[0] in ("0", "1"):
        return []  # nothing runs now but this
    cores = os.sched_getaffinity(0)
    candidates = leftovers.suspects(around.table.values(), around.own)
    there = [process for process in candidates if shares(process, cores)]
    if not there:
        return []
    before, began = [(process, spent(process.pid)) for process in there], time.monotonic()
    time.sleep(TIMED_S)
    passed = time.monotonic() - began
    used = [
        ((now - then) / passed, process)
        for process, then in before
        for now in (spent(process.pid),)
        if then is not None and now is not None
    ]
    granted = min(len(cores), number_of("SLURM_CPUS_ON_NODE") or len(cores))
    note = leftovers.cpu_note(used, len(cores), granted, job.get("device", "cpu"), around.who)
    return [note] if note else []


def shares(one: SeenProcess, cores: set[int]) -> bool:
    """Whether a process may run on one of these processors."""
    try:
        return bool(os.sched_getaffinity(one.pid) & cores)
    except OSError:
        return False


def spent(pid: int) -> float | None:
    """Return the seconds that a process has taken of processors."""
    process = leftovers.process(read_bytes("/proc/%d/stat" % pid), 0.0, os.sysconf("SC_CLK_TCK"), 1)
    return process.cpu_s if process else None


def number_of(variable: str) -> int | None:
    """Return what Slurm says in a variable; None where it says no number."""
    value = os.environ.get(variable, "") if "SLURM_JOB_ID" in os.environ else ""
    return int(value) if value.isdigit() else None


def look_at_memory(around: Around) -> list[str]:
    """Note that little memory is free."""
    memory = pairs(read_text("/proc/meminfo"), ":")
    try:
        total, available = (
            int(memory[name].split()[0]) << 10 for name in ("MemTotal", "MemAvailable")
        )
    except (KeyError, ValueError, IndexError):
        return []
    of_cpus = (number_of("SLURM_MEM_PER_CPU") or 0) * (number_of("SLURM_CPUS_ON_NODE") or 0)
    granted = (number_of("SLURM_MEM_PER_NODE") or of_cpus) * MIB or total
    if available >= leftovers.MEMORY_NOTED * total:
        return []  # the usual case needs no processes
    other_processes = [process for pid, process in around.table.items() if pid not in around.own]
    note = leftovers.memory_note(available, total, granted, other_processes, around.who)
    return [note] if note else []
