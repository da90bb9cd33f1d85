"""How true the energy of short windows is, beside a reference that looks 20 times a second.

    python -m benchmarks.energy [--runs 100] [--seed 30]     simulated devices, on any machine
    python -m benchmarks.energy --gpu                        an NVIDIA GPU, by torch (150 s)

Simulated: a device is idle, starts up, warms up, trains, and is idle while the trainer ends. Its
counter is renewed each 20 to 100 ms, the sampler looks once a second, the log is polled each 0.5 to
8 s, each with a phase of its own. What that leaves on disk (launcher.log, timeline.jsonl,
samples.csv, done.json) is read as `collect` reads a run. The log's times are whole; or they leave
out 1 to 3 ms of each step, as where a clock stops while its trainer reports; or nothing
ties its lines (nanoGPT's log_interval 2).

On a GPU the trainer is a loop of matrix products, with pauses in half of the runs, that prints
nanoGPT's lines. node/nvml.py looks 20 times a second, which is the reference; each twentieth look
is a sample, in all 20 phases, and polls are laid over the lines with phases of their own.

`before` is the rule of up to November 2026: a step was when a poll saw it, and the counter was read
on the line between the samples about an edge. The aim: no figure is off by more than 3 %; of a
clock that stops, few polls cannot tell, and the figure is short by what it left out.
"""

import argparse
import json
import math
import random
import sys
import tempfile
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import fmean

from node.nvml import HEADER, Driver
from runner.folder import names
from runner.load.energy import MOST_PERCENT, SHORTEST_S
from runner.load.samples import read_samples, with_fetched
from runner.logs.kinds import readers_of_family
from runner.logs.measure import measure
from runner.terms.record import Energy, Record

POLLS_S = (0.5, 1.0, 2.0, 4.0, 8.0)
WINDOWS_S = (5.0, 10.0, 30.0)
REFERENCE_S, PHASES = 0.05, 20
WARMUP = 5  # first iterations that do not count
WHOLE, STOPS, NONE = "whole", "stops", "none"  # the log's times of its steps
GPU_RUNS = (  # seconds of counted steps, of a step, and the share of it that is a pause
    *((5.0, 0.1, 0.0), (5.0, 0.3, 0.2), (5.0, 1.0, 0.2)),
    *((10.0, 0.1, 0.2), (10.0, 0.7, 0.0), (30.0, 0.25, 0.2)),
)
IDLE_S = 4.0
HEADS = (
    *("times", "polls", "window", "runs", "figures", "worst", "mean", "± said"),
    *("before: worst", "mean"),
)
Found = tuple[Energy, float | None, float]


@dataclass
class Traces:
    """What a run leaves on disk: (when, iteration, line) of its log, (when, row) of samples."""

    lines: list[tuple[float, int, str]] = field(default_factory=list)
    samples: list[tuple[float, str]] = field(default_factory=list)
    ended: float = 0.0

    def edges(self) -> tuple[float, float]:
        """Return when the counted steps truly began and ended."""
        before = [at for at, iteration, _ in self.lines if iteration < WARMUP]
        return before[-1], self.lines[-1][0]


