"""tune beside an exhaustive search with three repeats, on four real nodes with torch_gpt.

Both have the same combinations of tensor, pipeline and data parallelism, micro batch and ZeRO
stage. The nodes share all processors of this machine: run nothing else on it.
"""

import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import yaml

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

REPEATS = 3
NAMES = ("raced", "all")
DEFAULTS: dict[str, Any] = {
    "system": "torch_gpt",
    "model": "gpt2-tiny",
    "seq_length": 64,
    "global_batch_size": 32,
    "nodes": 4,
    "train_iters": 40,
}
KNOBS: dict[str, Any] = {
    "micro_batch_size": [2, 8],
    "tensor_parallel": [1, 2],
    "pipeline_parallel": [1, 2],
    "zero_stage": [0, 2],
}
TUNE = {"name": "raced", "defaults": DEFAULTS, "tune": {"knobs": KNOBS}, "time_limit_s": 600}


@pytest.mark.cluster
@pytest.mark.nightly("tuning-nodes", by_day="half an hour")
@pytest.mark.timeout(2900)
@pytest.mark.usefixtures("lender")  # skips without root
def test_the_winner_is_the_fastest_within_noise(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with bed(share=None) as made:
        inventory = load_inventory(made.inventory)
        tune = tmp_path / "raced.yaml"
        tune.write_text(yaml.safe_dump(TUNE, sort_keys=False))
        legal = candidates_of(load_matrix(tune, lambda _: 1), inventory).legal
        whole = tmp_path / "all.yaml"
        content = {
            "name": "all",
            "defaults": DEFAULTS,
            "include": [dict(one.knobs) for one in legal],
            "repeats": REPEATS,
            "time_limit_s": 600,
        }
        whole.write_text(yaml.safe_dump(content, sort_keys=False))
        where = ["-i", str(made.inventory), "--runs", str(tmp_path)]
        ran("tune", str(tune), *where)
        ran("bench", "--matrix", str(whole), *where)
        searched, every = (Campaign(tmp_path / f"{name}-{made.inventory.name}") for name in NAMES)
    times: dict[str, list[float]] = {}
    runs = records_of(every, tmp_path)
    for record in runs:
        row = rows([record])[0]
        if (time := row.statistics.step_time_ms) is not None:
            times.setdefault(row.cell, []).append(time.value)
    order = sorted(times, key=lambda cell: fmean(times[cell]))
    tuned = load_tuned(searched.path)
    assert tuned is not None
    assert tuned.winner is not None
    gap = rate_difference(of_values(times[order[0]]), of_values(times[tuned.winner]))
    record_property("legal cells", len(times))
    record_property("winner", tuned.winner)
    record_property("its place", order.index(tuned.winner) + 1)
    record_property("the fastest is faster by, %", f"{gap.percent:.1f} {gap.interval}")
    search = records_of(searched, tmp_path)
    record_property("runs, of", f"{len(search)} {len(runs)}")
    record_property("s in steps, of", f"{stepping(search):.0f} {stepping(runs):.0f}")
    walls = [sum(one.wall_s or 0.0 for one in each) for each in (search, runs)]
    record_property("s with start-up, of", f"{walls[0]:.0f} {walls[1]:.0f}")
    assert gap.interval is None or gap.interval[0] <= 0


def ran(*words: str) -> None:
    """Run a command of ours; it prints as it does."""
    subprocess.run([sys.executable, "-m", "runner", *words], check=False)


def stepping(records: Iterable[Record]) -> float:
    """Return the seconds that runs spent in steps."""
    total = 0.0
    for record in records:
        for one in record.measurement.intervals:
            time = step_time_ms(one, record.global_batch_size)[0]
            total += (time or 0.0) * one.iterations / 1000
    return total
