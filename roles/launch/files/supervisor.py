"""Run one node's part of a run, and end all of it. Standard library only, Python 3.8 or newer.

The control node's action plugin sends this file over Ansible's own connection and calls it:

    python3 - < supervisor.py + a last line      prepare(job): check, write files, leave a daemon
    python3 supervisor.py poll --go ...          start it, wait for news, renew the lease
    python3 supervisor.py fetch ...              bring the part of a file that no poll brought
    python3 supervisor.py close ...              all was brought: remove the folder, or keep it
    python3 - < supervisor.py + a last line      inspect(paths), stop_all(runs, patience)

Every call prints one line, `TRAINBENCH {json}`. The folder of a run holds job.json (0600),
state.json, lease, go, stop, log, done.json and supervisor.log; who may read it is its owner only.
Variables that are secret (the job's `secrets`) are in no file of it.
A job without argv starts nothing: another node's launcher starts this node's processes (deepspeed
does, over ssh). Its daemon waits until a poll says `--over`, and ends what carries the run's mark.
So does that of a job whose process only lets the launcher in (a container with an sshd). A job's
`after` runs once its processes have ended: it removes a container, whose own end may be lost.

What the daemon promises: nothing that the trainer started outlives it. It is the subreaper of its
children (daemonised ones come back to it) and puts a mark in their environment; it finds them by
descent and by mark, sends TERM, waits, sends KILL. It never signals a process that is
none of these. It ends the run when the launcher exits, when `stop` appears, at the time limit,
when the log outgrows its limit, and when nobody renewed the lease for `lost_contact_s`, timed on
this node's monotonic clock. Beside the trainer it runs sampler.py (samples.csv), and before it
ends a run that stalled it asks every process for its stack.
"""

import argparse
import base64
import ctypes
import errno
import fcntl
import json
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import zlib

