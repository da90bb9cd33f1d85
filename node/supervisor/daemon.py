"""The detached process that starts, watches and ends this node's part of a run."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import time

from node import bootstrap
from node.arrivals import Arrivals
from node.causes import Cause, EndedBy
from node.endings import WORDS

from . import chain, own_disk, scratch
from .answers import RefusedError
from .fan_out import fan_out
from .faults import Faults
from .files import stamp_of, write
from .names import ARRIVALS, GO, LEASE, LOCK, LOG, OVER, SAMPLER_TROUBLE, SAMPLES, STATE, TROUBLE
from .node_tasks import lead
from .parent import end_with_parent
from .processes import (
    MARK,
    SUPERVISOR,
    await_end,
    end_run,
    environment,
    reap,
    send,
    stat_of,
)
from .stacks import take_stacks
from .state import (
    TERMINATED,
    boot_id,
    finish,
    host_name,
    identity,
    lease_over,
    lease_s,
    stop_reason,
)
from .stopping import STUCK_S, end_stuck_in

TYPE_CHECKING = False  # as typing's, whose import would cost each poll
if TYPE_CHECKING:
    from typing import Any, Callable, NoReturn, Optional

    Asked = Callable[[], Optional[dict[str, Any]]]  # why the run must end; None: go on

PR_SET_CHILD_SUBREAPER = 36
RENEWED_S = 4.0  # the lease of a dead bench is no longer renewed after this time
FLUSH_S = 1.0  # between two times that arrivals are written
SAMPLER_S = 2.0  # a sampler may take this long for its last sample; one in state D never ends
STALLED = Cause.STALLED  # the stop reason that asks for stacks first


def daemon(job: dict[str, Any], tell: int) -> NoReturn:
    """The detached process: wait for `go`, run, watch, end, write done.json. Never returns."""
    lease: dict[str, Any] = {}

    def asked() -> dict[str, Any] | None:
        return asked_to_end(job, lease)

    def begin() -> dict[str, Any] | None:
        return await_go(asked)

    def run() -> dict[str, Any]:
        try:
            lock = take_lock(job)
        except RefusedError as refusal:
            scratch.remove(job)
            # Written so that this folder is not mistaken for a running run.
            refused = {"refused": refusal.cause, "message": str(refusal)}
            os.write(tell, json.dumps(refused).encode())
            return {"ended_by": EndedBy.REFUSED, "message": str(refusal)}
        identify()
        os.close(tell)
        done = watch(job, begin, asked)
        os.close(lock)
        return done

    enter(job["dir"])
    # The ssh session may close: its hangup must not end this process.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    finish(hold(run))
    os._exit(0)


def enter(folder: str) -> None:
    """Make this process the supervisor of the run in `folder`: set folder, streams and signals."""
    os.chdir(folder)
    os.umask(0o077)
    null = os.open(os.devnull, os.O_RDONLY)
    trouble = os.open(TROUBLE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(null, 0)
    os.dup2(trouble, 1)
    os.dup2(trouble, 2)
    for number in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # only to wake sigtimedwait
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    signal.signal(signal.SIGTERM, lambda *_: TERMINATED.append(True))


def identify() -> None:
    """Write into the run's folder which process this supervisor is."""
    entry = stat_of(os.getpid())
    me = {"pid": os.getpid(), "start": entry and entry[1], "boot_id": boot_id()}
    write(STATE, json.dumps({**me, "hostname": host_name()}))


