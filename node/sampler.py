"""What a node's devices do during a run, once a second, as CSV.

    sampler:sample     write rows into the spec's `path`, of its `device`, until it is killed

cuda: nvidia-smi's own loop, one process for the whole run, its rows and header as it prints them
(times in UTC). npu: npu-smi's table, printed anew each second. cpu: this node's processors and
memory, from /proc. The supervisor starts it with the run and ends it with the run.
"""

from __future__ import annotations

import os
import subprocess
import time

TYPE_CHECKING = False  # as typing's, whose import takes longer than all else
if TYPE_CHECKING:
    from typing import TextIO

PERIOD_S = 1.0
GPU_COLUMNS = (
    "timestamp,index,utilization.gpu,memory.used,memory.total,power.draw,clocks.sm,temperature.gpu"
)
CPU_HEADER = "timestamp, utilization.cpu [%], memory.used [MiB], memory.total [MiB]\n"


def processor_times() -> tuple[int, int]:
    """(busy, all) ticks of all processors together, since boot."""
    with open("/proc/stat", encoding="ascii") as stream:
        ticks = [int(word) for word in stream.readline().split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)  # idle and iowait are not busy


def memory_mib() -> tuple[int, int]:
    """(used, total) MiB; used is what no new process could have."""
    found = {}
    with open("/proc/meminfo", encoding="ascii") as stream:
        for line in stream:
            key, _, value = line.partition(":")
            found[key] = int(value.split()[0])
            if key == "MemAvailable":
                break
    return (found["MemTotal"] - found["MemAvailable"]) // 1024, found["MemTotal"] // 1024


def sample_cpu(out: TextIO) -> None:
    """One row a second: `epoch seconds, percent, MiB, MiB`."""
    out.write(CPU_HEADER)
    before = processor_times()
    following = time.monotonic() + PERIOD_S
    while True:
        time.sleep(max(0.0, following - time.monotonic()))
        following += PERIOD_S
        now = processor_times()
        span = now[1] - before[1]
        busy = 100.0 * (now[0] - before[0]) / span if span else 0.0
        before = now
        used, total = memory_mib()
        out.write(f"{time.time():.3f}, {busy:.0f} %, {used} MiB, {total} MiB\n")
        out.flush()


def sample_npu(out: TextIO) -> None:
    """npu-smi's table once a second, each after a line with the time."""
    while True:
        out.write(f"timestamp, {time.time():.3f}\n")
        out.flush()
        subprocess.call(["npu-smi", "info"], stdout=out, stdin=subprocess.DEVNULL)
        time.sleep(PERIOD_S)


def sample(spec: dict[str, str]) -> None:
    """Sample until killed."""
    device, path = spec["device"], spec["path"]
    os.nice(5)  # never in the trainer's way
    if device == "cuda":
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(handle, 1)
        argv = ["nvidia-smi", "--query-gpu=" + GPU_COLUMNS, "--format=csv"]
        argv += [f"--loop-ms={PERIOD_S * 1000:.0f}"]
        os.execvpe(argv[0], argv, {**os.environ, "TZ": "UTC"})  # noqa: S606 - no shell
    with open(path, "w", encoding="ascii") as out:
        (sample_npu if device == "npu" else sample_cpu)(out)