FETCHED = ("log", "samples.csv", "stacks.txt")  # what the control node may bring, and:
EVENTS = "tensorboard"  # a folder that trainers write event files into
EVENTS_BYTES = 64 * 1024 * 1024  # of event files that are brought, and
EVENTS_MOST = 64  # how many
KEPT_RUNS = 20  # folders of a campaign's fetched runs that stay here: those that did not end well
MARK = "PYTHON_TRAINBENCH_RUN"  # the deepspeed launcher forwards variables that begin with PYTHON
TAIL_BYTES = 64 * 1024  # of new log that one poll brings
FETCH_BYTES = 8 * 1024 * 1024  # of log that one fetch brings, before compression
KEPT = ("HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "XDG_RUNTIME_DIR")
PR_SET_CHILD_SUBREAPER = 36
RUNS_LOCK = "lock"
RENEWED_S = 4.0  # a dead runner is noticed, and its leases end, sooner than this
RESERVE_BYTES = 64 * 1024  # freed before done.json is written: a full disk must not hide the end
FREE_BYTES = 64 * 1024 * 1024  # what a run's disk must have at least: logs, sockets, caches
IDLE_FRACTION = 0.1  # of a device's memory that may be in use on an idle one (drivers keep some)
IDLE_PATIENCE_S = 10.0  # a killed trainer's device memory is freed a moment after its death
AFTER_S = 60.0  # for an engine to remove a container
STACK_PATIENCE_S = 10.0  # for all processes to write their stacks
STACK_S = 1.0  # for one of them
STALLED = "stalled"  # the stop reason that asks for stacks first
TERMINATED = []  # not empty once the daemon was sent TERM


class RefusedError(Exception):
    """The run cannot start here. `cause` is a word, the message one sentence."""

    def __init__(self, cause, message):
        super().__init__(message)
        self.cause = cause


# --- files ------------------------------------------------------------------------------------


def write(path, text, mode=0o600):
    """Write a file so that a reader sees all of it or none of it."""
    fresh = "%s.tmp%d" % (path, os.getpid())
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(fresh, path)


def read_json(path):
    """The file's JSON, or None where there is no such (whole) file."""
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except (OSError, ValueError):
        return None


def answer(**facts):
    """Print the one line that the action plugin reads."""
    sys.stdout.write("TRAINBENCH " + json.dumps(facts) + "\n")
    sys.stdout.flush()


# --- processes --------------------------------------------------------------------------------


def stat_of(pid):
    """(parent pid, start time in ticks, state) of a process, or None if it is gone."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as stream:
            fields = stream.read().rsplit(b")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return int(fields[1]), int(fields[19]), fields[0].decode()


def marked(pid, mark):
    """Whether the process carries the run's mark in its environment."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as stream:
            return mark in stream.read().split(b"\0")
    except OSError:
        return False


def ours(mark, root):
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
    found = {root}
    grown = True
    while grown:
        grown = False
        for pid, entry in table.items():
            if pid not in found and entry[0] in found:
                found.add(pid)
                grown = True
    mark = ("%s=%s" % (MARK, mark)).encode()
    return {
        pid: entry[1]
        for pid, entry in table.items()
        if pid > 1
        and pid not in (root, os.getpid())
        and entry[2] not in "ZX"
        and (pid in found or marked(pid, mark))
    }


def send(pids, number):
    """Signal processes that are still the ones we saw (same start time)."""
    for pid, started in pids.items():
        now = stat_of(pid)
        if now and now[1] == started:
            try:
                os.kill(pid, number)
            except OSError:
                pass


def reap():
    """Collect dead children; {pid: wait status}."""
    dead = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return dead
        if pid == 0:
            return dead
        dead[pid] = status


def end_all(mark, root, grace_s, dead):
    """TERM, wait up to `grace_s`, KILL until none is left. Returns (signalled, left)."""
    signalled = set()
    for number, patience in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        until = time.monotonic() + patience
        sent = {}
        while True:
            dead.update(reap())
            alive = ours(mark, root)
            if not alive:
                return len(signalled), 0
            new = {pid: start for pid, start in alive.items() if sent.get(pid) != start}
            send(new, number)
            sent.update(new)
            signalled.update(new)
            if time.monotonic() >= until:
                break
            time.sleep(0.02)
    return len(signalled), len(ours(mark, root))


def end_run(job, dead):
    """End all processes of a run, then what is to be ended otherwise. (signalled, left)."""
    signalled, left = end_all(job["mark"], os.getpid(), job["grace_s"], dead)
    if job.get("after"):
        run_after(job)
        left = len(ours(job["mark"], os.getpid()))
    return signalled, left


def run_after(job):
    """Run the job's `after`; what it has to remove may be gone already."""
    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    env["PATH"] = job["env"].get("PATH", os.defpath)
    quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    for argv in job.get("after", []):
        try:
            subprocess.run(argv, env=env, timeout=AFTER_S, **quiet)
        except (OSError, subprocess.SubprocessError) as error:
            sys.stderr.write("trainbench: %s: %s\n" % (argv[0], error))


# --- prepare ----------------------------------------------------------------------------------


def check(job):
    """Refuse what would fail later, by name."""
    for path, size in job.get("requires", {}).items():
        try:
            found = os.stat(path).st_size
        except OSError:
            raise RefusedError("missing", "%s is missing; run playbooks/setup.yml again" % path)
        if size is not None and found != size:
            raise RefusedError(
                "changed",
                "%s has %d bytes where %d were recorded; run playbooks/setup.yml again"
                % (path, found, size),
            )
    program = job["argv"][0] if job["argv"] else sys.executable
    if not os.access(program, os.X_OK):
        raise RefusedError(
            "missing", "%s cannot be executed; run playbooks/setup.yml again" % program
        )
    if job["cwd"] != job["dir"] and not os.path.isdir(job["cwd"]):  # dir is made afterwards
        raise RefusedError("missing", "the working directory %s does not exist" % job["cwd"])
    disk = os.statvfs(job["runs"])
    free = disk.f_bavail * disk.f_frsize
    if free < FREE_BYTES:
        raise RefusedError(
            "disk_full",
            "only %d MiB are free on the disk of %s and a run needs %d; make room there"
            % (free >> 20, job["runs"], FREE_BYTES >> 20),
        )
    if job.get("device") == "cuda":
        check_gpus(job["device_ids"])
    for port in job.get("ports", []):
        for family in (socket.AF_INET, socket.AF_INET6):
            try:
                probe = socket.socket(family, socket.SOCK_STREAM)
            except OSError:
                continue  # this node has no such family
            with probe:
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("", port))
                except OSError as error:
                    if error.errno == errno.EADDRINUSE:
                        raise RefusedError("port_in_use", "port %d is already in use" % port)


