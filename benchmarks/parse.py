"""How fast logs are read: `runner parse` beside grep, one regular expression and a line script.

    TRAINBENCH_SHARED=DIR python -m benchmarks.parse [--log FILE] [--size-mb 1000] [--repeats 3]

Two inputs are made from one real log and removed afterwards: the whole log repeated to the size,
and its iteration lines alone repeated to the same size, each time with later iterations, so that
all of it is one run. All readers take them in one go, in turn, because machines are noisy; the best
of the repeats counts. MB is 10^6 bytes, seconds are CPU seconds (user and system), which other work
on the machine moves less than the clock.

    parse       all of `runner parse`: recognise, read, memory, diagnosis, medians
    grep        grep -c iteration
    collect     the same lines as a campaign's run has them: steps as objects, all in memory
    findall     one compiled bytes regular expression with findall, over blocks of 1 MiB
    line script a loop over text lines with `in` and `split`, as upstream's scripts have

Beside that: hostile inputs of two sizes, whose ratio shows that a byte costs the same in both; the
newest step of the large log from its end (runner/logs/latest.py), and the peak memory of the whole
command on 10 MB and on the large log.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from tabulate import tabulate

from runner.base.text import blocks
from runner.commands.parse import parse
from runner.logs.kinds import readers_of
from runner.logs.latest import latest
from runner.logs.measure import measure

PROJECT = Path(__file__).resolve().parents[1]
REAL = "logs/ms-meg-ds-stark/single_node_50iter_tp2pp1dp8.log"
PATTERN = re.compile(
    rb"iteration +(\d+)/ *(\d+) \|.*?elapsed time per iteration \((m?s)\): ([\d.]+) \|"
    rb".*?lm loss: ([\d.E+-]+) \|.*?number of skipped iterations: +(\d+) \|"
    rb".*?number of nan iterations: +(\d+) \|.*?samples per second: ([\d.]+) \|"
)
ITERATION = re.compile(rb"iteration +\d+/ *\d+ \|")


def by_parse(path: Path) -> int:
    """All of `runner parse`."""
    return int(parse([path], None)["logged_lines"])


def by_collect(path: Path) -> int:
    """The logs of a run, as `collect` reads them."""
    readers = readers_of("megatron_lm")
    return len(measure(readers, {0: blocks(path)}).intervals)


def by_grep(path: Path) -> int:
    """grep -c: lines that hold the word, whatever they are."""
    found = subprocess.run(["grep", "-c", "iteration", str(path)], capture_output=True, check=True)
    return int(found.stdout)


def by_findall(path: Path) -> int:
    """One regular expression over blocks that end at a line's end; medians from its groups."""
    times: list[float] = []
    rates: list[float] = []
    rest = b""
    for block in blocks(path):
        text = rest + block
        cut = text.rfind(b"\n") + 1
        rest = text[cut:]
        found = PATTERN.findall(text[:cut])
        times += [float(groups[3]) for groups in found]
        rates += [float(groups[7]) for groups in found]
    return len(times)


def by_lines(path: Path) -> int:
    """A loop over text lines, as upstream's extraction scripts do it."""
    times, rates = [], []
    with path.open(encoding="utf-8", errors="replace") as stream:
        for line in stream:
            if "iteration" in line and "elapsed time per iteration" in line:
                for field in line.split("|"):
                    name, _, value = field.partition(":")
                    if "elapsed time" in name:
                        times.append(float(value))
                    elif "samples per second" in name:
                        rates.append(float(value))
    return len(times)


def hostile(rows: list[bytes]) -> dict[str, bytes]:
    """What is repeated to be read slowly, by what it does; `rows` are good iteration lines."""
    random = Random(1)
    row = rows[-1]
    places = [random.randrange(len(row) - 1) for _ in range(2000)]
    near = b"iteration 1/ 2 |\nelapsed time per iteration (ms: 1.0 |\nlm loss value: 1 | lm loss\n"
    marks = b"memory (MB) | allocated\nSkipping step. Attempted loss scale\nmemory.used [MiB\n"
    return {
        "long lines": row[:-1] * 150 + b"\n",
        "no line's end": row[:-1],
        "millions of tiny lines": b"1\n|\n",
        "near matches": near + marks,
        "binary": random.randbytes(1 << 20),
        "alike except for a byte": b"".join(row[:at] + b"~" + row[at + 1 :] for at in places),
    }


def slowest(folder: Path, rows: list[bytes]) -> list[list[object]]:
    """One row a hostile input: MB/s of 5 and of 20 MB."""
    table: list[list[object]] = []
    for name, part in hostile(rows).items():
        rates = []
        for size in (5_000_000, 20_000_000):
            path = folder / "hostile"
            repeat(part, path, size)
            began = cpu_s()
            parse([path], None)
            rates.append(path.stat().st_size / 1e6 / (cpu_s() - began))
        table.append([name, f"{rates[0]:.0f}", f"{rates[1]:.0f}", f"{rates[0] / rates[1]:.2f}"])
    return table


