"""tune beside an exhaustive search with three repeats, on four real nodes with torch_gpt (root).

    python -m tests.on_nodes.tuning_race [--keep FOLDER]

Both have the same combinations of tensor, pipeline and data parallelism, micro batch and ZeRO
stage. The nodes share all processors of this machine: run nothing else on it. The tables say how
fast the winner of the search is by the exhaustive runs, beside the fastest of them, and how much of
their time the search took. Time is the sum of the runs' steps (start-up apart), and of their wall
times.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import yaml
from tabulate import tabulate

from runner.figures.between_runs import of_values, rate_difference
from runner.figures.counted_steps import step_time_ms
from runner.folder.campaign import Campaign
from runner.folder.tune_file import load_tuned
from runner.inventory.inventory import load_inventory
from runner.load.records import records_of
from runner.matrix.file import load_matrix
from runner.tables.build import rows
from runner.terms.record import Record
from runner.tuner.knob_candidates import candidates_of
from tests.acceptance.bed import bed
from tests.conftest import ROOT

REPEATS = 3
NAMES = ("tune", "exhaustive")
DEFAULTS: dict[str, Any] = {
    "system": "torch_gpt",
    "model": "gpt2-tiny",
    "seq_length": 64,
    "global_batch_size": 32,
    "nodes": 4,
    "train_iters": 40,
}
KNOBS: dict[str, Any] = {
    "micro_batch_size": [2, 1, 4, 8],
    "tensor_parallel": [1, 2],
    "pipeline_parallel": [1, 2],
    "zero_stage": [0, 2],
}
TUNE = {"name": "raced", "defaults": DEFAULTS, "tune": {"knobs": KNOBS}, "time_limit_s": 600}


def main() -> int:
    """Exit code 0: the winner is the fastest within noise."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.on_nodes.tuning_race",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--keep", type=Path, help="keep the runs in this folder, or go on there")
    chosen = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    with bed(share=None) as made:
        runs = (chosen.keep or made.runs).resolve()
        runs.mkdir(parents=True, exist_ok=True)
        return race(made.inventory, runs)


def race(inventory: Path, runs: Path) -> int:
    """Run both and print the tables."""
    tune = runs / "raced.yaml"
    tune.write_text(yaml.safe_dump(TUNE, sort_keys=False))
    legal = candidates_of(load_matrix(tune, lambda _: 1), load_inventory(inventory)).legal
    whole = runs / "all.yaml"
    content = {
        "name": "all",
        "defaults": DEFAULTS,
        "include": [dict(one.knobs) for one in legal],
        "repeats": REPEATS,
        "time_limit_s": 600,
    }
    whole.write_text(yaml.safe_dump(content, sort_keys=False))
    where = ["-i", str(inventory), "--runs", str(runs)]
    ran("tune", str(tune), *where)
    ran("bench", "--matrix", str(whole), *where)
    return told(runs / f"raced-{inventory.name}", runs / f"all-{inventory.name}", runs)


def ran(*words: str) -> None:
    """Run a command of ours; it prints as it does."""
    subprocess.run([sys.executable, "-m", "runner", *words], check=False)


def told(searched: Path, whole: Path, runs: Path) -> int:
    """Compare the two campaigns."""
    tuned = load_tuned(searched)
    every = records_of(Campaign(whole), runs)
    assert tuned is not None
    times: dict[str, list[float]] = {}
    for record in every:
        row = rows([record])[0]
        if (time := row.statistics.step_time_ms) is not None:
            times.setdefault(row.cell, []).append(time.value)
    order = sorted(times, key=lambda cell: fmean(times[cell]))
    best = times[order[0]]
    ours = times[tuned.winner or order[-1]]
    gap = rate_difference(of_values(best), of_values(ours))
    found = rate_difference(of_values(best), of_values(times[order[1]]))
    print(f"\n{len(times)} legal cells; exhaustive, {REPEATS} repeats each: the fastest five\n")
    shown = [
        [cell, fmean(times[cell]), stdev(times[cell]) if len(times[cell]) > 1 else None]
        for cell in order[:5]
    ]
    print(tabulate(shown, ["cell", "ms per step", "sd"], "github", floatfmt=".1f"))
    print(f"\ntune's winner: {tuned.winner}, place {order.index(tuned.winner or '') + 1}")
    print(f"  the fastest is {gap.percent:.1f} % faster than it, 95 % interval {gap.interval}")
    print(f"  the fastest is {found.percent:.1f} % faster than the second, {found.interval}\n")
    search = records_of(Campaign(searched), runs)
    sums = [
        (len(each), stepping(each), sum(one.wall_s or 0.0 for one in each))
        for each in (search, every)
    ]
    shares = [f"{100 * ours / all_:.0f} %" for ours, all_ in zip(*sums, strict=True)]
    lines = [
        *(
            [name, *(f"{value:.0f}" for value in each)]
            for name, each in zip(NAMES, sums, strict=True)
        ),
        ["share", *shares],
    ]
    print(tabulate(lines, ["", "runs", "s in steps", "s with start-up"], "github"))
    within = gap.interval is None or gap.interval[0] <= 0
    return 0 if within else 1


def stepping(records: Iterable[Record]) -> float:
    """Return the seconds that runs spent in steps."""
    total = 0.0
    for record in records:
        for one in record.measurement.intervals:
            time = step_time_ms(one, record.global_batch_size)[0]
            total += (time or 0.0) * one.iterations / 1000
    return total


if __name__ == "__main__":
    sys.exit(main())