def hold(run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Become the subreaper, call `run`, and return the content of done.json; never raises."""
    done: dict[str, Any] = {
        "rc": None,
        "signal": None,
        "ended_by": EndedBy.ERROR,
        "left": 0,
        "signalled": 0,
    }
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        done["subreaper"] = libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        done.update(run())
    except BaseException as error:  # done.json must have the reason, whatever it is
        import traceback

        traceback.print_exc()
        done["ended_by"] = EndedBy.ERROR
        done["message"] = "supervisor: %s: %s" % (type(error).__name__, error)
    return {**done, "ended_at": time.time()}


def take_lock(job: dict[str, Any]) -> int:
    """Take the node's lock, held for the life of the daemon; return its descriptor.

    A run whose lease is not renewed ends within seconds, so wait for a taken lock; if the lease is
    still renewed after RENEWED_S, a living bench holds the node: refuse, and name its run. Nodes
    that share a root have one lock each, so NFS without a lock daemon is enough.
    """
    path = os.path.join(job["runs"], LOCK % host_name())
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    began = time.monotonic()
    patience = job["lease_s"] + job["grace_s"] + 5.0
    last_lease, stuck = None, False
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            waited = time.monotonic() - began
            holder = os.pread(handle, 4096, 0).decode("utf-8", "replace").strip()
            lease_path = os.path.join(job["runs"], holder, LEASE)
            lease = stamp_of(lease_path)
            over = max(patience, lease_s(lease_path) + job["grace_s"] + 5.0)
            most = patience if over > patience else patience + STUCK_S
            if waited < RENEWED_S:
                last_lease = lease
            elif lease == last_lease and waited > over and not stuck:
                stuck = True  # its supervisor should have ended it
                end_stuck_in(os.path.join(job["runs"], holder))
            elif lease != last_lease or waited > most:
                raise RefusedError(
                    Cause.NODE_BUSY,
                    "another run holds this node (%s); wait for it, or end it with"
                    " `trainbench stop`" % (holder or "unknown"),
                )
            time.sleep(0.05)
        except OSError as error:
            raise RefusedError(
                Cause.IO_ERROR,
                "%s cannot be locked (%s); mount its file system with locks (flock), or set"
                " another cluster_root" % (path, error.strerror),
            )
    os.ftruncate(handle, 0)
    os.pwrite(handle, os.path.relpath(job["dir"], job["runs"]).encode(), 0)
    return handle


def await_go(asked: Asked) -> dict[str, Any] | None:
    """Wait for the control node's go; return why the run ended before that, or None."""
    while not os.path.exists(GO):
        early = asked()
        if early is not None:
            return early
        time.sleep(0.01)
    return None


def watch(job: dict[str, Any], begin: Asked, asked: Asked) -> dict[str, Any]:
    """Wait for go, start the launcher, wait until it ends; return the content of done.json.

    Devices are sampled from the start, before the launcher runs. `begin` returns None once the
    launcher may start, `asked` None while it may go on; otherwise both return why the run ends.
    """
    sampler = spawn_sampler(job)
    early = begin()
    unseen = None if early is not None else chain.not_shared(job)
    if unseen is not None:
        early = {"ended_by": EndedBy.ERROR, "message": unseen}
    if early is not None:
        end_sampler(sampler, {})
        scratch.remove(job)
        return early
    killed_before = oom_kills()
    started_at, begun = time.time(), time.monotonic()
    launcher = spawn(job) if job["argv"] else None
    arrivals = Arrivals(LOG, *job.get("arrivals", (ARRIVALS, FLUSH_S))) if launcher else None
    planned = (job.get("chain") or {}).get("faults")
    faults = Faults(job, launcher) if planned else None
    dead: dict[int, int] = {}
    result: dict[str, Any] | None = None
    while result is None:
        dead.update(reap())
        now, ending = time.monotonic(), asked()
        if faults is not None:
            faults.look()
        if launcher in dead:
            result = {"ended_by": EndedBy.EXIT}
        elif ending is not None:
            result = ending
        elif now - begun > job["time_limit_s"]:
            message = "the run reached time_limit_s, %g s" % job["time_limit_s"]
            result = {"ended_by": EndedBy.TIME_LIMIT, "message": message}
        elif arrivals is not None and arrivals.log_bytes() > job["log_limit_bytes"]:
            message = "the log outgrew its limit of %d MiB (4 GiB, or half of the free disk)"
            message %= job["log_limit_bytes"] >> 20
            result = {"ended_by": EndedBy.LOG_LIMIT, "message": message}
        else:
            signal.sigtimedwait({signal.SIGCHLD}, 0.1 if faults is None else 0.05)
    ended = time.monotonic()
    end_sampler(sampler, dead)
    if result.get("message") == STALLED:
        result["stood"] = take_stacks(job, dead)
    signalled, left = end_run(job, dead)
    if arrivals is not None:
        arrivals.end()
    status = dead.get(launcher) if launcher else None
    if status is not None and "rc" not in result:
        if os.WIFSIGNALED(status):
            result["signal"] = os.WTERMSIG(status)
        else:
            result["rc"] = os.WEXITSTATUS(status)
    killed_after = oom_kills()
    if killed_before is not None and killed_after is not None:
        result["oom_kills"] = killed_after - killed_before
    result.update(
        started_at=started_at,
        wall_s=round(ended - begun, 3),
        signalled=signalled,
        left=left,
    )
    return result


def asked_to_end(job: dict[str, Any], lease: dict[str, Any]) -> dict[str, Any] | None:
    """Return what done.json says of a run that is stopped or whose lease is no longer renewed.

    None while it may go on; `lease` holds what `lease_over` last read.
    """
    reason = stop_reason()
    if reason:
        return {"ended_by": EndedBy.STOP, "message": reason}
    if os.path.exists(OVER):  # only on a node that waits for another node's launcher
        return {"ended_by": EndedBy.EXIT, "rc": 0}
    return lease_lost(lease, job)


def lease_lost(
    seen: dict[str, Any], job: dict[str, Any], path: str = LEASE
) -> dict[str, Any] | None:
    """Return what done.json says of a run whose lease is no longer renewed; else None."""
    held_s = lease_over(seen, time.monotonic(), job["lease_s"], path)
    message = "%s for %g s (lost_contact_s)" % (WORDS[EndedBy.LEASE], held_s)
    return {"ended_by": EndedBy.LEASE, "message": message} if held_s else None


def oom_kills() -> int | None:
    """Return how many processes the kernel has killed for lack of memory since boot, or None."""
    try:
        with open("/proc/vmstat", encoding="ascii") as stream:
            for line in stream:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    except OSError:
        pass
    return None


def spawn_sampler(job: dict[str, Any]) -> dict[int, int]:
    """Start node/sampler.py beside the trainer; {pid: start time}, to end it by.

    It has the run's mark, so that it ends with the run even if this daemon was killed.
    """
    entry = "sampler:sample"
    spec = {"device": job.get("device", "cpu"), "path": own_disk.path_of(job, SAMPLES)}
    spec["flush_s"] = job.get("flush_s", 0)
    argv = [
        sys.executable,
        "-I",
        "-S",
        *bootstrap.command(entry),
        bootstrap.message(entry, spec, job.get("modules", bootstrap.FILE)),
    ]
    try:
        with open(own_disk.path_of(job, SAMPLER_TROUBLE), "wb") as trouble:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=trouble,
                stderr=trouble,
                env={**os.environ, MARK: job["mark"], SUPERVISOR: identity()},
                start_new_session=True,
            )
    except OSError:
        return {}  # training does not need samples
    state = stat_of(process.pid)
    return {process.pid: state[1]} if state else {}