def found(traces: Traces, polled: Sequence[float]) -> Energy:
    """Return the energy by the product's own way from files to records."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / names.LOG
        path.write_text("".join(line for *_, line in traces.lines))
        sizes = [0, *accumulate(len(line) for *_, line in traces.lines)]
        written = [at for at, *_ in traces.lines]
        polls = [{"node": at, "log_bytes": sizes[bisect_right(written, at)]} for at in polled]
        path.with_name(names.TIMELINE).write_text("".join(json.dumps(p) + "\n" for p in polls))
        path.with_name(names.SAMPLES).write_text(HEADER + "".join(row for _, row in traces.samples))
        began = polled[0] - 1.0
        done = {"started_at": began, "wall_s": traces.ended - began}
        path.with_name(names.DONE).write_text(json.dumps(done))
        readers = readers_of_family("nanogpt")
        measured = measure(readers, {0: [path.read_bytes()]})
        run = Record("", "", "", "command", "ok", "")
        run = replace(run, warmup_iters=WARMUP, measurement=measured, device_kind="cuda")
        return with_fetched(run, {0: path}, {0: [0]}, readers).measurement.energy


def before(traces: Traces, polled: Sequence[float]) -> float | None:
    """Return joules by the rule of before; the first of the lines that one poll saw counted."""
    seen = [min(polled[bisect_left(polled, at)], traces.ended) for at, *_ in traces.lines]
    begin, end = seen[sum(iteration < WARMUP for _, iteration, _ in traces.lines) - 1], seen[-1]
    rows = HEADER + "".join(row for _, row in traces.samples)
    points = [(s.time, s.energy_j) for s in read_samples(rows.encode()) if s.energy_j]
    if end - begin < SHORTEST_S or begin < points[0][0] or end > points[-1][0]:
        return None
    return curve(points, end) - curve(points, begin)


def curve(points: Sequence[tuple[float, float]], at: float) -> float:
    """Return the value of a curve at a time."""
    index = min(max(bisect_right(points, (at, float("inf"))), 1), len(points) - 1)
    (t0, low), (t1, high) = points[index - 1], points[index]
    return low + (high - low) * (at - t0) / (t1 - t0)


def line(iteration: int, seconds: float) -> str:
    """Write a line as nanoGPT does (train.py:327)."""
    return f"iter {iteration}: loss 4.7797, time {seconds * 1000:.2f}ms, mfu 0.00%\n"


class Device:
    """A simulated device: its true curve of energy in steps of 5 ms, and its counter's."""

    GRAIN_S = 0.005

    def __init__(self, watts: Callable[[float], float], ends: float, draw: random.Random) -> None:
        steps = int(ends / self.GRAIN_S)
        used = (watts(n * self.GRAIN_S) * self.GRAIN_S for n in range(steps))
        self.curve = [0.0, *accumulate(used)]
        self.renewed_s = draw.choice((0.02, 0.05, 0.1))
        self.phase = draw.uniform(0, self.renewed_s)

    def joules(self, at: float) -> float:
        """Return what it truly took until then."""
        place = min(at / self.GRAIN_S, len(self.curve) - 2)
        low = self.curve[int(place)]
        return low + (self.curve[int(place) + 1] - low) * (place % 1)

    def counter(self, at: float) -> float:
        """Return what its counter says then."""
        return self.joules(at - (at - self.phase) % self.renewed_s) if at > self.phase else 0.0


def simulated(window_s: float, clock: str, draw: random.Random) -> tuple[Traces, float]:
    """Make a run of so many seconds of counted steps; the joules that they truly took."""
    step_s = draw.choice((0.05, 0.11, 0.25, 0.7, 1.0, 2.3))
    busy, idle = draw.uniform(350, 700), draw.uniform(60, 120)
    left_out_s = draw.uniform(0.001, 0.003) if clock == STOPS else 0.0
    begins, traces = draw.uniform(6.0, 9.0), Traces()
    at = begins + draw.uniform(0.0, 3.0)
    apart = 2 if clock == NONE else 1
    counted = math.ceil(window_s * 1.02 / step_s / apart) * apart
    for iteration in range(WARMUP + counted):
        took = step_s * draw.uniform(0.99, 1.01) * (1 if iteration > 2 else 2)
        at += took
        if iteration % apart == 0:
            written = line(iteration, took - left_out_s)
            traces.lines.append((at + draw.uniform(0.0, 0.004), iteration, written))
    last, traces.ended = at, at + draw.uniform(0.3, 3.0)
    first = traces.lines[0][0]

    def watts(time: float) -> float:
        if time < begins or time > last + 0.02:
            return idle
        if time < first:
            return idle + 80
        phase = (time - first) % step_s / step_s  # communication and the optimiser take less
        return busy * (1.0 if phase < 0.7 else 0.75 if phase < 0.95 else 0.5)

    device = Device(watts, traces.ended + 2.0, draw)
    looks = [draw.uniform(0.2, 1.2)]
    while looks[-1] + 1.0 < traces.ended:
        looks.append(looks[-1] + 1.0)
    traces.samples = [
        (look, sample(look, watts(look), device.counter(look)))
        for look in (*looks, traces.ended + 0.12)
    ]
    begin, end = traces.edges()
    return traces, device.joules(end) - device.joules(begin)


