"""What the commands take on one run of very many nodes, with a sample a second of each GPU.

    python -m benchmarks.large_runs [--nodes 64 1024 4096] [--minutes 10] [--keep FOLDER]

A campaign of one run is written as bench would leave it: the log and timeline of rank 0, a node's
samples once a second of 8 devices (all nodes have a copy of the same, written once each). Then
each command runs as a person calls it: seconds of the processors, of the clock, and the largest
resident size. `again`: the same once more, with what the first left in the cache. 4,096 nodes of
an hour are 13 GB of samples; by default it is ten minutes, and what grows is in proportion.
"""

import argparse
import json
import os
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from tabulate import tabulate

from node.nvml import HEADER
from runner.folder import names
from runner.terms.cell import Cell
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import Story, torch_gpt, write

PROJECT = Path(__file__).resolve().parents[1]
BEGAN = 1_764_100_000.0  # node time of the first sample
DEVICES = 8
WARMING_S = 20  # from the first sample to the first step
COMMANDS = {
    "collect": ["collect"],
    "collect, again": ["collect"],
    "status": ["status"],
    "report": ["collect", "--format", "html", "--output", "{folder}/report.html"],
    "export": ["export", "large-rack", "--output", "{folder}/export.tar.gz"],
}


def samples(seconds: int) -> str:
    """Return samples.csv of a node that trains for so long, as node/nvml.py writes it."""
    chance = random.Random(1)
    used, lines = [10**9 * (device + 1) for device in range(DEVICES)], [HEADER]
    for second in range(seconds + WARMING_S + 5):
        for device in range(DEVICES):
            watts = 600 + 90 * chance.random()
            used[device] += int(watts * 1000)
            lines.append(
                f"{BEGAN + second + device / 500:.3f}, {device}, {chance.randint(95, 100)} %,"
                f" {70_000 + second % 7} MiB, 81559 MiB, {watts:.2f} W,"
                f" {1_900 + second % 80} MHz, {60 + device}, {used[device]} mJ, 0x{0:016x}\n"
            )
    return "".join(lines)


def timeline(log: str, seconds: int) -> str:
    """Return timeline.jsonl: a poll a second, each of which saw one more line of the log."""
    polls, sizes = [], [0]
    for line in log.splitlines(keepends=True):
        sizes.append(sizes[-1] + len(line))
    for second in range(seconds + WARMING_S + 5):
        at = BEGAN + second + 0.3
        log_bytes = sizes[min(max(second - WARMING_S + 1, 0), len(sizes) - 1)]
        poll = {"sent": at - 0.2, "received": at + 0.01, "node": at, "log_bytes": log_bytes}
        polls.append(json.dumps(poll) + "\n")
    return "".join(polls)


def make(folder: Path, nodes: int, minutes: float) -> Path:
    """Write the campaign; return the folder of runs."""
    seconds = int(minutes * 60)
    defaults = {
        **{"nodes": nodes, "devices_per_node": DEVICES, "micro_batch_size": 1},
        **{"global_batch_size": nodes * DEVICES, "train_iters": seconds, "model": "gpt2-medium"},
    }
    matrix = small_matrix({"seed": [1]}, defaults, name="large", warmup_iters=10)
    batch = nodes * DEVICES
    log = torch_gpt(seconds, rate=float(batch), batch=batch, noise=lambda step: 0.0)
    cluster = small_cluster(nodes, DEVICES, device="cuda")

    def story(cell: Cell, repeat: int) -> Story:
        return Story({0: log}, wall_s=seconds + 30.0)

    campaign = write(folder, matrix, cluster, story)
    text = samples(seconds).encode()
    ending = {"ended_by": "exit", "rc": 0, "started_at": BEGAN + 3.0, "wall_s": seconds + 30.0}
    for log_path in campaign.path.glob(f"{names.ATTEMPTS}/{names.NODES}/*/{names.LOG}"):
        node = log_path.parent
        (node / names.SAMPLES).write_bytes(text)
        (node / names.TIMELINE).write_text(
            timeline(log if log_path.stat().st_size else "", seconds)
        )
        (node / names.DONE).write_text(json.dumps(ending))
    return folder


def measure(argv_words: list[str], cache: Path) -> tuple[float, float, float]:
    """Run a command; seconds of the processors, of the clock, and MiB."""
    argv = [sys.executable, "-m", "runner", *argv_words]
    os.environ["XDG_CACHE_HOME"] = str(cache)
    began = time.perf_counter()
    process = os.posix_spawn(
        sys.executable,
        argv,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )
    _, status, used = os.wait4(process, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError(f"{' '.join(argv)}: exit code {os.waitstatus_to_exitcode(status)}")
    return _cpu(used), time.perf_counter() - began, used.ru_maxrss / 1024


def _cpu(used: resource.struct_rusage) -> float:
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Make each campaign, measure, print, remove it."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--nodes", type=int, nargs="+", default=[64, 1024, 4096])
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--commands", nargs="+", default=list(COMMANDS), choices=COMMANDS)
    options.add_argument("--keep", type=Path, help="a folder for the campaigns, which stay there")
    chosen = options.parse_args()
    rows = []
    os.chdir(PROJECT)
    for nodes in chosen.nodes:
        with tempfile.TemporaryDirectory(prefix="trainbench-large-") as name:
            folder = chosen.keep / str(nodes) if chosen.keep else Path(name)
            if not folder.is_dir() or not any(folder.iterdir()):
                folder.mkdir(parents=True, exist_ok=True)
                make(folder, nodes, chosen.minutes)
            size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            for command in chosen.commands:
                argv_words = [word.format(folder=name) for word in COMMANDS[command]]
                runs = ["--runs", str(folder)]
                figures = measure([*argv_words, *runs], Path(name) / "cache")
                rows.append(
                    [nodes, f"{size / 1e6:.0f}", command, *(f"{figure:.1f}" for figure in figures)]
                )
                print(*rows[-1], sep="\t", file=sys.stderr, flush=True)
    headers = ("nodes", "MB", "command", "processor, s", "clock, s", "memory, MiB")
    print(tabulate(rows, headers=headers, disable_numparse=True, tablefmt="github"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
