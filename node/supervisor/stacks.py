"""Where the processes of a stalled run stand."""

from __future__ import annotations

import os
import signal
import subprocess
import time

from .names import LOG, STACKS
from .processes import environment_of, ours, reap, send, stat_of

TYPE_CHECKING = False  # as typing's, whose import would cost each poll
if TYPE_CHECKING:
    from typing import Any

STACK_PATIENCE_S = 10.0  # for all processes to write their stacks
STACK_S = 1.0  # for one of them


def take_stacks(job: dict[str, Any], dead: dict[int, int]) -> list[dict[str, Any]]:
    """Have every Python process of the run write where it stands, before it is ended.

    Returns [{pid, rank, state}]: the rank by the launcher's own variable, the state as /proc has it
    (T: stopped, D: in a wait that no signal ends). py-spy writes the stacks, where the environment
    or the node has it and may look, into stacks.txt; else Python's own faulthandler, which the
    trainer's environment turns on (PYTHONFAULTHANDLER), writes all threads' stacks into the log at
    ABRT. Children come first and their parents are held meanwhile: a launcher that sees a rank die
    would end the others before they have written. Other programs than Python are left alone:
    ssh may bring another node's stacks.
    """
    found: dict[int, dict[str, Any]] = {}
    pids = ours(job["mark"], os.getpid())
    for pid, started in pids.items():
        entry = stat_of(pid)
        if entry and runs_python(pid):
            found[pid] = {"pid": pid, "rank": rank_of(pid), "state": entry[2], "parent": entry[0]}
            found[pid]["started"] = started
    order = sorted(found, key=lambda pid: (-depth_of(pid, found), found[pid]["rank"] or 0, pid))
    until = time.monotonic() + STACK_PATIENCE_S
    spy = find_program("py-spy", [os.path.dirname(job["argv"][0])] if job["argv"] else [])
    remaining = [pid for pid in order if not (spy and spied(spy, found[pid], until))]
    parents = {process["parent"] for process in found.values()}
    send({pid: found[pid]["started"] for pid in remaining if pid in parents}, signal.SIGSTOP)
    for pid in remaining:
        one = {pid: found[pid]["started"]}
        if pid in parents:
            send(one, signal.SIGCONT)  # it may have its children's words to pass on
            time.sleep(0.3)
        note(label(found[pid]))
        send(one, signal.SIGABRT)
        send(one, signal.SIGCONT)
        patience = min(until, time.monotonic() + STACK_S)
        while time.monotonic() < patience and (stat_of(pid) or "ZZZ")[2] not in "ZX":
            dead.update(reap())
            time.sleep(0.01)
    if remaining and ours(job["mark"], os.getpid()):
        time.sleep(2.0)  # pdsh and ssh: the other nodes are asked at the same time
    return [{key: found[pid][key] for key in ("pid", "rank", "state")} for pid in order]


def runs_python(pid: int) -> bool:
    """Whether the process is a Python whose faulthandler is on."""
    try:
        program = os.path.basename(os.readlink("/proc/%d/exe" % pid))
    except OSError:
        return False
    return program.startswith("python") and "PYTHONFAULTHANDLER" in environment_of(pid)


def rank_of(pid: int) -> int | None:
    """The rank that the launcher gave the process, or None."""
    rank = environment_of(pid).get("RANK", "")
    return int(rank) if rank.isdigit() else None


def depth_of(pid: int, found: dict[int, dict[str, Any]]) -> int:
    """How many of the found processes it descends from, one after the other."""
    depth = 0
    while pid in found and depth < len(found):
        pid, depth = found[pid]["parent"], depth + 1
    return depth


def label(one: dict[str, Any]) -> str:
    """What stands before a process's stack."""
    rank = "" if one["rank"] is None else "rank %d, " % one["rank"]
    state_text = {"T": ", stopped", "D": ", in a wait that no signal ends"}.get(one["state"], "")
    return "[trainbench: %spid %d%s, stood at:]" % (rank, one["pid"], state_text)


def note(line: str) -> None:
    """Write a line of the supervisor's into the trainer's log."""
    with open(LOG, "ab") as stream:
        stream.write(b"\n" + line.encode() + b"\n")


def spied(spy: str, one: dict[str, Any], until: float) -> bool:
    """Whether py-spy wrote the process's stack into stacks.txt."""
    argv = [spy, "dump", "--nonblocking", "--pid", str(one["pid"])]
    try:
        ran = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=max(0.1, min(until - time.monotonic(), 5 * STACK_S)),
        )
    except (OSError, subprocess.SubprocessError):
        return False
    if ran.returncode == 0:
        with open(STACKS, "ab") as stream:
            stream.write(label(one).encode() + b"\n" + ran.stdout + b"\n")
    return ran.returncode == 0


def find_program(name: str, folders: list[str]) -> str | None:
    """The program's path in the first of the folders, or the node's own, that has it; or None."""
    for folder in [*folders, "/usr/local/bin", "/usr/bin"]:
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK):
            return path
    return None