def sample(at: float, watts: float, joules: float) -> str:
    """Write a row as node/nvml.py does."""
    return (
        f"{at:.3f}, 0, 99 %, 9 MiB, 99 MiB, {watts:.2f} W, 1980 MHz, 40,"
        f" {23e6 + joules * 1000:.0f} mJ, 0x0000000000000000\n"
    )


def polls(every_s: float, begin: float, ended: float, draw: random.Random) -> list[float]:
    """Return when a log is looked at: late by some ms each time, and once at the end."""
    at = [begin + draw.uniform(0, every_s)]
    while at[-1] + every_s < ended:
        at.append(at[-1] + every_s + draw.uniform(0.005, 0.06))
    return [*at, max(ended, at[-1]) + draw.uniform(0.02, 0.1)]


class Table:
    """The rows as they come, and the figure that is off most."""

    def __init__(self) -> None:
        self.far: dict[str, float] = {}
        print(self.shown(HEADS))

    def shown(self, cells: Sequence[str]) -> str:
        """Return cells below their heads."""
        pairs = zip(cells, HEADS, strict=True)
        return "".join(f"{cell:>{max(len(head), 7) + 2}}" for cell, head in pairs)

    def add(self, clock: str, every_s: float, window_s: float, each: Sequence[Found]) -> None:
        """Print a row; each run is what was found, what was found before, and the truth."""
        now = [(e.joules / true - 1) * 100 for e, _, true in each if e.joules]
        said = [e.within_percent for e, *_ in each if e.joules]
        old = [(joules / true - 1) * 100 for _, joules, true in each if joules]
        self.far[clock] = max(self.far.get(clock, 0.0), *map(abs, now), 0.0)
        cells = [clock, f"{every_s:g} s", f"{window_s:.0f} s", str(len(each))]
        cells += [f"{len(now) / len(each):.0%}", *self.off(now)]
        cells += [f"{max(said):.1f} %" if said else "-", *self.off(old)]
        print(self.shown(cells), flush=True)

    def off(self, percents: Sequence[float]) -> list[str]:
        """Return the worst and the mean of what figures are off."""
        if not percents:
            return ["-", "-"]
        return [f"{max(percents, key=abs):+.1f} %", f"{fmean(percents):+.1f} %"]

    def close(self) -> bool:
        """Print the worst of all; whether it is within the aim, by a clock that does not stop."""
        for clock, far in self.far.items():
            aim = "" if clock == STOPS else f" (aim: {MOST_PERCENT:g} %)"
            print(f"{clock}: the figure that is off most is so by {far:.2f} %{aim}")
        return all(far <= MOST_PERCENT for clock, far in self.far.items() if clock != STOPS)


def synthetic(runs: int, seed: int) -> bool:
    """Print the table of simulated runs; whether all figures are within the aim."""
    table = Table()
    for clock in (WHOLE, STOPS, NONE):
        for every_s in POLLS_S:
            for window_s in WINDOWS_S:
                draw, each = random.Random(f"{seed} {clock} {window_s}"), []
                for _ in range(runs):
                    traces, true = simulated(window_s, clock, draw)
                    at = polls(every_s, 1.0, traces.ended, draw)
                    each.append((found(traces, at), before(traces, at), true))
                table.add(clock, every_s, window_s, each)
    return table.close()


class Looks(threading.Thread):
    """Rows of a GPU by node/nvml.py, 20 a second, until it is told to end."""

    def __init__(self, driver: Driver, index: int) -> None:
        super().__init__(daemon=True)
        self.driver, self.index = driver, index
        self.rows: list[tuple[float, str]] = []
        self.over = threading.Event()

    def run(self) -> None:
        """Look."""
        following = time.monotonic()
        while not self.over.is_set():
            row = self.driver.row(self.index)
            fields = row.split(", ")
            fields[1] = "0"
            self.rows.append((float(fields[0]), ", ".join(fields)))
            following = max(following + REFERENCE_S, time.monotonic())
            time.sleep(max(0.0, following - time.monotonic()))

    def reference(self, begin: float, end: float) -> float:
        """Return joules between two times, by where the counter was renewed."""
        samples = read_samples((HEADER + "".join(row for _, row in self.rows)).encode())
        points = [(s.time, s.energy_j) for s in samples if s.energy_j is not None]
        renewed = [b for a, b in pairwise(points) if a[1] != b[1]]
        return curve(renewed, end) - curve(renewed, begin)


