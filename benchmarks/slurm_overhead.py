"""What a run costs on Slurm beyond the same trainer started by a bare script of sbatch and srun.

    python -m benchmarks.slurm_overhead [--runs 8] [--nodes 2 4]     (root: `make slurm-overhead`)

On real Slurm of test nodes (tests/cluster/slurm.py) a trainer that sleeps for a second runs again
and again, in four ways, in one go because machines are noisy:

    job           bench, one job per run, one at a time (slurm_most_jobs: 1)
    bare job      a shell that calls sbatch and waits for a file that the job's last line writes
    allocation    bench, steps of one allocation
    bare step     one job that calls srun again and again

A run's time is that from one's end to the next one's end, which has all that happens in between;
the median of all but the first counts. Added is bench's less the bare one's. Start skew is the
spread of the trainers' starts over the nodes, by the nodes' clocks (test nodes share one); bare is
that of `srun date`. Memory is the most that any process of bench held (VmHWM).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tabulate import tabulate

from runner.folder import names
from tests.cluster.slurm import SlurmCluster
from tests.on_slurm.campaign import SlurmBench, chown, install_stand_in, user_folder

STEPS, STEP_S = 10, 0.1
MOST = 60  # nodes of one cluster
PYTHON = "root/systems/torch_gpt/torch-2.13/env/bin/python3"
# Runs bench, and says what the largest of its processes held.
WITNESS = (
    "import resource, subprocess, sys; code = subprocess.call(sys.argv[1:]);"
    " print('PEAK', resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(code)"
)


class Seen(NamedTuple):
    """Of one way: seconds a run, start skews, the largest process in MiB."""

    run_s: float
    skews_s: list[float]
    peak_mib: float


def bench(slurm: SlurmCluster, nodes: int, runs: int, mode: str, **more: Any) -> Seen:
    """Run a campaign of `runs` cells, one after another."""
    name = f"{mode}{nodes}"
    matrix = {
        "name": name,
        "defaults": {
            **{"system": "torch_gpt", "nodes": nodes, "devices_per_node": 1},
            **{"train_iters": STEPS, "env": {"STEP_S": str(STEP_S)}},
        },
        "axes": {"seed": list(range(runs))},
    }
    folder = user_folder(slurm, f"{name}-{time.monotonic_ns()}")
    variables = {"slurm_mode": mode, "slurm_most_jobs": 1, "slurm_nodes": nodes, **more}
    campaign = SlurmBench(slurm, folder, matrix, variables)
    argv = [sys.executable, "-c", WITNESS, *super(SlurmBench, campaign).argv()]
    ran = slurm.run(argv, timeout=60 * runs)
    if ran.returncode != 0:
        raise RuntimeError(ran.stdout + ran.stderr)
    ended = sorted(path.stat().st_mtime for path in folder.rglob(names.OUTCOME))
    skews = [skew(path.parent) for path in folder.rglob(names.OUTCOME)]
    peak = next(line.split()[1] for line in ran.stdout.splitlines() if line.startswith("PEAK "))
    return Seen(between(ended), skews, int(peak) / 1024)


def skew(run: Path) -> float:
    """The spread of the trainers' starts in a run."""
    starts = [json.loads(path.read_text())["started_at"] for path in run.rglob(names.DONE)]
    return float(max(starts) - min(starts))


def between(ends: Sequence[float]) -> float:
    """Seconds from one end to the next."""
    return statistics.median(after - before for before, after in itertools.pairwise(ends))


def srun(slurm: SlurmCluster, nodes: int) -> str:
    """A line of shell that starts the trainer as people do."""
    trainer = f"{slurm.shared / PYTHON} --node_rank 0 --train-iters {STEPS}"
    start = f"srun --nodes={nodes} --ntasks-per-node=1 --kill-on-bad-exit=1"
    return f"{start} env STEP_S={STEP_S} {trainer}"


def bare(slurm: SlurmCluster, nodes: int, runs: int, mode: str) -> Seen:
    """The same by hand: jobs, or steps of one job; each end is a file's time."""
    folder = user_folder(slurm, f"bare-{mode}{nodes}-{time.monotonic_ns()}")
    head = f"#!/bin/bash\n#SBATCH --nodes={nodes} --ntasks-per-node=1 --exclusive --output=out-%j\n"
    date = f"srun --nodes={nodes} --ntasks-per-node=1 date +%s.%N"
    line = srun(slurm, nodes)
    if mode == "job":
        (folder / "job").write_text(f"{head}{line}\ntouch end$1\n")
        loop = "sbatch --parsable job $i >> ids; while [ ! -e end$i ]; do sleep 0.01; done"
        (folder / "all").write_text(f"for i in $(seq {runs}); do {loop}; done\n")
        (folder / "skew").write_text(f"{head}for i in $(seq {runs}); do {date} >> starts; done\n")
        command = "bash all && sbatch --wait skew"
    else:
        (folder / "job").write_text(f"{head}for i in $(seq {runs}); do {line}; touch end$i; done\n")
        command = "sbatch --wait job"
    chown(folder)
    argv = ["bash", "-c", f"cd {folder} && {command}"]
    slurm.run(argv, timeout=60 * runs, check=True)
    ends = sorted(path.stat().st_mtime for path in folder.glob("end*"))
    starts = folder / "starts"
    seen = [float(word) for word in starts.read_text().split()] if starts.exists() else []
    groups = [seen[first : first + nodes] for first in range(0, len(seen), nodes)]
    return Seen(between(ends), [max(group) - min(group) for group in groups], 0.0)


def measure(slurm: SlurmCluster, nodes: int, runs: int) -> list[list[str]]:
    """Two rows of the table."""
    rows = []
    srun_skew = 0.0
    for mode in ("job", "allocation"):
        by_hand, ours = bare(slurm, nodes, runs, mode), bench(slurm, nodes, runs, mode)
        srun_skew = max(by_hand.skews_s, default=srun_skew)
        rows.append(
            [
                mode,
                str(nodes),
                f"{ours.run_s:.2f}",
                f"{by_hand.run_s:.2f}",
                f"{ours.run_s - by_hand.run_s:+.2f}",
                f"{max(ours.skews_s):.3f}",
                f"{srun_skew:.3f}",
                f"{ours.peak_mib:.0f}",
            ]
        )
        print("\t".join(rows[-1]), f"load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return rows


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=8, help="runs of each way")
    parser.add_argument("--nodes", type=int, nargs="+", default=[2, 4], help="node counts")
    chosen = parser.parse_args()
    # Twice as many, so that a job need not wait until the nodes of the one before are free.
    with SlurmCluster(min(2 * max(chosen.nodes), MOST)) as slurm:
        install_stand_in(slurm)
        rows = [row for nodes in chosen.nodes for row in measure(slurm, nodes, chosen.runs)]
    headers = ("mode", "nodes", "bench, s a run", "bare, s a run", "added, s")
    more = ("start skew, s", "srun's own, s", "largest process, MiB")
    print(f"{chosen.runs} runs of a trainer that sleeps {STEPS * STEP_S:.1f} s")
    print(tabulate(rows, headers=(*headers, *more), disable_numparse=True, tablefmt="github"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
