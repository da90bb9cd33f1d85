"""PID 1 of a test node: builds the node's view of the machine, starts sshd, reaps.

    python -I -S init.py LABEL CONFIG.json

Standard library only.  The process that is started joins the node's cgroup and network namespace,
forks PID 1, writes ``CONFIG["pid_file"]``, waits until sshd listens and exits 0; or prints what
went wrong and exits 1.  The label is there to find the node again in the machine's process table.
sshd is a child: "sshd gone" and "node gone" stay two faults.
"""

import ctypes
import json
import os
import shutil
import signal
import stat
import sys
import time
import uuid
from typing import Any

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS = 0x20000, 0x2000000, 0x4000000
CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x8000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
SSHD_READY_S = 60.0
Config = dict[str, Any]

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    """Turn a C call's failure into OSError that says what was tried."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """mount(2); raises OSError."""
    words = [word.encode() or None for word in (source, target, kind)]
    result = libc.mount(*words, ctypes.c_ulong(flags), options.encode() or None)
    check(result, f"cannot mount {kind or source} on {target}")


def read_only(path: str) -> None:
    """Put a read-only view of the path over itself."""
    mount(path, path, flags=MS_BIND)
    mount("", path, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)


def overlay(lower: str, disk: str, name: str, target: str) -> None:
    """Lay a writable layer kept in ``disk`` over ``lower``."""
    upper, work = os.path.join(disk, name, "upper"), os.path.join(disk, name, "work")
    for folder in (upper, work):
        os.makedirs(folder, exist_ok=True)
    if not os.listdir(upper):
        # the upper folder's mode and owner become those of the merged folder
        below = os.stat(lower)
        os.chown(upper, below.st_uid, below.st_gid)
        os.chmod(upper, stat.S_IMODE(below.st_mode))
    # index=off: with an index, an upper layer inside its lower one is refused
    options = f"lowerdir={lower},upperdir={upper},workdir={work},index=off"
    mount("overlay", target, "overlay", options=options)


def mount_root(config: Config) -> None:
    """Build the node's file tree at ``config["root"]``."""
    root, disk = config["root"], config["disk"]
    overlay("/", disk, "root", root)
    for number, folder in enumerate(config["other_mounts"]):
        if os.path.isdir(root + folder):
            try:
                overlay(folder, disk, f"mount{number}", root + folder)
            except OSError:  # a filesystem that cannot be a lower layer is shown read-only
                mount(folder, root + folder, flags=MS_BIND)
                mount("", root + folder, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)
    for name in ("tmp", "var/tmp"):
        source = os.path.join(disk, name.replace("/", "-"))
        os.makedirs(source, exist_ok=True)
        os.chmod(source, 0o1777)
        mount(source, f"{root}/{name}", flags=MS_BIND)
    mount("tmpfs", f"{root}/run", "tmpfs", MS_NOSUID, "mode=755")
    os.makedirs(f"{root}/run/lock")
    os.makedirs(f"{root}/run/sshd", 0o755)
    for number, folder in enumerate(config["kept"]):
        # a checkout below a folder that each node has of its own, such as /tmp
        os.makedirs(root + folder, exist_ok=True)  # it is there when a node boots again
        overlay(folder, disk, f"kept{number}", root + folder)
    for folder in config["hidden"]:
        # the cluster's own folder: keys, and upper layers that the lower one refuses to show
        if os.path.isdir(root + folder):
            mount("tmpfs", root + folder, "tmpfs", options="mode=755,size=4k")
    shared = config["shared"]
    os.makedirs(root + shared, exist_ok=True)
    mount(shared, root + shared, flags=MS_BIND)
    mount_kernel(root, config["cgroup_kind"])
    mount_devices(f"{root}/dev", config["devices"])


def mount_kernel(root: str, cgroup_kind: str) -> None:
    """/proc and /sys: the node's own processes and network, the machine's settings read-only."""
    mount("proc", f"{root}/proc", "proc")
    for name in ("sys/kernel", "sys/vm", "sys/fs", "sysrq-trigger"):
        if os.path.exists(f"{root}/proc/{name}"):
            read_only(f"{root}/proc/{name}")
    boot_id = f"{root}/run/boot_id"
    with open(boot_id, "w") as file:
        file.write(f"{uuid.uuid4()}\n")
    # the kernel's own boot id is the same in every node and does not change with a node's reboot
    mount(boot_id, f"{root}/proc/sys/kernel/random/boot_id", flags=MS_BIND)
    mount("sysfs", f"{root}/sys", "sysfs", MS_RDONLY)
    if cgroup_kind == "v1":
        mount("tmpfs", f"{root}/sys/fs/cgroup", "tmpfs", 0, "mode=755")
        os.mkdir(f"{root}/sys/fs/cgroup/memory")
        mount("cgroup", f"{root}/sys/fs/cgroup/memory", "cgroup", options="memory")
    elif cgroup_kind == "v2":
        mount("cgroup2", f"{root}/sys/fs/cgroup", "cgroup2")