def trained(work: Callable[[], None], step_s: float, window_s: float, pause: float) -> Traces:
    """Have a device work in steps, as a trainer does; the lines with the time of each."""
    traces, last, begins, iteration = Traces(), time.perf_counter(), 0.0, 0
    while iteration < WARMUP or last - begins < window_s * 1.02:
        until = last + step_s * (1 - pause)
        while time.perf_counter() < until:
            work()
        time.sleep(step_s * pause)
        now = time.perf_counter()
        traces.lines.append((time.time(), iteration, line(iteration, now - last)))
        last, iteration = now, iteration + 1
        begins = last if iteration == WARMUP else begins
    return traces


def on_gpu(seed: int) -> bool | None:
    """Print the table of runs on a GPU; None without a GPU."""
    try:
        import torch

        driver = Driver()
        side = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    except (ImportError, OSError, RuntimeError, AssertionError) as error:
        print(f"No GPU to measure: {str(error).splitlines()[0]}")
        return None

    def work() -> None:
        for _ in range(4):
            torch.mm(side, side)
        torch.cuda.synchronize()

    index = busiest(driver, work)
    if index is None:
        print("No GPU to measure: no energy counter of NVML's rises while torch's first one works")
        return None
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}, device {index} of NVML")
    return measured_on(driver, index, work, random.Random(seed))


def busiest(driver: Driver, work: Callable[[], None]) -> int | None:
    """Return which of NVML's devices works when torch's first does; None where no counter tells."""

    def counters() -> list[int]:
        name = "nvmlDeviceGetTotalEnergyConsumption"
        return [driver.number(each, name, wide=True) or 0 for each in driver.devices]

    first, until = counters(), time.perf_counter() + 1.0
    while time.perf_counter() < until:
        work()
    rises = [after - begun for begun, after in zip(first, counters(), strict=True)]
    return rises.index(max(rises)) if max(rises, default=0) > 0 else None


def measured_on(driver: Driver, index: int, work: Callable[[], None], draw: random.Random) -> bool:
    """Print the table of runs of a device that `work` keeps busy."""
    runs = []
    for window_s, step_s, pause in GPU_RUNS:
        looks = Looks(driver, index)
        looks.start()
        time.sleep(IDLE_S)
        traces = trained(work, step_s, window_s, pause)
        time.sleep(IDLE_S)
        traces.ended = time.time()
        time.sleep(0.3)
        looks.over.set()
        looks.join()
        begin, end = traces.edges()
        true = looks.reference(begin, end)
        took = end - begin
        print(f"{took:5.2f} s of {step_s:g} s steps: {true:.0f} J, {true / took:.0f} W", flush=True)
        runs.append((window_s, traces, looks.rows, true))
    table = Table()
    for every_s in POLLS_S:
        for window_s in WINDOWS_S:
            each = []
            for traces, rows, true in (run[1:] for run in runs if run[0] == window_s):
                for phase in range(PHASES):
                    sampled = [*rows[phase:-1:PHASES], rows[-1]]
                    one = replace(traces, samples=sampled)
                    at = polls(every_s, rows[0][0], traces.ended, draw)
                    each.append((found(one, at), before(one, at), true))
            table.add(WHOLE, every_s, window_s, each)
    return table.close()


def main() -> int:
    """Measure and print; 1 where the aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", action="store_true", help="on a GPU, in place of simulated ones")
    parser.add_argument("--runs", type=int, default=100, help="simulated, of each row")
    parser.add_argument("--seed", type=int, default=30)
    chosen = parser.parse_args()
    good = on_gpu(chosen.seed) if chosen.gpu else synthetic(chosen.runs, chosen.seed)
    return int(good is False)


if __name__ == "__main__":
    sys.exit(main())