READERS: dict[str, Callable[[Path], int]] = {
    "parse": by_parse,
    "collect": by_collect,
    "grep -c": by_grep,
    "findall": by_findall,
    "line script": by_lines,
}


def repeat(part: bytes, path: Path, size: int, rising: bool = False) -> None:
    """Write `part` again and again until the file has about `size` bytes; `rising`: with iterations
    that go on, as of one long run.
    """
    count = 0

    def later(match: re.Match[bytes]) -> bytes:
        nonlocal count
        count += 1
        return b"iteration %8d/ 9999999 |" % count

    with path.open("wb") as stream:
        while stream.tell() + len(part) <= size:
            stream.write(ITERATION.sub(later, part) if rising else part)


def cpu_s() -> float:
    """CPU seconds so far, of this process and the children it has waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def compare(path: Path, repeats: int) -> list[list[object]]:
    """One row for each reader: MB/s (best), the ratio to findall, what it counted, and how fast."""
    best = dict.fromkeys(READERS, float("inf"))
    counts = dict.fromkeys(READERS, 0)
    for _ in range(repeats):
        for name, reader in READERS.items():
            began = cpu_s()
            counts[name] = reader(path)
            best[name] = min(best[name], cpu_s() - began)
    size = path.stat().st_size / 1e6
    return [
        [
            path.stem,
            name,
            f"{size / best[name]:.0f}",
            f"{best['findall'] / best[name]:.2f}",
            counts[name],
            f"{counts[name] / best[name]:.0f}",
        ]
        for name in READERS
    ]


def peak_mib(path: Path) -> float:
    """The largest resident size of `python -m runner parse` on a log (Linux)."""
    code = (
        "import sys; from runner.__main__ import main; main(sys.argv[1:]);"
        " print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "parse", str(path), "--format", "json"],
        capture_output=True,
        check=True,
        cwd=PROJECT,
    )
    return int(done.stderr.split()[-1]) / 1024


def newest_ms(path: Path) -> float:
    """Milliseconds to find the newest step of a log, as the live view does."""
    times = []
    for _ in range(9):
        began = time.perf_counter()
        assert latest(partial(measure, readers_of("megatron_deepspeed")), {0: path}) is not None
        times.append((time.perf_counter() - began) * 1000)
    return sorted(times)[len(times) // 2]


def main() -> int:
    """Make the inputs, measure, print, remove the inputs."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--log", type=Path, help=f"default: $TRAINBENCH_SHARED/{REAL}")
    options.add_argument("--size-mb", type=int, default=1000)
    options.add_argument("--repeats", type=int, default=3)
    chosen = options.parse_args()
    shared = os.environ.get("TRAINBENCH_SHARED")
    log = chosen.log or (Path(shared) / REAL if shared else None)
    if log is None or not log.is_file():
        print("error: name a Megatron log with --log, or set TRAINBENCH_SHARED", file=sys.stderr)
        return 2
    whole = log.read_bytes()
    rows = [line for line in whole.splitlines(keepends=True) if PATTERN.search(line)]
    share = sum(map(len, rows)) / len(whole)
    with tempfile.TemporaryDirectory(prefix="trainbench-parse-") as folder:
        table = []
        for name, part in (("whole log", whole), ("lines only", b"".join(rows))):
            path = Path(folder) / name
            repeat(part, path, chosen.size_mb * 1_000_000, rising=True)
            table += compare(path, chosen.repeats)
        small = Path(folder) / "small"
        repeat(whole, small, 10_000_000, rising=True)
        peaks = [
            peak_mib(small),
            *(peak_mib(Path(folder) / name) for name in ("whole log", "lines only")),
        ]
        newest = newest_ms(Path(folder) / "whole log")
        slow = slowest(Path(folder), rows)
    print(f"{log.name}: iteration lines are {share:.0%} of its bytes; {chosen.size_mb} MB each")
    print(
        tabulate(table, headers=("input", "reader", "MB/s", "times findall", "counted", "lines/s"))
    )
    heads = ("hostile input", "MB/s of 5 MB", "of 20 MB", "time a byte, 20 MB to 5")
    print("\n" + tabulate(slow, headers=heads))
    print(f"\nnewest step of the whole log, from its end: {newest:.1f} ms")
    print(
        f"peak memory of the command: {peaks[0]:.0f} MiB on 10 MB, {peaks[1]:.0f} MiB on the whole"
        f" log, {peaks[2]:.0f} MiB on lines only"
    )
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())
