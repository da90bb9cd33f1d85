"""Cases by their seed, kind and number, spread over processes; each kind's tally."""

import gc
import logging
import os
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

from runner import __main__ as command_line
from tests.conftest import ROOT
from tests.fuzz.case import Guard, Target, finding
from tests.fuzz.targets import TARGETS

PART = 250  # cases that a process takes at once
KEPT = ROOT / "build" / "fuzz"
HOMES = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "MPLCONFIGDIR")
MEMORY = 6 << 30  # bytes of a worker's address space: what wants more is a finding


@dataclass
class Tally:
    """What came of the cases of one kind."""

    cases: int = 0
    cpu_s: float = 0.0
    slowest_s: float = 0.0
    findings: Counter[str] = field(default_factory=Counter)
    inputs: dict[str, Path] = field(default_factory=dict)

    def add(self, other: "Tally") -> None:
        """Join another worker's."""
        self.cases += other.cases
        self.cpu_s += other.cpu_s
        self.slowest_s = max(self.slowest_s, other.slowest_s)
        self.findings += other.findings
        self.inputs = {**other.inputs, **self.inputs}


def chance_of(seed: int, kind: str, number: int) -> random.Random:
    """What makes a case."""
    return random.Random(f"{seed} {kind} {number}")


def target_of(number: int, only: str) -> Target:
    """The kind of a case: the kinds in turn by their shares."""
    return _turns(only)[number % len(_turns(only))]


@cache
def _turns(only: str) -> list[Target]:
    chosen = [target for target in TARGETS if only in ("", target.name)]
    turns = [target for target in chosen for _ in range(target.share)]
    random.Random(0).shuffle(turns)
    return turns


class Bench:
    """One process's place: its folder, its ear for what leaves it, and what it tries now."""

    def __init__(self, home: Path) -> None:
        quiet()
        self.home = home.resolve()
        tempfile.tempdir = str(self.home)
        os.chdir(self.home)
        os.environ.update(dict.fromkeys(HOMES, str(self.home)))
        import_module("matplotlib.font_manager")  # which looks for fonts, once
        self.guard = Guard(self.home)
        self.warm: set[str] = set()
        # What a case leaves that ends this process, or that nothing can stop.
        KEPT.mkdir(parents=True, exist_ok=True)
        self.now = KEPT / f"running-{os.getpid()}"

    def judge(self, target: Target, data: bytes) -> tuple[str, float]:
        """What is wrong with a case, and the CPU seconds that it took."""
        if target.name not in self.warm:  # imports and first uses are nobody's fault
            self.warm.add(target.name)
            finding(target, target.make(chance_of(0, "warm", 0)), self.home, self.guard)
        self.now.write_bytes(data)
        found = finding(target, data, self.home, self.guard)
        self.now.unlink()
        return found


@cache
def bench(base: Path) -> Bench:
    """This process's, below `base`."""
    home = base / str(os.getpid())
    home.mkdir()
    return Bench(home)


@dataclass(frozen=True)
class Job:
    """Some cases, and when not to begin another."""

    base: Path
    until: float
    seed: int
    only: str
    numbers: range


def work(job: Job) -> dict[str, Tally]:
    """Run the cases of a job, in one of the processes."""
    tallies: dict[str, Tally] = {}
    for number in job.numbers:
        if time.monotonic() > job.until:
            break
        target = target_of(number, job.only)
        tally = tallies.setdefault(target.name, Tally())
        data = target.make(chance_of(job.seed, target.name, number))
        why, took_s = bench(job.base).judge(target, data)
        tally.cases += 1
        tally.cpu_s += took_s
        tally.slowest_s = max(tally.slowest_s, took_s)
        if why:
            if why not in tally.findings:
                tally.inputs[why] = KEPT / f"{target.name}-{job.seed}-{number}"
                tally.inputs[why].write_bytes(data)
            tally.findings[why] += 1
    gc.collect()
    return tallies


def again(path: Path) -> str:
    """What is wrong with an input that was kept, in a process of its own; with the traceback."""
    with (
        tempfile.TemporaryDirectory(prefix="trainbench-fuzz-") as name,
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
    ):
        return pool.submit(_again, Path(name), path).result()


def _again(base: Path, path: Path) -> str:
    target = next(target for target in TARGETS if path.name.startswith(f"{target.name}-"))
    data = path.read_bytes()
    why, _ = bench(base).judge(target, data)
    try:
        target.judge(data, bench(base).home)
    except Exception:
        return f"{why}\n{traceback.format_exc(limit=-12)}"
    return why


def quiet() -> None:
    """No warnings, no .pyc, one argparse tree, no waiting for disks, and a limit to memory."""
    command_line.parser = cache(command_line.parser)
    vars(os)["fsync"] = lambda handle: None
    sys.dont_write_bytecode = True
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def fuzz(
    total: int, seconds: float, seed: int, only: str = "", workers: int = 1
) -> Iterator[dict[str, Tally]]:
    """Run cases; each kind's tally so far, again and again."""
    KEPT.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + seconds
    tallies = {target.name: Tally() for target in TARGETS if only in ("", target.name)}
    with tempfile.TemporaryDirectory(prefix="trainbench-fuzz-") as name:
        parts = [range(begin, min(begin + PART, total)) for begin in range(0, total, PART)]
        jobs = [Job(Path(name), until, seed, only, numbers) for numbers in parts]
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            for part in pool.map(work, jobs):
                for kind, tally in part.items():
                    tallies[kind].add(tally)
                yield tallies
