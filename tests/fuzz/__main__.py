"""Fuzz what reads from outside, on all cores: ``make fuzz``.

    python -m tests.fuzz [--cases 100000] [--seconds 600] [--seed N] [--only KIND]
    python -m tests.fuzz --again FILE     one case once more, with its traceback

Each case is made of the seed, its kind and its number alone. What is wrong with one is printed
once, with its input as a file and the command that repeats it.
"""

import argparse
import os
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from tabulate import tabulate

from tests.conftest import ROOT
from tests.fuzz.case import FindingError
from tests.fuzz.fuzz import Bench, Tally, fuzz
from tests.fuzz.targets import TARGETS

TELL_S = 30.0  # between two lines of progress


def again(path: Path) -> int:
    """One case once more; its traceback is printed."""
    target = next(target for target in TARGETS if path.name.startswith(f"{target.name}-"))
    data = path.read_bytes()
    with tempfile.TemporaryDirectory(prefix="trainbench-fuzz-") as name:
        place = Bench(Path(name))
        why, took_s = place.judge(target, data)
        print(f"{target.name}, {len(data)} bytes, {took_s:.2f} s of CPU: {why or 'nothing'}")
        try:
            target.judge(data, place.home)
        except FindingError:
            pass
        except Exception:
            traceback.print_exc(limit=-12)
    return bool(why)


def progress(tallies: dict[str, Tally], took_s: float) -> Iterator[str]:
    """A line for who waits."""
    yield f"{took_s:.0f} s: {sum(tally.cases for tally in tallies.values())} cases,"
    yield f"{sum(tally.findings.total() for tally in tallies.values())} findings"


def report(tallies: dict[str, Tally], took_s: float) -> int:
    """Print the figures and the findings; the exit code."""
    headers = ("kind", "cases", "CPU s", "slowest case, s", "findings")
    rows: list[tuple[object, ...]] = [
        (name, tally.cases, round(tally.cpu_s), round(tally.slowest_s, 2), tally.findings.total())
        for name, tally in tallies.items()
    ]
    total = sum(tally.cases for tally in tallies.values())
    count = sum(tally.findings.total() for tally in tallies.values())
    cpu_s = sum(tally.cpu_s for tally in tallies.values())
    rows.append(("all", total, round(cpu_s), "", count))
    print(tabulate(rows, headers=headers, tablefmt="github"))
    print(f"in {took_s:.0f} s")
    for name, tally in tallies.items():
        for why, times in tally.findings.most_common():
            place = os.path.relpath(tally.inputs[why], ROOT)
            print(f"\n{name}, {times} times: {why}\n  python -m tests.fuzz --again {place}")
    return bool(count)


def main() -> int:
    """Exit code 0: no finding."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=900, help="end after so many")
    parser.add_argument("--seed", type=int, help="default: another each time")
    parser.add_argument("--only", default="", choices=[target.name for target in TARGETS])
    parser.add_argument("--again", type=Path, metavar="FILE", help="a case that was kept")
    chosen = parser.parse_args()
    if chosen.again is not None:
        return again(chosen.again.resolve())
    seed = random.SystemRandom().randrange(10**6) if chosen.seed is None else chosen.seed
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    told_s, tallies = 0.0, {}
    for tallies in fuzz(chosen.cases, chosen.seconds, seed, chosen.only, os.cpu_count() or 1):
        took_s = time.monotonic() - began
        if took_s - told_s > TELL_S:
            told_s = took_s
            print(*progress(tallies, took_s), file=sys.stderr, flush=True)
    return report(tallies, time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
