"""Cases by their seed, kind and number, spread over processes; each kind's tally."""

import gc
import logging
import os
import random
import resource
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from runner import __main__ as command_line
from tests.conftest import ROOT
from tests.fuzz.case import Guard, Target, finding
from tests.fuzz.targets import TARGETS

KEPT = ROOT / "build" / "fuzz"
HOMES = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR")
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


def cases(total: int, only: str) -> Iterator[tuple[Target, int]]:
    """Each case of a run: its target and number, the kinds in turn by their shares."""
    chosen = [target for target in TARGETS if only in ("", target.name)]
    shares = [target for target in chosen for _ in range(target.share)]
    random.Random(0).shuffle(shares)
    for number in range(total):
        yield shares[number % len(shares)], number


@dataclass(frozen=True)
class Job:
    """What a worker is to do: the cases whose number leaves `rest` by `workers`."""

    total: int
    until: float
    seed: int
    only: str
    rest: int
    workers: int


def work(job: Job) -> dict[str, Tally]:
    """One worker's cases."""
    quiet()
    tallies: dict[str, Tally] = {}
    with tempfile.TemporaryDirectory(prefix="trainbench-fuzz-") as name:
        home = Path(name).resolve()
        tempfile.tempdir = str(home)
        os.chdir(home)
        os.environ.update(dict.fromkeys(HOMES, str(home)))
        guard = Guard(home)
        for target, number in cases(job.total, job.only):
            if number % job.workers != job.rest:
                continue
            if time.monotonic() > job.until:
                break
            tally = tallies.setdefault(target.name, Tally())
            if not tally.cases:  # imports and first uses are nobody's fault
                finding(target, target.make(chance_of(0, "warm", 0)), home, guard)
            data = target.make(chance_of(job.seed, target.name, number))
            why, took_s = finding(target, data, home, guard)
            tally.cases += 1
            tally.cpu_s += took_s
            tally.slowest_s = max(tally.slowest_s, took_s)
            if why:
                if why not in tally.findings:
                    tally.inputs[why] = KEPT / f"{target.name}-{job.seed}-{number}"
                    tally.inputs[why].write_bytes(data)
                tally.findings[why] += 1
            if tally.cases % 200 == 0:
                gc.collect()
    return tallies


def quiet() -> None:
    """No warnings, no .pyc beside what is read, no more memory than there is, one argparse tree,
    no waiting for disks."""
    command_line.parser = cache(command_line.parser)
    vars(os)["fsync"] = lambda handle: None
    sys.dont_write_bytecode = True
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def fuzz(
    total: int, seconds: float, seed: int, only: str = "", workers: int = 1
) -> dict[str, Tally]:
    """Run cases; each kind's tally."""
    KEPT.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + seconds
    jobs = [Job(total, until, seed, only, rest, workers) for rest in range(workers)]
    tallies = {target.name: Tally() for target in TARGETS if only in ("", target.name)}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for part in pool.map(work, jobs):
            for name, tally in part.items():
                tallies[name].add(tally)
    return tallies
