"""Which processes are the run's, and how all of them are ended."""

from __future__ import annotations

import os
import signal
import sys
import time

from . import scratch

TYPE_CHECKING = False  # as typing's, whose import would cost each poll
if TYPE_CHECKING:
    from typing import Any

MARK = "PYTHON_TRAINBENCH_RUN"  # the deepspeed launcher forwards variables that begin with PYTHON
SUPERVISOR = "TRAINBENCH_SUPERVISOR"  # which process supervises them, on its node: state.identity()
SIGNATURE = (MARK, SUPERVISOR)  # what the run's processes are found by
KEPT = ("HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "XDG_RUNTIME_DIR")
# What Slurm and pyxis put into a task's environment, and what pyxis and enroot make of it for
# PyTorch's images: ranks and an address that are srun's, and not the launcher's.
FOREIGN = ("SLURM", "SBATCH_", "SRUN_", "PMI", "ENROOT_", "PYXIS_", "TRAINBENCH_")
FOREIGN_NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
AFTER_S = 60.0  # for an engine to remove a container


def environment(job: dict[str, Any]) -> dict[str, str]:
    """What the job's processes get: little of the node's own, and all that an image says.

    `step`: srun has this supervisor in a container, whose variables are this process's own.
    """
    if job.get("step"):
        env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(FOREIGN) and name not in FOREIGN_NAMES
        }
    else:
        env = {name: os.environ[name] for name in KEPT if name in os.environ}
    env.update(job["env"])
    return env


def program_of(job: dict[str, Any]) -> str:
    """The path of the job's program, which may be a name alone, or one within its folder; empty
    where it is not there.
    """
    name: str = job["argv"][0]
    folders = environment(job).get("PATH", os.defpath).split(os.pathsep)
    within = [job.get("cwd", "")] if "/" in name else folders
    places = [os.path.join(folder, name) for folder in within]
    return next((path for path in places if os.access(path, os.X_OK)), "")


def stat_of(pid: int) -> tuple[int, int, str] | None:
    """(parent pid, start time in ticks, state) of a process, or None if it is gone."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as stream:
            fields = stream.read().rsplit(b")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return int(fields[1]), int(fields[19]), fields[0].decode()


def environment_of(pid: int) -> dict[str, str]:
    """A process's variables, as it was started with; {} where they cannot be read."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as stream:
            arguments = stream.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return {}
    return dict(word.split("=", 1) for word in arguments if "=" in word)


def marked(pid: int, mark: bytes) -> bool:
    """Whether the process carries the run's mark in its environment."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as stream:
            return mark in stream.read().split(b"\0")
    except OSError:
        return False


def ours(mark: str, root: int) -> dict[int, int]:
    """Live processes of the run: {pid: start time}, without `root` (the daemon) itself.

    A process is ours if it descends from the daemon or carries the run's mark. Zombies are left
    out: there is nothing to end in them.
    """
    if root <= 1:
        raise ValueError("a root of %d would claim processes that are not ours" % root)
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            entry = stat_of(int(name))
            if entry:
                table[int(name)] = entry
    pids = {root}
    grown = True
    while grown:
        grown = False
        for pid, entry in table.items():
            if pid not in pids and entry[0] in pids:
                pids.add(pid)
                grown = True
    word = ("%s=%s" % (MARK, mark)).encode()
    return {
        pid: entry[1]
        for pid, entry in table.items()
        if pid > 1
        and pid not in (root, os.getpid())
        and entry[2] not in "ZX"
        and (pid in pids or marked(pid, word))
    }


def send(pids: dict[int, int], number: int) -> None:
    """Signal processes that are still the ones we saw (same start time)."""
    for pid, started in pids.items():
        now = stat_of(pid)
        if now and now[1] == started:
            try:
                os.kill(pid, number)
            except OSError:
                pass


def reap() -> dict[int, int]:
    """Collect dead children; {pid: wait status}."""
    dead: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return dead
        if pid == 0:
            return dead
        dead[pid] = status


def await_end(pids: dict[int, int], dead: dict[int, int], patience_s: float) -> None:
    """Wait up to `patience_s` until processes that we saw are gone: same pid and start time."""
    until = time.monotonic() + patience_s
    while True:
        dead.update(reap())
        there = ((stat_of(pid), started) for pid, started in pids.items())
        if not any(entry and entry[1] == started for entry, started in there):
            return
        if time.monotonic() >= until:
            return
        time.sleep(0.01)


def end_all(mark: str, root: int, grace_s: float, dead: dict[int, int]) -> tuple[int, int]:
    """TERM, wait up to `grace_s`, KILL until none is left. Returns (signalled, left)."""
    signalled: set[int] = set()
    for number, patience in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        until = time.monotonic() + patience
        signals_sent: dict[int, int] = {}
        while True:
            alive = ours(mark, root)
            dead.update(reap())  # after the look: who died during it has a status, too
            if not alive:
                return len(signalled), 0
            new = {pid: start for pid, start in alive.items() if signals_sent.get(pid) != start}
            send(new, number)
            signals_sent.update(new)
            signalled.update(new)
            if time.monotonic() >= until:
                break
            time.sleep(0.02)
    return len(signalled), len(ours(mark, root))


def end_run(job: dict[str, Any], dead: dict[int, int]) -> tuple[int, int]:
    """End all processes of a run, then what is to be ended otherwise. (signalled, left)."""
    signalled, left = end_all(job["mark"], os.getpid(), job["grace_s"], dead)
    if job.get("after"):
        run_after(job)
        # Podman without root leaves a process for the next one.
        left = end_all(job["mark"], os.getpid(), job["grace_s"], dead)[1]
    scratch.remove(job)
    return signalled, left


def run_after(job: dict[str, Any]) -> None:
    """Run the job's `after`; what it has to remove may be gone already."""
    import subprocess  # a third of a poll's time, which runs nothing

    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    env["PATH"] = job["env"].get("PATH", os.defpath)
    null = subprocess.DEVNULL
    for argv in job.get("after", []):
        try:
            subprocess.run(argv, env=env, timeout=AFTER_S, stdin=null, stdout=null, stderr=null)
        except (OSError, subprocess.SubprocessError) as error:
            sys.stderr.write("trainbench: %s: %s\n" % (argv[0], error))
