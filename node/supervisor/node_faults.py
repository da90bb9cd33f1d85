"""Faults that reach beyond a run's processes, and are undone by a clock of their own on the node.

A process beside the supervisor, neither its child nor of the run's mark, does them, and undoes each
when its time is over: also where the supervisor, bench or both were killed meanwhile. It is started
before the supervisor adopts orphans, and ends with it, or once it has undone the last.

The network: nft drops what comes from and goes to the run's other nodes, ssh left out. A disk: one
large file takes what is free where the run's scratch folder is, or the checkpoints of a run on
one node; never on a file system that nodes share, and never more than MOST_BYTES.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

from . import fault_kinds as kinds
from .faults_log import write_line
from .scratch import SHARED, kind_of

TYPE_CHECKING = False  # as typing's, whose import would cost each poll
if TYPE_CHECKING:
    from typing import Any, Callable, NoReturn

NFT = ("nft", "/usr/sbin/nft", "/sbin/nft")
SSH_PORT = 22
MOST_BYTES = 16 << 30
MOST_OPEN = 4096
LEFT_BYTES = 64 << 10  # that stay free: a disk of a node's own is not to the last byte a run's
TABLE = "trainbench_fault"
FILLER = "trainbench-fault-fills-the-disk"


class Undoer:
    """The supervisor's end of the process that causes faults of the node."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe

    def cause(self, number: int, fault: dict[str, Any]) -> None:
        """Have a fault caused now, and undone after its `for_s`."""
        os.write(self.pipe, json.dumps(dict(fault, number=number)).encode() + b"\n")


def start(job: dict[str, Any]) -> Undoer | None:
    """Start the process where a fault of this node needs it."""
    chain = job.get("chain") or {"faults": ()}
    faults_here = [address for address in chain["faults"] if address["node"] == chain["node"]]
    if not any(address["kind"] in kinds.NODE_WIDE for address in faults_here):
        return None
    hear, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            for low, high in ((3, hear), (hear + 1, MOST_OPEN)):
                os.closerange(low, high)  # who waits for an end of ours must see it
            _serve(hear, job)
        os._exit(0)
    os.waitpid(child, 0)
    os.close(hear)
    return Undoer(tell)


def _serve(pipe: int, job: dict[str, Any]) -> NoReturn:
    """Cause what is asked for and undo it in time; end with the supervisor and the last fault."""
    for word in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(word, signal.SIG_IGN)
    pending: list[tuple[float, int, Callable[[], None]]] = []
    os.set_blocking(pipe, False)
    is_open, text = True, b""
    while is_open or pending:
        try:
            data = os.read(pipe, 65536) if is_open else b""
            is_open = is_open and bool(data)
            text += data
        except BlockingIOError:
            pass
        *lines, text = text.split(b"\n")
        for line in lines:
            fault = json.loads(line)
            number: int = fault["number"]
            try:
                undo = _cause(fault, job)
            except (OSError, subprocess.SubprocessError) as error:
                write_line("fault %d failed: %s" % (number, error))
                continue
            pending.append((time.monotonic() + fault["for_s"], number, undo))
        for entry in [address for address in pending if time.monotonic() >= address[0]]:
            entry[2]()
            pending.remove(entry)
            write_line("fault %d undone at=%.3f" % (entry[1], time.time()))
        time.sleep(0.05)
    os._exit(0)


def _cause(fault: dict[str, Any], job: dict[str, Any]) -> Callable[[], None]:
    """Cause a fault; return what undoes it. Raises OSError."""
    if fault["kind"] == kinds.NETWORK:
        return _cut(job["chain"])
    return _fill(job)


def _cut(chain: dict[str, Any]) -> Callable[[], None]:
    addresses = [
        address for rank, address in enumerate(chain["addresses"]) if rank != chain["node"]
    ]
    table = "%s_%d" % (TABLE, os.getpid())
    _nft(rules(table, addresses))
    return lambda: _nft("delete table inet %s\n" % table)


def rules(table: str, addresses: list[str]) -> str:
    """Return what nft is to load: nothing but ssh goes between this node and the others. Pure."""
    lines = ["table inet %s {" % table]
    for hook, side in (("input", "saddr"), ("output", "daddr")):
        lines.append(" chain %s { type filter hook %s priority -300; policy accept;" % (hook, hook))
        for ssh in ("sport", "dport"):
            lines.append("  tcp %s %d accept" % (ssh, SSH_PORT))
        for address in addresses:
            family = "ip6" if ":" in address else "ip"
            lines.append("  %s %s %s drop" % (family, side, address))
        lines.append(" }")
    return "\n".join([*lines, "}", ""])


def _nft(text: str) -> None:
    for program in NFT:
        try:
            result = subprocess.run(
                [program, "-f", "-"], input=text.encode(), capture_output=True, timeout=10
            )
        except FileNotFoundError:
            continue
        if result.returncode:
            message = result.stderr.decode("utf-8", "replace").strip().split("\n")[0]
            raise OSError("nft: %s" % message)
        return
    raise OSError("nft is not installed; install the package nftables")


def _fill(job: dict[str, Any]) -> Callable[[], None]:
    folder = job.get("scratch") or (job["chain"]["folder"] if _alone(job["chain"]) else "")
    if not folder or kind_of(folder) in SHARED:
        raise OSError("the run has no folder on a disk of this node's own; name cluster_scratch")
    path = os.path.join(folder, FILLER)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        disk = os.fstatvfs(handle)
        size = disk.f_bavail * disk.f_frsize - LEFT_BYTES
        if size > MOST_BYTES:
            most = MOST_BYTES >> 30
            message = "its disk has more than %d GiB free, and disk_full fills at most %d GiB"
            raise OSError(message % (most, most))
        if size > 0:
            os.posix_fallocate(handle, 0, size)
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(handle)
    return lambda: _unlink(path)


def _alone(chain: dict[str, Any]) -> bool:
    """Whether no other node has the folder of checkpoints."""
    return len(chain["addresses"]) == 1


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