def check_gpus(wanted):
    """Refuse GPUs that are not there, or that somebody uses. `wanted`: indices as nvidia-smi's."""
    until = time.monotonic() + IDLE_PATIENCE_S
    while True:
        fault = gpu_fault(wanted, *ask_nvidia_smi())
        if not fault:
            return
        if fault[0] != "device_busy" or time.monotonic() > until:
            raise RefusedError(*fault)
        time.sleep(0.5)


def ask_nvidia_smi():
    """(GPU rows, rows of processes that compute), as nvidia-smi prints them; asked at once."""
    asked = []
    for query in (
        "--query-gpu=index,uuid,memory.used,memory.total",
        "--query-compute-apps=gpu_uuid,pid,process_name",
    ):
        argv = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
        try:
            asked.append(
                subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            )
        except OSError as error:
            raise RefusedError("no_device", "nvidia-smi cannot be run: %s" % error.strerror)
    said = []
    for process in asked:
        try:
            text = process.communicate(timeout=30)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            raise RefusedError("no_device", "nvidia-smi gave no answer for 30 s")
        if process.returncode != 0:
            words = text.strip().splitlines() or ["it said nothing"]
            raise RefusedError("no_device", "nvidia-smi failed: %s" % words[-1])
        said.append([line.split(", ", 3) for line in text.splitlines() if ", " in line])
    return said


def gpu_fault(wanted, gpus, computing):
    """(cause, sentence) of the first of the wanted GPUs that cannot be used, or None."""
    there = {int(row[0]): row for row in gpus if row[0].isdigit()}
    for index in wanted:
        if index not in there:
            return "no_device", "GPU %d is not there; nvidia-smi lists %s" % (
                index,
                ", ".join(str(one) for one in sorted(there)) or "none",
            )
        _, uuid, used, total = there[index]
        for app in computing:
            if app[0] == uuid:
                return "device_busy", "GPU %d is in use by pid %s (%s); end it, or wait for it" % (
                    index,
                    app[1],
                    os.path.basename(app[2].split(" ")[0]),
                )
        # A process of another container has no row, but its memory shows.
        if used.isdigit() and total.isdigit() and int(used) > IDLE_FRACTION * int(total):
            return "device_busy", "GPU %d has %s of %s MiB in use by somebody not seen here" % (
                index,
                used,
                total,
            )
    return None


def make_room(folder):
    """Remove what an older run of the same name left, once that has ended; refuse a live one."""
    if not os.path.exists(folder):
        return
    if not os.path.exists(os.path.join(folder, "job.json")):
        raise RefusedError("exists", "%s exists and is no run's folder; move it away" % folder)
    state = read_json(os.path.join(folder, "state.json")) or {}
    if state.get("hostname", socket.gethostname()) != socket.gethostname():
        raise RefusedError(
            "shared_root",
            "%s is a run of %s: cluster_root must lie on a disk of each node's own"
            % (folder, state["hostname"]),
        )
    here = os.getcwd()
    os.chdir(folder)
    over = os.path.exists("done.json") or not daemon_alive()
    os.chdir(here)
    if not over:
        raise RefusedError("node_busy", "a run of the same name goes on in %s" % folder)
    old = read_json(os.path.join(folder, "job.json"))
    if old:
        run_after(old)
    shutil.rmtree(folder)


def prune(job):
    """Remove the oldest of this campaign's folders that were fetched, but for KEPT_RUNS of them.

    A folder that nobody fetched stays, and so does one of another user.
    """
    found = []
    for folder, inside, names in os.walk(os.path.join(job["runs"], job["run_id"].split("/")[0])):
        if "job.json" in names:
            inside[:] = []
            fetched = "fetched" in names and "done.json" in names
            if fetched and os.stat(folder).st_uid == os.geteuid():
                found.append((stamp_of(os.path.join(folder, "done.json")) or 0, folder))
    for _, folder in sorted(found, reverse=True)[KEPT_RUNS:]:
        shutil.rmtree(folder, ignore_errors=True)


