"""How long `collect` takes for a large campaign: 1,000 runs of 16 ranks.

    python -m benchmarks.collect [--runs 1000] [--ranks 16] [--steps 200] [--log-kb 64]

A campaign is written to a temporary folder and removed afterwards: four repeats a cell, one log a
rank. Rank 0 logs every step, the others 64 KB of what ranks print besides (warnings, NCCL lines);
every twentieth run failed on its last rank. Compared, in one run because machines are noisy:

    table       `python -m runner collect`, the whole command: start, logs, diagnosis of the
                failed runs, statistics, table
    json        the same with --format json, which has each run's curves and commands, too
    naive       open each run's outcome.json and each log, loop over its lines, split those that
                hold `step=`: what a script of one's own would do; no statistics
    cat         `cat` of the same files

Seconds by the clock, best of the repeats; peak memory is the command's largest resident size.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tabulate import tabulate

from runner.folder import names
from runner.terms.cell import Cell
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import OUT_OF_MEMORY, Story, torch_gpt, write

PROJECT = Path(__file__).resolve().parents[1]
REPEATS = 4
WARNING = (
    "W1121 06:40:42.397000 21073 torch/distributed/run.py:774] Setting OMP_NUM_THREADS to 1\n"
    "n7:21073:21180 [0] NCCL INFO Channel 00/02 : 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n"
)
PEAK = (
    "import sys; from runner.__main__ import main; code = main(sys.argv[1:]);"
    " print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0], file=sys.stderr);"
    " sys.exit(code)"
)


def make(folder: Path, runs: int, ranks: int, steps: int, log_kb: int) -> Path:
    """Write the campaign; its folder."""
    matrix = small_matrix(
        {"seed": list(range(runs // REPEATS))},
        {"nodes": ranks, "train_iters": steps, "global_batch_size": 4 * ranks},
        name="large",
        repeats=REPEATS,
        warmup_iters=10,
    )
    said = WARNING * (log_kb * 1000 // len(WARNING))
    others = dict.fromkeys(range(1, ranks), said)
    halt = {"cause": "exit", "host": f"n{ranks}", "message": f"n{ranks}: exit code 1"}

    def story(cell: Cell, repeat: int) -> Story:
        number = int(cell.parameters["seed"]) * REPEATS + repeat
        rate = 100 + number % 7
        if number % 20:
            return Story({0: torch_gpt(steps, rate=rate, batch=4 * ranks), **others})
        log = torch_gpt(steps // 2, rate=rate, batch=4 * ranks, of=steps)
        return Story({0: log, **others, ranks - 1: said + OUT_OF_MEMORY}, halt)

    return write(folder, matrix, small_cluster(ranks, 1), story).path


def by_table(campaign: Path) -> int:
    """The whole command; counts the lines of the table."""
    return len(_collect(campaign, "table").stdout.splitlines())


def by_json(campaign: Path) -> int:
    """The whole command with all that it read; counts steps measured."""
    table = json.loads(_collect(campaign, "json").stdout)
    return sum(row["figures"]["steps_measured"] or 0 for row in table["rows"])


def _collect(campaign: Path, format: str) -> subprocess.CompletedProcess[str]:
    arguments = ["collect", "--runs", str(campaign.parent), "--format", format]
    line = [sys.executable, "-c", PEAK, *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=True, cwd=PROJECT)


def peak_mib(campaign: Path, format: str) -> float:
    """The command's largest resident size (Linux)."""
    return int(_collect(campaign, format).stderr.split()[-1]) / 1024


def by_naive(campaign: Path) -> int:
    """A loop over lines; counts steps."""
    count = 0
    for outcome in campaign.glob(f"{names.ATTEMPTS}/{names.OUTCOME}"):
        json.loads(outcome.read_text())
        rates = []
        for log in outcome.parent.rglob(names.LOG):
            for line in log.read_text().splitlines():
                if "step=" in line:
                    words = dict(word.split("=", 1) for word in line.split() if "=" in word)
                    rates.append(float(words["samples_per_s"]))
        count += len(rates)
        statistics.median(rates or [0.0])
    return count


def by_cat(campaign: Path) -> int:
    """Read every byte; counts them."""
    files = [str(path) for path in campaign.rglob("*") if path.is_file()]
    total = 0
    for begin in range(0, len(files), 2000):
        with subprocess.Popen(["cat", *files[begin : begin + 2000]], stdout=subprocess.PIPE) as cat:
            assert cat.stdout is not None
            while block := cat.stdout.read(1 << 20):
                total += len(block)
    return total


READERS: dict[str, Callable[[Path], int]] = {
    "table": by_table,
    "json": by_json,
    "naive": by_naive,
    "cat": by_cat,
}


def main() -> int:
    """Make the campaign, measure, print, remove it."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--runs", type=int, default=1000)
    options.add_argument("--ranks", type=int, default=16)
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--log-kb", type=int, default=64, help="of each rank but the first")
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--keep", type=Path, help="write the campaign here, and leave it")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="trainbench-collect-") as name:
        campaign = make(
            chosen.keep or Path(name), chosen.runs, chosen.ranks, chosen.steps, chosen.log_kb
        )
        best = dict.fromkeys(READERS, float("inf"))
        counts = dict.fromkeys(READERS, 0)
        for _ in range(chosen.repeats):
            for reader, read in READERS.items():
                began = time.perf_counter()
                counts[reader] = read(campaign)
                best[reader] = min(best[reader], time.perf_counter() - began)
        peaks = {format: peak_mib(campaign, format) for format in ("table", "json")}
        files = sum(path.is_file() for path in campaign.rglob("*"))
    rows = [
        [reader, f"{best[reader]:.1f}", f"{best[reader] / best['naive']:.2f}", counts[reader]]
        for reader in READERS
    ]
    size = counts["cat"] / 1e6
    print(f"{chosen.runs} runs x {chosen.ranks} ranks: {files} files, {size:.0f} MB")
    print(tabulate(rows, headers=("reader", "s", "times naive", "counted"), disable_numparse=True))
    print(", ".join(f"{name}: at most {peak:.0f} MiB" for name, peak in peaks.items()))
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())