def mount_devices(dev: str, gpus: list[list[Any]]) -> None:
    """A /dev of the node's own: the plain devices, terminals, shared memory, and its own GPUs."""
    mount("tmpfs", dev, "tmpfs", MS_NOSUID, "mode=755,size=64k")
    for name in ("null", "zero", "full", "random", "urandom", "tty"):
        path = os.path.join(dev, name)
        os.mknod(path, 0o666 | stat.S_IFCHR, os.stat(f"/dev/{name}").st_rdev)
        os.chmod(path, 0o666)
    for name in ("pts", "shm"):
        os.mkdir(os.path.join(dev, name))
    mount("devpts", f"{dev}/pts", "devpts", MS_NOSUID, "newinstance,ptmxmode=0666,mode=620,gid=5")
    mount("tmpfs", f"{dev}/shm", "tmpfs", MS_NOSUID, "mode=1777")
    links = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd"}
    links.update({name: f"/proc/self/fd/{n}" for n, name in enumerate(("stdin", "stdout"))})
    for name, target in {**links, "stderr": "/proc/self/fd/2"}.items():
        os.symlink(target, os.path.join(dev, name))
    for name, number in gpus:
        os.mknod(os.path.join(dev, name), 0o666 | stat.S_IFCHR, number)
        os.chmod(os.path.join(dev, name), 0o666)
    if gpus:  # NVIDIA's libraries, as root, would make the files of the other nodes' GPUs
        mount("", dev, flags=MS_REMOUNT | MS_RDONLY | MS_NOSUID)


def change_root(root: str) -> None:
    """Make ``root`` the root and drop the machine's mounts: a kept one would stay busy outside."""
    os.chdir(root)
    done = os.spawnvp(os.P_WAIT, "pivot_root", ["pivot_root", ".", "."])
    if done != 0:
        raise OSError(0, f"pivot_root failed with exit code {done}")
    check(libc.umount2(b".", MNT_DETACH), "cannot let go of the machine's mounts")
    os.chdir("/")


def write_files(files: dict[str, list[Any]]) -> None:
    """Write ``path -> [mode, text]``; a symlink is replaced, never followed."""
    for path, (mode, text) in files.items():
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        if os.path.lexists(path):
            os.unlink(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(descriptor, "w") as file:
            file.write(text)


def personalise(config: Config) -> None:
    """What makes the node itself, once in its life: a reboot keeps what happened since."""
    if os.path.exists("/etc/trainbench-node"):
        return
    # the machine's own keys and known hosts are not the node's
    shutil.rmtree("/root/.ssh", ignore_errors=True)
    os.makedirs("/root/.ssh", 0o700)
    # bash reads it for every command over ssh: what it sets up here (pyenv, say) a bare node lacks
    write_files({"/root/.bashrc": [0o644, ""]})
    write_files(config["files"])
    write_files({"/etc/trainbench-node": [0o644, config["hostname"] + "\n"]})


def start_sshd(argv: list[str], pid_file: str) -> None:
    """Start sshd and wait until it listens; it makes itself our child by daemonising."""
    pid = os.posix_spawn(argv[0], argv, {"PATH": os.environ["PATH"]})
    _, status = os.waitpid(pid, 0)
    end = time.monotonic() + SSHD_READY_S
    while not os.path.exists(pid_file):  # sshd writes it once it listens
        if status != 0 or time.monotonic() > end:
            raise OSError(0, "sshd did not start: see /var/log/sshd.log in the node")
        time.sleep(0.003)


def boot(config: Config) -> None:
    """From a bare PID 1 to a node that takes connections."""
    flags = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP
    check(libc.unshare(flags), "cannot make namespaces")
    os.setsid()
    mount("", "/", flags=MS_REC | MS_PRIVATE)
    mount_root(config)
    name = config["hostname"].encode()
    check(libc.sethostname(name, len(name)), "cannot set the hostname")
    change_root(config["root"])
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.umask(0o022)
    personalise(config)
    start_sshd(config["sshd"], config["sshd_pid_file"])
    # out of memory is for the node's work, not for its init; after sshd, which would inherit it
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("-1000")
    except PermissionError:
        pass  # a container may withhold CAP_SYS_RESOURCE


def reap_for_ever() -> None:
    """Collect orphans as they end."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        signal.sigwait({signal.SIGCHLD})


def main() -> int:
    """Start the node; returns the exit status of the starting process."""
    with open(sys.argv[2]) as file:
        config: Config = json.load(file)
    if config["cgroup_procs"]:
        with open(config["cgroup_procs"], "w") as file:
            file.write("0")
    with open(config["network_namespace"]) as file:
        check(libc.setns(file.fileno(), CLONE_NEWNET), "cannot enter the network namespace")
    check(libc.unshare(CLONE_NEWPID), "cannot make a PID namespace")
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            boot(config)
        except BaseException as error:
            os.write(writer, f"{type(error).__name__}: {error}".encode())
            os._exit(1)
        os.write(writer, b"ok")
        os.close(writer)
        reap_for_ever()
    os.close(writer)
    with open(config["pid_file"] + ".new", "w") as file:
        file.write(str(pid))
    os.rename(config["pid_file"] + ".new", config["pid_file"])
    answer = b"".join(iter(lambda: os.read(reader, 4096), b"")).decode()
    if answer == "ok":
        return 0
    os.waitpid(pid, 0)
    print(answer or "init ended without a word", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
