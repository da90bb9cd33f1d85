"""A task of srun for each process of a node: one has the supervisor, the others start a rank each.

srun gives each task its rank, its place among cores and devices, and what MPI needs; so a rank's
process descends from its own task. The tasks of a node meet at a socket without a file: the first
one's launcher (`lead`) tells the others what to run, and hears how that ended (`follow`). Where it
is gone, they end theirs.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import time

from .parent import end_if_orphaned

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any, NoReturn

SLURMS = ("SLURM", "PMI", "OMPI_", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
COME_S = 60.0  # for the other tasks of a node, once the run begins
END_S = 5.0  # between TERM and KILL of a rank whose launcher is gone
LOOK_S = 0.05
MOST_BYTES = 4 << 20  # of what a task is told
PEER = struct.Struct("3i")  # pid, user, group of who is connected


def place_of(mark: str) -> str:
    """Return the name at which the tasks of one start of a run meet on a node."""
    job = [os.environ.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_RESTART_COUNT")]
    return "\0trainbench-%s-%s" % (mark, "-".join(job))


def meet_at(mark: str) -> int:
    """Return a descriptor to `lead` by; the others wait at it from now on."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(place_of(mark))
    listener.listen(1024)
    return listener.detach()


def is_first() -> bool:
    """Whether this task is its node's first, which has the supervisor."""
    return os.environ.get("SLURM_LOCALID", "0") == "0"


def ranks(tasks: int) -> dict[str, str]:
    """Return what a rank's process gets of its task: ranks by the names of torch, Slurm's and MPI's
    own variables.
    """
    environment = os.environ
    env = {name: value for name, value in environment.items() if name.startswith(SLURMS)}
    size = environment.get("SLURM_STEP_NUM_TASKS") or environment.get("SLURM_NTASKS", str(tasks))
    node = environment.get("SLURM_NODEID", "0")
    return {
        **env,
        "RANK": environment.get("SLURM_PROCID", "0"),
        "LOCAL_RANK": environment.get("SLURM_LOCALID", "0"),
        "WORLD_SIZE": size,
        "LOCAL_WORLD_SIZE": str(tasks),
        "NODE_RANK": node,
        "GROUP_RANK": node,
    }


def lead(job: dict[str, Any], env: dict[str, str]) -> int:
    """Start the first rank here, and have the other tasks start theirs.

    Returns the exit code of the first that fails, else 0; a signal that ended one ends this
    process, too. What is left then is the supervisor's to end.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    message = {"argv": job["argv"], "env": env, "tasks": job["tasks"], "cwd": os.getcwd()}
    text = json.dumps(dict(message, log=os.path.join(job["dir"], "launcher.log"))).encode() + b"\n"
    connections = _gathered(socket.socket(fileno=job["listener"]), job["tasks"] - 1)
    if len(connections) < job["tasks"] - 1:
        words = "trainbench: only %d of %d Slurm tasks started on this node\n"
        os.write(2, (words % (len(connections) + 1, job["tasks"])).encode())
        return 127
    for connection in connections:
        connection.sendall(text)
    pid = _started(message)
    waiting: dict[int, socket.socket] = {
        connection.fileno(): connection for connection in connections
    }
    while pid or waiting:
        if pid:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                pid = 0
                if status:
                    return _as(status)
        if not waiting:
            time.sleep(LOOK_S)
            continue
        for handle in select.select(list(waiting), [], [], LOOK_S)[0]:
            result = waiting.pop(handle).recv(64).decode("ascii", "replace")
            # One that says nothing was killed.
            status = int(result) if result.strip().isdecimal() else signal.SIGKILL
            if status:
                return _as(status)
    return 0


def _gathered(listener: socket.socket, count: int) -> list[socket.socket]:
    """Return the connections of so many tasks of this user's, or of those that came in time."""
    connections: list[socket.socket] = []
    until = time.monotonic() + COME_S
    while len(connections) < count and time.monotonic() < until:
        if select.select([listener], [], [], LOOK_S)[0]:
            connection = listener.accept()[0]
            if _user(connection) == os.geteuid():
                connections.append(connection)
            else:
                connection.close()
    return connections


def _user(connected: socket.socket) -> int:
    peer = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
    return int(PEER.unpack(peer)[1])


def _as(status: int) -> int:
    """Return the exit code of a wait status; end this process as that one was ended."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    return os.WEXITSTATUS(status)


def follow(spec: dict[str, Any]) -> NoReturn:
    """Be one of a node's other tasks: start a rank when told, say how it ended, and leave.

    Always with exit code 0: the run's end is the supervisor's to say.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)  # scancel's: the supervisor ends the run
    leader = _connected(place_of(spec["mark"]), spec["patience_s"])
    message = _heard(leader) if leader else None
    if leader is None or message is None:
        os._exit(0)  # the run has not begun, and its records say why
    log = os.open(message["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    pid = _started(message)
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            break
        if select.select([leader], [], [], LOOK_S)[0] and not leader.recv(1):
            _end(pid)
            os._exit(0)
    try:
        leader.sendall(b"%d" % status)
        leader.shutdown(socket.SHUT_WR)
        leader.recv(1)  # until the launcher has ended
    except OSError:
        pass
    os._exit(0)


def _connected(place: str, patience_s: float) -> socket.socket | None:
    until = time.monotonic() + patience_s
    parent = os.getppid()
    while time.monotonic() < until and os.getppid() == parent:
        leader = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            leader.connect(place)
        except OSError:
            leader.close()
            time.sleep(0.1)
            continue
        if _user(leader) == os.geteuid():
            return leader
        leader.close()
        return None
    return None


def _heard(leader: socket.socket) -> dict[str, Any] | None:
    """Return what this task is to start; None where the launcher went without a word."""
    text = b""
    while not text.endswith(b"\n") and len(text) < MOST_BYTES:
        try:
            chunk = leader.recv(1 << 16)
        except OSError:
            chunk = b""
        if not chunk:
            return None
        text += chunk
    message: dict[str, Any] = json.loads(text)
    return message


def _started(message: dict[str, Any]) -> int:
    """Start this task's rank, in a session of its own; return its process."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.umask(0o022)
        os.chdir(message["cwd"])
        end_if_orphaned(parent)
        os.execvpe(
            message["argv"][0], message["argv"], {**message["env"], **ranks(message["tasks"])}
        )
    except BaseException as error:
        text = "trainbench: cannot start %s: %s\n" % (message["argv"][0], error)
        os.write(2, text.encode())
    os._exit(127)


def _end(pid: int) -> None:
    """End a rank's processes: TERM, then KILL."""
    for number, patience in ((signal.SIGTERM, END_S), (signal.SIGKILL, END_S)):
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            return
        until = time.monotonic() + patience
        while time.monotonic() < until:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
            time.sleep(LOOK_S)