def limit_log(job):
    """A log may take half of what is free, so that a flood fills nobody's disk."""
    disk = os.statvfs(job["runs"])
    half = disk.f_bavail * disk.f_frsize // 2
    job["log_limit_bytes"] = min(job["log_limit_bytes"], half)


def take_lock(job):
    """The node's lock, held for the life of the daemon.

    A run that nobody renews ends within seconds, so a taken lock is waited for; a run whose lease
    is still renewed after RENEWED_S belongs to a living bench, and is named.
    """
    path = os.path.join(job["runs"], RUNS_LOCK)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    began = time.monotonic()
    patience = job["lost_contact_s"] + job["grace_s"] + 5.0
    seen = None
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError:
            waited = time.monotonic() - began
            holder = os.pread(handle, 4096, 0).decode("utf-8", "replace").strip()
            lease = stamp_of(os.path.join(job["runs"], holder, "lease"))
            if waited < RENEWED_S:
                seen = lease
            elif lease != seen or waited > patience:
                raise RefusedError(
                    "node_busy",
                    "another run holds this node (%s); wait for it, or end it with"
                    " playbooks/stop.yml" % (holder or "unknown"),
                )
            time.sleep(0.05)
    os.ftruncate(handle, 0)
    os.pwrite(handle, job["run_id"].encode(), 0)
    return handle


def prepare(job, source):
    """Check the node, lay out the run's folder, and leave a daemon that waits for `go`.

    `job`: run_id, runs (folder of all runs), dir (this run's folder), argv, env, cwd, files
    (name to text, written into dir), requires (path to size in bytes or null), ports, device,
    device_ids, sampler (source of sampler.py), time_limit_s, lost_contact_s, grace_s,
    log_limit_bytes; mark (the same on every node of the run); after (argvs); secrets (variables
    that are written into no file).
    """
    secrets = job.pop("secrets", {})
    try:
        os.makedirs(job["runs"], mode=0o700, exist_ok=True)
        check(job)
        make_room(job["dir"])
        prune(job)
        limit_log(job)
        # Of this run alone: another checkout may run the same campaign below another root.
        job.setdefault("mark", "%s#%s" % (job["dir"], os.urandom(8).hex()))
        os.makedirs(job["dir"], mode=0o700)
        for name, text in job.get("files", {}).items():
            write(os.path.join(job["dir"], name), text)
        write(os.path.join(job["dir"], "supervisor.py"), source)
        write(os.path.join(job["dir"], "sampler.py"), job.pop("sampler", ""))
        write(os.path.join(job["dir"], "job.json"), json.dumps(job))
        write(os.path.join(job["dir"], "lease"), "")
        write(os.path.join(job["dir"], "reserve"), "." * RESERVE_BYTES)
        job["env"] = dict(job["env"], **secrets)
    except RefusedError as refusal:
        answer(refused=refusal.cause, message=str(refusal), now=time.time())
        return
    except OSError as error:
        cause = "disk_full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "io_error"
        answer(refused=cause, message="cannot prepare %s: %s" % (job["dir"], error.strerror))
        return
    hear, tell = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.close(hear)
            daemon(job, tell)
        os._exit(0)
    os.wait()
    os.close(tell)
    with os.fdopen(hear, "rb") as stream:
        said = stream.read()  # until the daemon closes its end: it is ready, or it gave up
    refusal = json.loads(said.decode()) if said else {}
    answer(now=time.time(), boot_id=boot_id(), **refusal)


