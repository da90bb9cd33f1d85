"""What a node's devices do during a run, once a second, as CSV.

    sampler:sample     write rows into `path`, of its `device`, until SIGTERM; then once more

cuda: by the driver's library (node/nvml.py), with energy and why clocks are low; without it by
nvidia-smi's own loop, its rows and header as it prints them (times in UTC). npu: npu-smi's table,
printed again each second. cpu: this node's processors and memory, from /proc. The supervisor starts
it with the run and ends it with the run.
"""

from __future__ import annotations

import glob
import os
import signal
import subprocess
import time

from node.nvml import Driver, figure_text

TYPE_CHECKING = False  # as typing's, whose import takes longer than all else
if TYPE_CHECKING:
    from typing import Any, TextIO

PERIOD_S = 1.0
BUFFER = 1 << 20  # bytes of rows that wait: more than a minute of eight GPUs
GPU_COLUMNS = (
    "timestamp,index,utilization.gpu,memory.used,memory.total,power.draw,clocks.sm,temperature.gpu"
)
CPU_HEADER = (
    "timestamp, utilization.cpu [%], memory.used [MiB], memory.total [MiB], total_energy [mJ]\n"
)
RAPL = "/sys/class/powercap/intel-rapl:*[0-9]/energy_uj"  # a file a zone; packages are intel-rapl:N


def told_to_end(following: float) -> bool:
    """Wait until that time of the monotonic clock; whether SIGTERM, which is blocked, came."""
    wait_s = max(0.0, following - time.monotonic())
    return signal.sigtimedwait({signal.SIGTERM}, wait_s) is not None


def processor_times() -> tuple[int, int]:
    """(busy, all) ticks of all processors together, since boot."""
    with open("/proc/stat", encoding="ascii") as stream:
        ticks = [int(word) for word in stream.readline().split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)  # idle and iowait are not busy


def memory_mib() -> tuple[int, int]:
    """(used, total) MiB; used is what no new process could have."""
    fields = {}
    with open("/proc/meminfo", encoding="ascii") as stream:
        for line in stream:
            key, _, value = line.partition(":")
            fields[key] = int(value.split()[0])
            if key == "MemAvailable":
                break
    return (fields["MemTotal"] - fields["MemAvailable"]) // 1024, fields["MemTotal"] // 1024


class Packages:
    """The energy counters of this node's processors (RAPL), which root alone may read."""

    def __init__(self, pattern: str = RAPL) -> None:
        zones = [path for path in glob.glob(pattern) if os.path.dirname(path).count(":") == 1]
        self.counters = {zone: self.read(zone) for zone in zones}
        self.total_uj = 0

    def read(self, path: str) -> int | None:
        """Return a counter in microjoules; None where it cannot be read."""
        try:
            with open(path, encoding="ascii") as stream:
                return int(stream.read())
        except (OSError, ValueError):
            return None

    def used_mj(self) -> int | None:
        """Return millijoules since the beginning; None where a counter cannot be read."""
        for path, before in self.counters.items():
            now = self.read(path)
            if now is None or before is None:
                return None
            if now < before:  # it began again
                limit = self.read(os.path.join(os.path.dirname(path), "max_energy_range_uj"))
                before -= limit or before
            self.total_uj += now - before
            self.counters[path] = now
        return self.total_uj // 1000 if self.counters else None


class Flushes:
    """Gives rows to the file system every so many seconds; 0: each time."""

    def __init__(self, out: TextIO, every_s: float) -> None:
        self.out, self.every_s = out, every_s
        self.flushed_at = -every_s

    def flush(self) -> None:
        """Give them now, where that was so long ago."""
        now = time.monotonic()
        if now - self.flushed_at >= self.every_s:
            self.out.flush()
            self.flushed_at = now


def sample_cpu(out: TextIO, flushes: Flushes) -> None:
    """One row a second: `epoch seconds, percent, MiB, MiB, mJ`."""
    out.write(CPU_HEADER)
    packages = Packages()
    before = processor_times()
    following = time.monotonic() + PERIOD_S
    ending = False
    while not ending:
        ending = told_to_end(following)
        following += PERIOD_S
        now = processor_times()
        span = now[1] - before[1]
        busy = figure_text(100.0 * (now[0] - before[0]) / span if span else None, "%.0f %%")
        before = now
        used, total = memory_mib()
        took = figure_text(packages.used_mj(), "%d mJ")
        out.write(f"{time.time():.3f}, {busy}, {used} MiB, {total} MiB, {took}\n")
        flushes.flush()


def sample_npu(out: TextIO) -> None:
    """npu-smi's table once a second, each after a line with the time."""
    ending = False
    while True:
        out.write(f"timestamp, {time.time():.3f}\n")
        out.flush()
        subprocess.call(["npu-smi", "info"], stdout=out, stdin=subprocess.DEVNULL)
        if ending:
            return
        ending = told_to_end(time.monotonic() + PERIOD_S)


def sample_gpus(out: TextIO, driver: Driver, flushes: Flushes) -> None:
    """A row of each GPU once a second."""
    out.write(driver.header)
    following = time.monotonic()
    ending = False
    while True:
        out.writelines(driver.rows())
        flushes.flush()
        if ending:
            return
        following = max(following + PERIOD_S, time.monotonic())
        ending = told_to_end(following)


def sample(spec: dict[str, Any]) -> None:
    """Sample until SIGTERM, and then once more, so that samples span the run to its end.

    `spec`: device, path, flush_s (seconds between two times that rows are written; 0: each time).
    """
    device, path, every_s = spec["device"], spec["path"], spec.get("flush_s", 0)
    os.nice(5)  # never in the trainer's way
    if device == "cuda":
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            driver = Driver()
        except OSError:  # no such library; nvidia-smi may be a program of its own
            os.dup2(handle, 1)
            argv = ["nvidia-smi", "--query-gpu=" + GPU_COLUMNS, "--format=csv"]
            argv += [f"--loop-ms={PERIOD_S * 1000:.0f}"]
            os.execvpe(argv[0], argv, {**os.environ, "TZ": "UTC"})  # noqa: S606 - no shell
        with os.fdopen(handle, "w", BUFFER, encoding="ascii") as out:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            return sample_gpus(out, driver, Flushes(out, every_s))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    with open(path, "w", BUFFER, encoding="ascii") as out:
        if device == "npu":
            sample_npu(out)
        else:
            sample_cpu(out, Flushes(out, every_s))
