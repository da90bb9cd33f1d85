"""Bundles: good ones, and ways to change them. Their logs are made, no trainer ran.

`good` tells what bench leaves of runs whose steps took the time that the logs say, with polls.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runner.__main__ import main
from runner.archive import archive
from runner.archive.extraction import unpack
from runner.folder import names
from runner.folder.campaign import Campaign
from runner.terms.cell import Cell
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import Story, inspected, write

STEPS, BATCH = 40, 16
H100 = {"name": "NVIDIA H100 80GB HBM3", "memory_mib": "81559", "driver": "580.65.06"}
BEGAN = 1_790_000_000.0


def _log(seed: int, *, steps: int = STEPS, rate: float = 100.0, first: float = 10.8) -> str:
    """Rank 0's log: about `rate` samples/s, the noise that `seed` gives."""
    noise = random.Random(seed)
    lines = [
        "torch_gpt config world_size=2 backend=gloo device=cpu torch=2.13.0+cpu seq_length=128"
        f" micro_batch_size=4 global_batch_size={BATCH} num_layers=4 hidden_size=128"
    ]
    for step in range(1, steps + 1):
        now = rate * (1 + noise.gauss(0, 0.004)) * (0.5 if step == 1 else 1.0)
        loss = 2 + (first - 2) / (1 + (step - 1) / 10)
        lines.append(
            f"torch_gpt step={step}/{steps} samples_per_s={now:.3f}"
            f" step_time_ms={BATCH * 1000 / now:.3f} loss={loss:.5f} grad_norm=1.0 lr=1e-3"
            " skipped=0 nan=0 memory_allocated_mib=800.0 memory_used_mib=1000.0"
        )
    return "\n".join(lines) + "\n"


def polls(log: str, began: float) -> str:
    """The timeline of a log whose lines came when their steps had ended: a poll a second."""
    at, size, seen = began, 0, [(began, 0)]
    for line in log.splitlines(keepends=True):
        size += len(line)
        if "step_time_ms=" in line:
            at += float(line.partition("step_time_ms=")[2].split()[0]) / 1000
        seen.append((at, size))
    lines = []
    for second in range(int(at - began) + 3):
        now = began + second
        there = max((bytes_ for time, bytes_ in seen if time <= now), default=0)
        lines.append(json.dumps({"sent": now, "received": now, "node": now, "log_bytes": there}))
    return "\n".join(lines) + "\n"


def campaign(runs: Path, name: str = "zero", seed: int = 1, **more: Any) -> Campaign:
    """A campaign of two cells with three repeats, as bench leaves it."""
    defaults = {"model": "gpt2-tiny", "train_iters": STEPS, "global_batch_size": BATCH}
    matrix = small_matrix(
        {"zero_stage": [0, 1]}, defaults, name=name, repeats=3, warmup_iters=5, **more
    )

    def story(cell: Cell, repeat: int) -> Story:
        stage = cell.parameters["zero_stage"]
        return Story({0: _log(1000 * seed + 10 * stage + repeat, rate=100 - 4 * stage)}, wall_s=30)

    made = write(runs, matrix, small_cluster(1), story, facts=inspected)
    for log in made.path.glob(f"{names.ATTEMPTS}/nodes/*/{names.LOG}"):
        (log.parent / names.TIMELINE).write_text(polls(log.read_text(), BEGAN))
        ending = {"ended_by": "exit", "rc": 0, "started_at": BEGAN, "wall_s": 30.0}
        (log.parent / names.DONE).write_text(json.dumps(ending))
    return made


def published(of: Campaign, target: Path, *more: str, entity: str = "Example Lab") -> Path:
    """The bundle that `publish` writes of a campaign."""
    target.parent.mkdir(parents=True, exist_ok=True)
    words = ["publish", str(of.path), "-o", str(target), "--entity", entity, *more]
    assert main(words) == 0
    return target


def good(folder: Path, name: str = "zero", seed: int = 1, entity: str = "Example Lab") -> Path:
    """A bundle in which all follows."""
    of = campaign(folder / "runs" / name, name, seed)
    return published(of, folder / f"{name}.tar.gz", entity=entity)


def changed(bundle: Path, folder: Path, change: Callable[[Path], None]) -> Path:
    """A copy of the bundle with a change in its campaign's folder, and a manifest that fits."""
    home = unpack(bundle, folder / "unpacked")
    change(home)
    target = folder / bundle.name
    archive.pack(home.name, archive.files(home), target)
    return target


def made_again(bundle: Path, folder: Path, change: Callable[[Path], None]) -> Path:
    """The same, published again: tables and README follow from the changed campaign."""
    home = unpack(bundle, folder / "unpacked")
    change(home)
    return published(Campaign(home), folder / bundle.name, "--anyway")


def each_log(home: Path, edit: Callable[[str], str]) -> None:
    """Change every log."""
    for log in home.glob(f"{names.ATTEMPTS}/nodes/*/{names.LOG}"):
        log.write_text(edit(log.read_text()))


def each_json(home: Path, pattern: str, edit: Callable[[Any], None]) -> None:
    """Change every JSON file of a name."""
    for path in home.glob(pattern):
        content = json.loads(path.read_text())
        edit(content)
        path.write_text(json.dumps(content))