def boot_id():
    """The kernel's id of this boot: a pid means nothing across a reboot."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            return stream.read().strip()
    except OSError:
        return ""


# --- the daemon -------------------------------------------------------------------------------


def daemon(job, tell):
    """The detached process: wait for `go`, run, watch, end, write done.json. Never returns."""
    os.chdir(job["dir"])
    os.umask(0o077)
    null = os.open(os.devnull, os.O_RDONLY)
    trouble = os.open("supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(null, 0)
    os.dup2(trouble, 1)
    os.dup2(trouble, 2)
    # Not a child's business, and a write to a closed ssh session must not end us.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # only to wake sigtimedwait
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    signal.signal(signal.SIGTERM, lambda *_: TERMINATED.append(True))
    done = {"rc": None, "signal": None, "ended_by": "error", "left": 0, "signalled": 0}
    try:
        try:
            lock = take_lock(job)
        except RefusedError as refusal:
            done.update(ended_by="refused", message=str(refusal))
            finish(done)  # so that nobody takes this folder for a run that goes on
            os.write(tell, json.dumps({"refused": refusal.cause, "message": str(refusal)}).encode())
            os._exit(0)
        libc = ctypes.CDLL(None, use_errno=True)
        done["subreaper"] = libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        me = {"pid": os.getpid(), "start": stat_of(os.getpid())[1], "boot_id": boot_id()}
        write("state.json", json.dumps({**me, "hostname": socket.gethostname()}))
        os.close(tell)
        done.update(watch(job))
        os.close(lock)
    except BaseException as error:  # the last thing it does is to say why
        import traceback

        traceback.print_exc()
        done["ended_by"] = "error"
        done["message"] = "supervisor: %s: %s" % (type(error).__name__, error)
    done["ended_at"] = time.time()
    finish(done)
    os._exit(0)


def finish(done):
    """Write done.json, with the space that prepare set aside for it."""
    try:
        os.unlink("reserve")
    except OSError:
        pass
    write("done.json", json.dumps(done))


def stamp_of(path):
    """A file's mtime in ns, or None; only ever compared with itself."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


def lease_age(state, now):
    """Seconds since the lease's mtime was seen to change (its value is never compared)."""
    stamp = stamp_of("lease")
    if stamp != state.get("stamp"):
        state["stamp"] = stamp
        state["since"] = now
    return now - state["since"]


def stop_reason():
    """What the stop file says, or that the daemon was sent TERM, or None."""
    if TERMINATED:
        return "the supervisor was sent TERM"
    try:
        with open("stop", encoding="utf-8") as stream:
            return stream.read().strip() or "stop"
    except OSError:
        return None


def watch(job):
    """Wait for go, start the launcher, wait for one of its ends; what done.json then says."""
    lease = {}
    while not os.path.exists("go"):
        if stop_reason():
            return {"ended_by": "stop", "message": stop_reason()}
        if lease_age(lease, time.monotonic()) > job["lost_contact_s"]:
            return {"ended_by": "lease"}
        time.sleep(0.01)
    killed_before = oom_kills()
    sampler = spawn_sampler(job)
    started_at, begun = time.time(), time.monotonic()
    launcher = spawn(job) if job["argv"] else None
    dead = {}
    result = None
    while result is None:
        dead.update(reap())
        now = time.monotonic()
        if launcher in dead:
            result = {"ended_by": "exit"}
        elif os.path.exists("over"):  # said only to a node that waits for another's launcher
            result = {"ended_by": "exit", "rc": 0}
        elif stop_reason():
            result = {"ended_by": "stop", "message": stop_reason()}
        elif lease_age(lease, now) > job["lost_contact_s"]:
            result = {"ended_by": "lease"}
        elif now - begun > job["time_limit_s"]:
            result = {"ended_by": "time_limit"}
        elif size_of("log") > job["log_limit_bytes"]:
            limit = job["log_limit_bytes"] >> 20
            words = "the log outgrew its limit of %d MiB (4 GiB, or half of the free disk)" % limit
            result = {"ended_by": "log_limit", "message": words}
        else:
            signal.sigtimedwait({signal.SIGCHLD}, 0.1)
    ended = time.monotonic()
    send(sampler, signal.SIGKILL)
    while any(stat_of(pid) for pid in sampler):
        dead.update(reap())
        time.sleep(0.01)
    if result.get("message") == STALLED:
        result["stood"] = take_stacks(job, dead)
    signalled, left = end_run(job, dead)
    status = dead.get(launcher)
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


