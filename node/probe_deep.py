"""What `accept` measures beside doctor's: correct products, copies, collectives, storage.

node/probe.py calls a function here for each check that it has none for, with its process and what
prints a line; both files are in the run's folder. Lines are as there, and

    {"test": "correct", "node": 0, "local": 1, "checked": 900, "wrong": 0, "digest": "3f.."}
    {"test": "sustained", ...}                    TFLOP/s, in equal parts of the time, first to last
    {"test": "to_device", ...} {"test": "from_device", ...}                               GB/s
    {"test": "all_reduce", "scope": "switch", "nodes": [0, 1], ...}                   GB/s bus
    {"test": "nccl_tests", "scope": "nccl_tests", "nodes": [0], "wrong": 0, ...}      GB/s bus
    {"test": "all_gather", "scope": "all_gather", "nodes": [...], "bytes": n, ...}        GB/s bus
    {"test": "storage_write", ...} {"test": "storage_read", ...}                          MB/s
    {"test": "storage_sync", ...} {"test": "storage_files", ...}                          1/s
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

MIB = 1 << 20
PARTS = 8  # samples of a figure
LEAST_MIB = 64  # less than that says nothing of a disk
PART_S = 10.0  # of a sample on a slow disk
KEPT_FREE = 0.10  # of a file system
PCI = "/sys/bus/pci/devices"
ALL_REDUCE = "all_reduce_perf"  # of nccl-tests and rccl-tests
TEST_FOLDERS = ("/opt/nccl-tests/build", "/opt/rccl-tests/build")
NCCL_TESTS_S = 50.0  # before the probe counts as stalled
SHARED = ("nfs", "lustre", "gpfs", "beegfs", "ceph", "cifs", "wekafs", "9p", "fuse.", "daos")


def _where(process: Any) -> dict[str, Any]:
    return {"rank": process.rank, "node": process.node, "local": process.local, "try": 1}


# --- devices ----------------------------------------------------------------------------------


def products(process: Any, say: Any) -> None:
    """Multiply the same whole numbers for minutes: each product must be the right one.

    The first is checked by Freivalds' product on the CPU, exactly, as all sums fit in fp32; each
    later one must have the same bits. Devices with units for bf16 use these, as training does, and
    their first product is the fp32 one, rounded. The digest is the same on all devices of a kind.
    """
    torch = process.torch
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    cpu = process.kind == "cpu"
    n = 512 if cpu else 4096
    source = torch.Generator().manual_seed(1)
    factor, other_factor = (
        torch.randint(-8, 8, (n, n), generator=source, dtype=torch.float32) for _ in range(2)
    )
    vector = torch.randint(-8, 8, (n,), generator=source).double()
    device_factor, other_device_factor = factor.to(process.device), other_factor.to(process.device)
    process.begin("correctness of products")
    expected_product = torch.mm(device_factor, other_device_factor)
    expected = factor.double() @ (other_factor.double() @ vector)
    wrong = int((expected_product.cpu().double() @ vector != expected).any())
    if not cpu:
        exact, device_factor, other_device_factor = (
            expected_product,
            device_factor.bfloat16(),
            other_device_factor.bfloat16(),
        )
        expected_product = torch.mm(device_factor, other_device_factor)
        wrong += int(not torch.allclose(expected_product.float(), exact, rtol=0.01, atol=1.0))
    outs = [torch.empty_like(expected_product) for _ in range(4 if cpu else 16)]
    checked, rates = 1, []
    for number in range(PARTS):
        process.begin(f"correctness of products, part {number + 1} of {PARTS}")
        until = time.perf_counter() + process.spec["product_seconds"] / PARTS
        times, seconds = 0, 0.0
        with process.watched(test="sustained", local=process.local, **{"try": 1}):
            while time.perf_counter() < until or not times:
                began = time.perf_counter()
                for out in outs:
                    torch.mm(device_factor, other_device_factor, out=out)
                process.wait()
                seconds += time.perf_counter() - began
                times += len(outs)
                wrong += int(torch.stack([(out != expected_product).any() for out in outs]).sum())
        checked += times
        rates.append(round(2 * n**3 * times / seconds / 1e12, 4))
    digest = hashlib.sha256(expected_product.float().cpu().numpy().tobytes()).hexdigest()[:16]
    say(test="correct", checked=checked, wrong=wrong, digest=digest, **_where(process))
    say(test="sustained", samples=rates, **_where(process))


def copies(process: Any, say: Any) -> None:
    """Copy between the host and its devices, all at once; a CPU has nothing to copy to."""
    if process.kind == "cpu":
        return
    with local_memory(process):
        host = process.torch.empty(64 * MIB, dtype=process.torch.float32, pin_memory=True)
    device = process.torch.empty_like(host, device=process.device)
    for test, target, source in (("to_device", device, host), ("from_device", host, device)):
        process.begin(f"copies {test.replace('_', ' ')}")

        def work(target: Any = target, source: Any = source) -> None:
            target.copy_(source, non_blocking=True)

        rates = [round(256 * MIB / seconds / 1e9, 3) for seconds in process.samples(work)]
        say(test=test, samples=rates, **_where(process))


@contextlib.contextmanager
def local_memory(process: Any) -> Iterator[None]:
    """Run on the processors of the device's NUMA node: the kernel then allocates its memory.

    Copies through another socket are slower. nvbandwidth moves itself in the same way.
    """
    usable = os.sched_getaffinity(0)
    with contextlib.suppress(OSError):  # where a sandbox forbids it
        os.sched_setaffinity(0, local_cpus(process) & usable or usable)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, usable)


def local_cpus(process: Any) -> set[int]:
    """The processors beside the device: Linux's local_cpulist of PCI; empty if unknown."""
    try:
        facts = getattr(process.torch, process.kind).get_device_properties(process.device)
        bus = f"{facts.pci_domain_id:04x}:{facts.pci_bus_id:02x}:{facts.pci_device_id:02x}.0"
        with open(f"{PCI}/{bus}/local_cpulist", encoding="ascii") as stream:
            ranges = [text.split("-") for text in stream.read().strip().split(",")]
        return {cpu for ends in ranges for cpu in range(int(ends[0]), int(ends[-1]) + 1)}
    except (AttributeError, OSError, RuntimeError, TypeError, ValueError):  # such as an older torch
        return set()