def spawn(job: dict[str, Any]) -> int:
    """Start the launcher in its own session, by exec and never by a shell; return its pid."""
    env = environment(job)
    env.update({MARK: job["mark"], SUPERVISOR: identity()})
    log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    supervisor = os.getpid()
    pid = os.fork()
    if pid:
        os.close(log)
        return pid
    try:
        if job.get("tasks") or job.get("processes"):  # else it is marked within milliseconds
            end_with_parent(supervisor)
        os.setsid()
        # A trainer's core is tens of GB, and a run would wait for it.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        os.dup2(log, 1)
        os.dup2(log, 2)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        if not job.get("tasks"):  # else MPI's descriptors, which are srun's, and the socket
            os.closerange(3, 256)
        os.umask(0o022)
        os.chdir(job["cwd"])
        if job.get("tasks"):
            os._exit(lead(job, env))
        if job.get("processes"):
            os._exit(fan_out(job["processes"], env))
        os.execvpe(job["argv"][0], job["argv"], env)
    except BaseException as error:
        os.write(2, ("trainbench: cannot start %s: %s\n" % (job["argv"][0], error)).encode())
    os._exit(127)


def end_sampler(sampler: dict[int, int], dead: dict[int, int]) -> None:
    """Let the sampler take a last sample and end; kill it if it does not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        send(sampler, number)
        await_end(sampler, dead, SAMPLER_S)