def size_of(path):
    """A file's size in bytes; 0 where there is none yet."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def oom_kills():
    """How many processes the kernel has ended for lack of memory since it booted, or None."""
    try:
        with open("/proc/vmstat", encoding="ascii") as stream:
            for line in stream:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    except OSError:
        pass
    return None


def spawn_sampler(job):
    """Start sampler.py beside the trainer; {pid: start time}, to end it by.

    It carries the run's mark, so that it is ended with the run even where this daemon was killed.
    """
    try:
        with open("sampler.log", "wb") as trouble:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "sampler.py", job.get("device", "cpu"), "samples.csv"],
                stdin=subprocess.DEVNULL,
                stdout=trouble,
                stderr=trouble,
                env={**os.environ, MARK: job["mark"]},
                start_new_session=True,
            )
    except OSError:
        return {}  # no samples are no reason not to train
    entry = stat_of(process.pid)
    return {process.pid: entry[1]} if entry else {}


def take_stacks(job, dead):
    """Have every Python process of the run write where it stands, before it is ended.

    Returns [{pid, rank, state}]: the rank by the launcher's own variable, the state as /proc has it
    (T: stopped, D: in a wait that no signal ends). py-spy writes the stacks, where the environment
    or the node has it and may look, into stacks.txt; else Python's own faulthandler, which the
    trainer's environment turns on (PYTHONFAULTHANDLER), writes all threads' stacks into the log at
    ABRT. Children come first and their parents are held meanwhile: a launcher that sees a rank die
    would end the others before they have written. What is no Python is left alone: ssh may bring
    another node's stacks.
    """
    found = {}
    pids = ours(job["mark"], os.getpid())
    for pid, started in pids.items():
        entry = stat_of(pid)
        if entry and runs_python(pid):
            found[pid] = {"pid": pid, "rank": rank_of(pid), "state": entry[2], "parent": entry[0]}
            found[pid]["started"] = started
    order = sorted(found, key=lambda pid: (-depth_of(pid, found), found[pid]["rank"] or 0, pid))
    until = time.monotonic() + STACK_PATIENCE_S
    spy = find_program("py-spy", [os.path.dirname(job["argv"][0])] if job["argv"] else [])
    asked = [pid for pid in order if not (spy and spied(spy, found[pid], until))]
    parents = {each["parent"] for each in found.values()}
    send({pid: found[pid]["started"] for pid in asked if pid in parents}, signal.SIGSTOP)
    for pid in asked:
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
    if asked and ours(job["mark"], os.getpid()):
        time.sleep(2.0)  # pdsh and ssh: the other nodes are asked at the same time
    return [{key: found[pid][key] for key in ("pid", "rank", "state")} for pid in order]


def runs_python(pid):
    """Whether the process is a Python whose faulthandler is on."""
    try:
        program = os.path.basename(os.readlink("/proc/%d/exe" % pid))
    except OSError:
        return False
    return program.startswith("python") and "PYTHONFAULTHANDLER" in environment_of(pid)


def environment_of(pid):
    """A process's variables, as it was started with; {} where they cannot be read."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as stream:
            words = stream.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return {}
    return dict(word.split("=", 1) for word in words if "=" in word)


def rank_of(pid):
    """The rank that the launcher gave the process, or None."""
    rank = environment_of(pid).get("RANK", "")
    return int(rank) if rank.isdigit() else None


def depth_of(pid, found):
    """How many of the found processes it descends from, one after the other."""
    depth = 0
    while pid in found and depth < len(found):
        pid, depth = found[pid]["parent"], depth + 1
    return depth


def label(one):
    """What stands before a process's stack."""
    rank = "" if one["rank"] is None else "rank %d, " % one["rank"]
    words = {"T": ", stopped", "D": ", in a wait that no signal ends"}.get(one["state"], "")
    return "[trainbench: %spid %d%s, stood at:]" % (rank, one["pid"], words)


def note(line):
    """A line of ours in the trainer's log."""
    with open("log", "ab") as stream:
        stream.write(b"\n" + line.encode() + b"\n")


def spied(spy, one, until):
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
        with open("stacks.txt", "ab") as stream:
            stream.write(label(one).encode() + b"\n" + ran.stdout + b"\n")
    return ran.returncode == 0


def find_program(name, folders):
    """The program's path in the first of the folders, or the node's own, that has it; or None."""
    for folder in [*folders, "/usr/local/bin", "/usr/bin"]:
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK):
            return path
    return None


def spawn(job):
    """Start the launcher in a session of its own, by exec and never by a shell; its pid."""
    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    env.update(job["env"])
    env[MARK] = job["mark"]
    log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    pid = os.fork()
    if pid:
        os.close(log)
        return pid
    try:
        os.setsid()
        # A trainer's core is tens of GB, and a run would wait for it.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        os.dup2(log, 1)
        os.dup2(log, 2)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.closerange(3, 256)
        os.umask(0o022)
        os.chdir(job["cwd"])
        os.execve(job["argv"][0], job["argv"], env)
    except BaseException as error:
        os.write(2, ("trainbench: cannot start %s: %s\n" % (job["argv"][0], error)).encode())
    os._exit(127)