# --- network ----------------------------------------------------------------------------------


def collectives(process: Any, say: Any) -> None:
    """All-gather, all-to-all and send/receive around all processes, of small and large messages."""
    torch, dist = process.torch, process.dist
    if process.size == 1:
        return
    share = 1.0 / process.size

    def bus(size: int, seconds: float) -> float:
        return float(round(size / seconds * (1 - share) / 1e9, 5))

    def around(data: Any, out: Any) -> None:
        after, before = (process.rank + 1) % process.size, (process.rank - 1) % process.size
        piece = data.numel() // process.size
        # As one group: NCCL would wait for ever where each process sends first and then receives.
        sends = dist.P2POp(dist.isend, data[:piece], after)
        receives = dist.P2POp(dist.irecv, out[:piece], before)
        for work in dist.batch_isend_irecv([sends, receives]):
            work.wait()

    def gather(data: Any, out: Any) -> None:
        pieces = list(out.chunk(process.size))
        dist.all_gather(pieces, data[: data.numel() // process.size])

    def exchange(data: Any, out: Any) -> None:
        dist.all_to_all_single(out, data)

    for test, call in (("all_gather", gather), ("all_to_all", exchange), ("send_receive", around)):
        for size in (64 * 1024, (4 if process.kind == "cpu" else 256) * MIB):
            process.begin(f"{test.replace('_', '-')} of {size >> 10} KiB")
            count = size // 4 // process.size * process.size
            data, out = (torch.ones(count, device=process.device) for _ in range(2))
            try:
                seconds_each = _call_seconds(
                    process, f"{test}/{size}", functools.partial(call, data, out)
                )
            except RuntimeError as error:  # a backend that does not have it
                if process.rank == 0:
                    say(test=test, error=str(error).strip().splitlines()[0][:300], node=0)
                break
            if process.rank == 0:
                # Between neighbours a piece goes over each link, in place of all but one.
                scale = 1.0 if test != "send_receive" else share / (1 - share)
                samples = [bus(size, seconds) * scale for seconds in seconds_each]
                nodes = list(range(process.nodes))
                say(test=test, scope=test, nodes=nodes, bytes=size, samples=samples, **{"try": 1})


def _call_seconds(process: Any, name: str, work: Any) -> list[float]:
    """Return the seconds of a collective, PARTS times over about `seconds` in all."""
    process.timed(work, 1)
    times = max(1, round(process.seconds / PARTS / max(process.timed(work, 1), 1e-6)))
    times = process.agree(f"times/{name}", times, process.rank == 0)
    return [process.timed(work, times) / times for _ in range(PARTS)]


def switches(process: Any, say: Any) -> None:
    """All-reduce between the nodes of each leaf switch, all at once, where switches are known.

    The inventory names a node's (cluster_switch), or Slurm does.
    """
    if not process.local:
        process.store.set(f"switch/{process.node}", process.spec["switch"])
    names = None
    if process.rank == 0:
        names = [process.store.get(f"switch/{node}").decode() for node in range(process.nodes)]
    groups = same_switch(process.agree("switches", names, process.rank == 0))
    if not groups:
        return
    process.begin("all-reduce between the nodes of each switch")
    size = process.fitting(None, "switch")
    devices = range(process.per_node)
    ranks = [
        [node * process.per_node + local for node in nodes for local in devices] for nodes in groups
    ]
    # All groups first: making one takes every process.
    communicators = [process.group(members) for members in ranks]
    for number, nodes in enumerate(groups):
        if process.node in nodes:
            process.all_reduce(communicators[number], nodes, "switch", size, f"switch/{number}")
    process.meet("switches end")
    for communicator in communicators:
        process.leave(communicator)


def same_switch(names: list[str]) -> list[list[int]]:
    """The nodes of each switch, of each as many, so that their figures can be compared.

    `names` has the switch of each node; "" is unknown. Empty unless two switches have two nodes.
    """
    by_name: dict[str, list[int]] = {}
    for node, name in enumerate(names):
        if name:
            by_name.setdefault(name, []).append(node)
    counts = sorted(len(nodes) for nodes in by_name.values() if len(nodes) > 1)
    usual = counts[(len(counts) - 1) // 2] if counts else 0
    groups = [nodes[:usual] for nodes in by_name.values() if len(nodes) >= usual]
    return groups if usual and len(groups) > 1 else []


def nccl_tests(process: Any, say: Any) -> None:
    """All-reduce within each node by nccl-tests or rccl-tests, where a node has them.

    One process of it drives all devices of the node, while the probe's own wait.
    """
    if process.per_node == 1:
        return
    home = os.environ.get("NCCL_TESTS_HOME")
    home_folders = [home, os.path.join(home, "build")] if home else []
    folders = [*home_folders, os.environ.get("PATH", os.defpath), *TEST_FOLDERS]
    program = shutil.which(ALL_REDUCE, path=os.pathsep.join(folders))
    process.begin("nccl-tests within each node")
    if program and not process.local:
        say(test="nccl_tests", node=process.node, **_nccl_tests(program, process))
    process.meet("nccl-tests end")


def _nccl_tests(program: str, process: Any) -> dict[str, Any]:
    """Return both bus bandwidths of one size, in GB/s, and wrong elements; else the error.

    The program ends with code 1 where elements are wrong.
    """
    size = ["-b", "512M", "-e", "512M"]
    argv = [program, *size, "-g", str(process.per_node), "-n", "20", "-w", "5", "-c", "1"]
    pipe, no_input = subprocess.PIPE, subprocess.DEVNULL
    try:
        child = subprocess.Popen(
            argv, stdin=no_input, stdout=pipe, stderr=pipe, start_new_session=True
        )
    except OSError as error:
        return {"error": f"{program}: {error.strerror}"[:300]}
    try:
        out, errors = child.communicate(timeout=NCCL_TESTS_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)  # mpirun's and a script's children hold the pipes
        child.communicate()
        return {"error": f"{program} did not end within {NCCL_TESTS_S:g} s"}
    printed = out.decode("utf-8", "replace").splitlines()
    row_of = importlib.import_module("nccl_tests").row
    row = next(filter(None, map(row_of, printed)), None)
    if row is None or (child.returncode and not row["wrong"]):
        printed += errors.decode("utf-8", "replace").splitlines()
        telling = [line.strip() for line in printed if line.strip(" #\t")]
        last_line = telling[-1] if telling else "it printed nothing"
        return {"error": f"{program} ended with code {child.returncode}: {last_line}"[:300]}
    return {"scope": "nccl_tests", "nodes": [process.node], "try": 1, **row}


# --- storage ----------------------------------------------------------------------------------


def storage(process: Any, say: Any) -> None:
    """Write and read what checkpoints do, in the run's folder; one node after the other if shared.

    The file has no name, so that nothing stays where this process is killed.
    """
    if process.local:
        return
    folder = process.spec.get("folder") or os.path.dirname(os.path.abspath(__file__))
    size = int(process.spec["storage_mib"])
    process.store.set(f"storage/{process.node}", _kind(folder))
    kinds = [process.store.get(f"storage/{node}").decode() for node in range(process.nodes)]
    if any(kind.startswith(SHARED) for kind in kinds):
        for node in range(process.nodes):
            if node == process.node:
                _disk(process, say, folder, max(LEAST_MIB, size // process.nodes))
            _together(process, f"storage turn {node}")
        return
    _together(process, "storage")
    _disk(process, say, folder, size)


def _together(process: Any, name: str) -> None:
    """Wait until one process of each node is here."""
    if process.store.add(f"{name}/here", 1) == process.nodes:
        process.store.set(f"{name}/go", "1")
    process.store.wait([f"{name}/go"])


def _disk(process: Any, say: Any, folder: str, size_mib: int) -> None:
    space = os.statvfs(folder)
    room = int((space.f_bavail - KEPT_FREE * space.f_blocks) * space.f_frsize / MIB)
    if room < LEAST_MIB:
        free = space.f_bavail * space.f_frsize // MIB
        reason = f"{free} MiB are free at {folder}: a tenth of it stays free, and {LEAST_MIB} MiB"
        say(test="storage_write", error=f"{reason} are needed for a test", **_where(process))
        return
    mib_each = max(1, min(size_mib, room) // PARTS)
    say(step=f"{mib_each * PARTS} MiB on each node")
    try:
        _measure(process, say, folder, mib_each)
    except OSError as error:
        reason = f"{folder}: {error.strerror}"
        say(test="storage_write", error=reason, **_where(process))


def _measure(process: Any, say: Any, folder: str, mib_each: int) -> None:
    block = os.urandom(MIB)
    path = os.path.join(folder, f".storage-{os.getpid()}")
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.unlink(path)
    writes, reads, syncs, files = [], [], [], []
    with os.fdopen(handle, "r+b", buffering=0) as stream:
        for round_number in range(PARTS):
            say(step=f"write, part {round_number + 1} of {PARTS}")
            writes.append(_rate(mib_each, lambda: stream.write(block), lambda: os.fsync(handle)))
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        written = stream.tell()
        stream.seek(0)
        for round_number in range(PARTS):
            say(step=f"read, part {round_number + 1} of {PARTS}")
            reads.append(_rate(written // MIB // PARTS or 1, lambda: stream.read(MIB)))
        for _ in range(PARTS):
            began = time.perf_counter()
            for _ in range(8):
                os.pwrite(handle, block[:4096], 0)
                os.fsync(handle)
            syncs.append(round(8 / (time.perf_counter() - began), 2))
    for _ in range(PARTS):
        began = time.perf_counter()
        for number in range(50):
            with open(path, "xb") as small:
                small.write(block[:1024])
            os.rename(path, f"{path}.{number}")
            os.stat(f"{path}.{number}")
            os.unlink(f"{path}.{number}")
        files.append(round(50 / (time.perf_counter() - began), 2))
    rates = {"storage_write": writes, "storage_read": reads}
    for test, samples in {**rates, "storage_sync": syncs, "storage_files": files}.items():
        say(test=test, samples=samples, bytes=written, node=process.node, **{"try": 1})


def _rate(most: int, step: Any, end: Any = None) -> float:
    """Return the MB/s of so many steps of a MiB, of fewer where they take PART_S."""
    began, steps = time.perf_counter(), 0
    while steps < most and (not steps or time.perf_counter() - began < PART_S):
        step()
        steps += 1
    if end:
        end()
    return round(steps * MIB / (time.perf_counter() - began) / 1e6, 2)


def _kind(path: str) -> str:
    """Return the kind of file system that a path is on."""
    best, kind = "", ""
    with contextlib.suppress(OSError), open("/proc/self/mounts", encoding="utf-8") as stream:
        for line in stream:
            columns = line.split()
            inside = os.path.join(path, "").startswith(os.path.join(columns[1], ""))
            if inside and len(columns[1]) >= len(best):
                best, kind = columns[1], columns[2]
    return kind
