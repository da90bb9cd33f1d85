"""Does the test of learning alike catch a fault, and leave honest settings alone?

    python -m benchmarks.learning [--python PYTHON] [--curves FILE] [--save FILE]

The reference trainer learns a small language on this machine's CPU, 410 runs of a second or two:

    honest   20 pairs of two settings that learn alike: an iteration's 8 samples as 4 passes of 2,
             and as 2 passes of 4. 10 seeds a setting, no seed twice: SEEDS. At most 3 pairs may
             alarm at the 5 % level (which chance exceeds once in 60 times).
    fault    10 seeds more of the first setting, with a fault planted in the trainer
             (learning_runs.py): the gradients of all passes but the last are lost. Against the
             reference of each pair it must be caught.

PYTHON is one with torch: by default that of `make setup`. `--curves` decides on stored losses and
runs nothing, which is what tests/runner/figures/test_target.py does; `--save` stores them.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from node.dataset import megatron_mmap
from runner.figures.loss_curves import Spans
from runner.figures.target import Alike, Arrival, arrival, learn_alike
from runner.systems.common.registry import load_system

PROJECT = Path(__file__).resolve().parents[1]
TORCH = PROJECT / ".trainbench" / "systems" / "torch_gpt"
PAIRS, RUNS = 20, 10  # pairs of settings, and seeds a setting
# Where the seeds of each setting begin; those of pair p are RUNS from RUNS * p on.
SEEDS = {"reference": 1_000, "other": 2_000, "fault": 3_000}
MICRO = {"reference": 2, "other": 4, "fault": 2}
ITERATIONS, BATCH, LENGTH, VOCABULARY = 60, 8, 32, 64
TARGET = 3.7
MOST_ALARMS = 3

Curves = Mapping[str, Mapping[int, Sequence[float]]]  # setting to seed to loss of each iteration


def write_language(prefix: Path) -> None:
    """Write documents of a random Markov chain, whose losses fall from 4.2 to 2.3 at the best."""
    rng = np.random.default_rng(7)
    following = rng.dirichlet(np.full(VOCABULARY, 0.1), size=VOCABULARY).cumsum(axis=1)
    with megatron_mmap.Writer(prefix) as writer:
        for _ in range(200):
            token, tokens = 0, []
            for draw in rng.random(1_000):
                token = min(int(np.searchsorted(following[token], draw)), VOCABULARY - 1)
                tokens.append(token)
            writer.add_document(tokens)


def seeds_of(setting: str) -> range:
    """Seeds of all runs of a setting."""
    return range(SEEDS[setting], SEEDS[setting] + RUNS * (1 if setting == "fault" else PAIRS))


def options(setting: str, seed: int, prefix: Path) -> list[str]:
    """The trainer's options."""
    values = {
        **{"device": "cpu", "data-path": prefix, "num-layers": 1, "hidden-size": 32},
        **{"num-attention-heads": 2, "seq-length": LENGTH, "vocab-size": VOCABULARY},
        **{"split": "1,0,0", "train-iters": ITERATIONS, "log-interval": 1, "lr": 5e-3},
        **{"micro-batch-size": MICRO[setting], "global-batch-size": BATCH, "seed": seed},
    }
    return [word for name, value in values.items() for word in (f"--{name}", str(value))]


def measured(python: str) -> Curves:
    """Train every run; the losses that the runner reads from the logs, to a thousandth."""
    system, began = load_system("torch_gpt"), time.monotonic()
    curves: dict[str, dict[int, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        prefix = Path(folder) / "text_document"
        write_language(prefix)
        runs = [
            {
                "argv": options(setting, seed, prefix),
                "log": f"{folder}/{setting}{seed}",
                "fault": "lost_gradients" if setting == "fault" else None,
            }
            for setting in SEEDS
            for seed in seeds_of(setting)
        ]
        program = [python, str(PROJECT / "benchmarks" / "learning_runs.py")]
        subprocess.run(program, input=json.dumps(runs), text=True, check=True, stdout=sys.stderr)
        for setting in SEEDS:
            curves[setting] = {}
            for seed in seeds_of(setting):
                read = system.parse({0: [Path(f"{folder}/{setting}{seed}").read_bytes()]})
                losses = [interval.loss for interval in read.intervals]
                curves[setting][seed] = [round(loss, 3) for loss in losses if loss is not None]
    print(f"{len(runs)} runs in {time.monotonic() - began:.0f} s", file=sys.stderr)
    return curves


def load(path: Path) -> Curves:
    """Stored curves, in thousandths of a nat."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    return {
        setting: {int(seed): [loss / 1000 for loss in losses] for seed, losses in runs.items()}
        for setting, runs in stored.items()
    }


def save(path: Path, curves: Curves) -> None:
    """Store curves, a line each."""
    settings = []
    for setting, runs in curves.items():
        lines = [
            f'"{seed}": [{",".join(str(round(loss * 1000)) for loss in losses)}]'
            for seed, losses in runs.items()
        ]
        settings.append(f'"{setting}": {{\n' + ",\n".join(lines) + "\n}")
    path.write_text("{\n" + ",\n".join(settings) + "\n}\n", encoding="utf-8")


def by_iteration(losses: Sequence[float]) -> Spans:
    """The losses of iterations 1, 2, ..."""
    return {(before, before + 1): loss for before, loss in enumerate(losses)}


def arrivals(curves: Curves, setting: str, pair: int = 0) -> list[Arrival]:
    """Where the runs of a setting in a pair reached the target."""
    seeds = seeds_of(setting)[RUNS * pair : RUNS * (pair + 1)]
    runs = {seed: by_iteration(curves[setting][seed]) for seed in seeds}
    return [arrival(curve, TARGET, BATCH, seed) for seed, curve in runs.items()]


def decisions(curves: Curves) -> tuple[list[Alike], list[Alike]]:
    """Of each pair: the other setting, and the fault, against its reference."""
    references = [arrivals(curves, "reference", pair) for pair in range(PAIRS)]
    fault = arrivals(curves, "fault")
    honest = [learn_alike(arrivals(curves, "other", p), references[p]) for p in range(PAIRS)]
    return honest, [learn_alike(fault, reference) for reference in references]


def main() -> int:
    """Run, decide and print; 1 where honest pairs alarm too often or the fault is not caught."""
    parser = argparse.ArgumentParser(description=__doc__)
    found = sorted(TORCH.glob("*/env/bin/python"))
    parser.add_argument("--python", default=str(found[0]) if found else sys.executable)
    parser.add_argument("--curves", type=Path)
    parser.add_argument("--save", type=Path)
    chosen = parser.parse_args()
    curves = load(chosen.curves) if chosen.curves else measured(chosen.python)
    if chosen.save:
        save(chosen.save, curves)
    honest, faulty = decisions(curves)
    for pair, (one, other) in enumerate(zip(honest, faulty, strict=True)):
        print(f"pair {pair:2}  honest: {one.words:40}  fault: {other.words}")
    alarms = sum(each.verdict != "alike" for each in honest)
    caught = sum(each.verdict == "slower" for each in faulty)
    print(f"honest pairs that alarm: {alarms} of {PAIRS} (at most {MOST_ALARMS})")
    print(f"references against which the fault is caught: {caught} of {PAIRS}")
    return int(alarms > MOST_ALARMS or caught < PAIRS)


if __name__ == "__main__":
    sys.exit(main())