# --- what the control node asks ---------------------------------------------------------------


def poll(folder, offset, wait_s, go, stop, over=False, sampled=0):
    """Renew the lease, wait up to `wait_s` for the end, and bring what is new.

    Answers {done, size, offset, data, samples, files, now}: `data` is zlib + base64 of the log from
    `offset`, 64 KiB at most; where more is new, `offset` jumps ahead to the tail (fetch brings the
    rest). `samples` are those from byte `sampled` on. `files`, once the run is over: name to size
    of what else can be fetched. `over`: the nodes that started something have ended.
    """
    os.chdir(folder)
    os.utime("lease", ns=(time.time_ns(), time.time_ns()))
    if stop:
        ask_to_stop(stop)
    if go:
        write("go", "")
    if over:
        write("over", "")
    until = time.monotonic() + wait_s
    done = read_json("done.json")
    while done is None and time.monotonic() < until:
        time.sleep(0.01)
        done = read_json("done.json")
    alive = daemon_alive()
    if done is None and not alive:
        done = read_json("done.json") or lost_supervisor()
    try:
        size = os.stat("log").st_size
        start = max(offset, size - TAIL_BYTES)
        with open("log", "rb") as stream:
            stream.seek(start)
            data = stream.read(TAIL_BYTES)
    except OSError:
        size, start, data = 0, 0, b""
    samples = pack(part("samples.csv", sampled, TAIL_BYTES))
    files = {} if done is None else others()
    os.utime("lease", ns=(time.time_ns(), time.time_ns()))
    facts = {"size": size, "offset": start, "data": pack(data), "samples": samples, "files": files}
    answer(done=done, now=time.time(), **facts)


def part(path, offset, length):
    """Bytes of a file that is no link; none where there is no such file."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as stream:
            stream.seek(offset)
            return stream.read(length)
    except OSError:
        return b""


def others():
    """Name to size of what the run left beside its log: samples, stacks, TensorBoard's files.

    Only plain files of the run's own folder, no link and nothing beyond one; event files up to
    EVENTS_BYTES and EVENTS_MOST in all.
    """
    found = {name: size_of(name) for name in FETCHED[1:] if size_of(name)}
    left, count = EVENTS_BYTES, 0
    for folder, inside, names in () if os.path.islink(EVENTS) else os.walk(EVENTS):
        inside.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            entry = os.lstat(path)
            fits = stat.S_ISREG(entry.st_mode) and entry.st_size <= left and count < EVENTS_MOST
            if "tfevents" in name and fits:
                found[path] = entry.st_size
                left, count = left - entry.st_size, count + 1
    return found


def ask_to_stop(reason):
    """Leave the stop file; where the disk is full, TERM says the same."""
    try:
        write("stop", reason)
    except OSError:
        state = read_json("state.json")
        if state and daemon_alive():
            os.kill(state["pid"], signal.SIGTERM)


def daemon_alive():
    """Whether the daemon of this folder still runs (same pid and same start time)."""
    state = read_json("state.json")
    if not state:
        return True  # it has not written it yet
    if state["boot_id"] != boot_id():
        return False  # the node booted since
    entry = stat_of(state["pid"])
    return bool(entry and entry[1] == state["start"] and entry[2] != "Z")


def lost_supervisor():
    """The daemon was killed: end what it left, by the run's mark, and say so."""
    job = read_json("job.json")
    signalled, left = end_run(job, {})
    done = {
        "rc": None,
        "signal": None,
        "ended_by": "supervisor_lost",
        "signalled": signalled,
        "left": left,
        "ended_at": time.time(),
    }
    if (read_json("state.json") or {}).get("boot_id") not in (None, boot_id()):
        done["message"] = "the node restarted meanwhile"
    try:
        finish(done)
    except OSError:
        pass  # the answer still says it
    return done


def pack(data):
    """Bytes as text that survives any connection."""
    return base64.b64encode(zlib.compress(data, 1)).decode("ascii")


def fetch(folder, name, offset, length):
    """Bring bytes [offset, offset + length) of a file of the run's folder."""
    os.chdir(folder)
    data = b""
    if name in FETCHED or name in others():
        data = part(name, offset, min(length, FETCH_BYTES))
    answer(offset=offset, data=pack(data), now=time.time())


def close(folder, keep):
    """Everything was fetched: remove the folder of a run that is over, or keep it for a look."""
    os.chdir(folder)
    runs = (read_json("job.json") or {}).get("runs")
    if keep or not runs or not os.path.exists("done.json"):
        write("fetched", "")
        answer(removed=False, now=time.time())
        return
    os.chdir(runs)
    shutil.rmtree(folder, ignore_errors=True)
    above = os.path.dirname(folder)
    try:
        while above.startswith(runs + os.sep):
            os.rmdir(above)  # of the cell and the campaign, where nothing else is in them
            above = os.path.dirname(above)
    except OSError:
        pass
    answer(removed=not os.path.exists(folder), now=time.time())


def stop_all(runs, patience_s):
    """End every run that this node holds; for after a dead control process."""
    ended = []
    for folder, _, names in os.walk(runs):
        if "job.json" in names and "done.json" not in names:
            os.chdir(folder)
            ask_to_stop("stopped by playbooks/stop.yml")
            until = time.monotonic() + patience_s
            while not os.path.exists("done.json") and time.monotonic() < until:
                if not daemon_alive():
                    lost_supervisor()
                time.sleep(0.02)
            ended.append({"dir": folder, "done": read_json("done.json")})
    answer(ended=ended, now=time.time())


def inspect(paths):
    """What this node is, for the campaign's record: hardware, system, and the JSON files named.

    `paths`: name to path of a JSON file (installed.json, dataset.json); a missing one is null.
    A file that lists `files` (name to size) beside itself is checked against what is there.
    """
    facts = {
        "now": time.time(),
        "boot_id": boot_id(),
        "hostname": socket.gethostname(),
        "kernel": " ".join(os.uname()[i] for i in (0, 2, 4)),
        "system": key_value("/etc/os-release", "=").get("PRETTY_NAME", "").strip('"'),
        "cpu": key_value("/proc/cpuinfo", ":").get("model name", ""),
        "cpu_count": len(os.sched_getaffinity(0)),
        "memory_mib": int(key_value("/proc/meminfo", ":").get("MemTotal", "0 kB").split()[0])
        // 1024,
        "devices": nvidia_smi(),
        "files": {name: read_json(path) for name, path in paths.items()},
    }
    answer(**facts)


def key_value(path, separator):
    """The first value of each key of a `key<separator>value` file; {} if it cannot be read."""
    found = {}
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                key, _, value = line.partition(separator)
                found.setdefault(key.strip(), value.strip())
    except OSError:
        pass
    return found


def nvidia_smi():
    """One row a GPU: name, memory in MiB, driver; [] where there is no nvidia-smi."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version"]
    try:
        said = subprocess.run(
            [*query, "--format=csv,noheader,nounits"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.split(", ") for line in said.stdout.decode().splitlines()]
    return [{"name": row[0], "memory_mib": row[1], "driver": row[2]} for row in rows]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("poll")
    one.add_argument("--offset", type=int, default=0)
    one.add_argument("--wait", type=float, default=1.0)
    one.add_argument("--go", action="store_true")
    one.add_argument("--stop", default="")
    one.add_argument("--over", action="store_true")
    one.add_argument("--sampled", type=int, default=0)
    two = commands.add_parser("fetch")
    two.add_argument("--name", default="log")
    two.add_argument("--offset", type=int, required=True)
    two.add_argument("--length", type=int, required=True)
    three = commands.add_parser("close")
    three.add_argument("--keep", action="store_true")
    chosen = parser.parse_args(arguments)
    folder = os.path.dirname(os.path.abspath(__file__))
    if chosen.command == "poll":
        news = (chosen.offset, chosen.wait, chosen.go, chosen.stop, chosen.over, chosen.sampled)
        poll(folder, *news)
    elif chosen.command == "close":
        close(folder, chosen.keep)
    else:
        fetch(folder, chosen.name, chosen.offset, chosen.length)


if __name__ == "__main__" and sys.argv[1:]:
    main(sys.argv[1:])
