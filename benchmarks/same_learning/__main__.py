"""Does every fast path of the reference trainer learn what plain PyTorch in fp32 does?

    python -m benchmarks.same_learning [--device cuda|cpu] [--python PYTHON] [--data PREFIX]
        [--model NAME...] [--steps 200] [--seeds 1 2 3] [--paths WORD...] [--faults] [--out FOLDER]

The trainer runs as the reference (fp32, eager, AdamW by foreach, attention by its formula) with
each seed, and along each fast path (paths.py) with the first; on several devices side by side.
What the machine lacks is skipped, with the reason. noise.py says how they are compared.

FOLDER, by default build/same-learning/DEVICE, keeps each run's log: what has ended well is not run
again, so that the same command goes on after an interrupt. It gets table.md, losses.csv and
MODEL.svg. With --faults the paths are wrong on purpose, to see what is caught. Exit status 1: a
path that is not wrong differs or failed.

PYTHON is one with torch, by default that of `make setup`, as is the dataset. `--paths` are those
whose names contain one of the words.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path as File

from benchmarks.same_learning import jobs, noise, plot, table
from benchmarks.same_learning.jobs import PROJECT, Job, Store
from benchmarks.same_learning.paths import FAULTS, MODELS, PATHS, REFERENCE, Machine, Path, argv
from runner.systems.common.registry import load_system

STATE = PROJECT / ".trainbench"


def parsed() -> argparse.Namespace:
    """Read the command line; fill in what depends on the device."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found = sorted((STATE / "systems/torch_gpt").glob("*/env/bin/python"))
    add = parser.add_argument
    add("--device", choices=("cuda", "cpu"), default="cpu")
    add("--python", default=str(found[0]) if found else sys.executable)
    add("--data", default=str(STATE / "datasets/default/default_text_document"))
    add("--model", nargs="+")
    add("--steps", type=int, default=200)
    add("--seeds", type=int, nargs="+", default=[1, 2, 3])
    add("--paths", nargs="+", default=[""])
    add("--faults", action="store_true")
    add("--out", type=File)
    chosen = parser.parse_args()
    if chosen.steps < noise.FEWEST or len(set(chosen.seeds)) < noise.FEWEST_SEEDS:
        parser.error(f"{noise.FEWEST} steps and {noise.FEWEST_SEEDS} seeds are the fewest")
    if not File(f"{chosen.data}.idx").is_file():
        parser.error(f"{chosen.data}.idx is missing; run `make setup`, or name a dataset by --data")
    chosen.data = str(File(chosen.data).absolute())
    chosen.model = chosen.model or MODELS[chosen.device]
    chosen.out = chosen.out or PROJECT / "build/same-learning" / chosen.device
    return chosen


class Check:
    """The runs of a command, and what came of them."""

    def __init__(self, chosen: argparse.Namespace, machine: Machine) -> None:
        self.chosen, self.machine, self.store = chosen, machine, Store(chosen.out)
        among = FAULTS if chosen.faults else PATHS
        self.paths = [path for path in among if any(word in path.name for word in chosen.paths)]

    def job(self, model: str, path: Path, seed: int) -> Job:
        """Return the run of a path."""
        chosen = self.chosen
        return Job(
            "".join(c if c.isalnum() else "-" for c in f"{model}-{path.name}-{seed}"),
            tuple(argv(path, model, chosen.device, chosen.data, chosen.steps, seed)),
            *(path.ranks, path.fault, tuple(path.environ.items())),
        )

    def jobs(self) -> list[Job]:
        """List all runs that this machine can do, references first."""
        seeds, models = self.chosen.seeds, self.chosen.model
        able = [path for path in self.paths if not path.lacks(self.machine)]
        return [
            *(self.job(model, REFERENCE, seed) for model in models for seed in seeds),
            *(self.job(model, path, seeds[0]) for model in models for path in able),
        ]

    def train(self) -> bool:
        """Run what is not there yet, saying what ends; whether nothing stopped it."""
        wanted = self.jobs()
        left = [job for job in wanted if self.store.log(job) is None]
        print(f"{self.machine.title}: {len(left)} of {len(wanted)} runs to do", flush=True)
        ended = jobs.train_all(left, self.store, self.chosen.python, self.machine)
        try:
            for job, well, seconds in ended:
                said = "" if well else f"  failed: {self.store.why_not(job)}"
                print(f"{seconds:6.0f} s  {job.name}{said}", flush=True)
        except KeyboardInterrupt:
            print("interrupted; the same command goes on", file=sys.stderr)
            return False
        return True

    def curves(self, job: Job) -> noise.Curves | None:
        """Read a run's log, if there is one."""
        log = self.store.log(job)
        return noise.curves(load_system("torch_gpt").parse({0: [log]}).intervals) if log else None

    def line(self, model: str, path: Path) -> table.Line:
        """Return a path's curves, or why it is missing."""
        if lacks := path.lacks(self.machine):
            return table.Line(path, None, f"skipped: {lacks}")
        job = self.job(model, path, self.chosen.seeds[0])
        failed = self.store.why_not(job)
        return table.Line(path, self.curves(job), f"failed: {failed}" if failed else "not run")

    def models(self) -> list[table.Model]:
        """Return what is there to compare: models whose references all are."""
        made, seeds = [], self.chosen.seeds
        for model in self.chosen.model:
            references = [self.curves(self.job(model, REFERENCE, seed)) for seed in seeds]
            there = [each for each in references if each]
            if len(there) == len(references):
                lines = [self.line(model, path) for path in self.paths]
                made.append(table.Model(model, seeds, there, lines))
            else:
                print(f"{model}: not compared, runs of the reference are missing", file=sys.stderr)
        return made


def write(check: Check, models: Sequence[table.Model]) -> None:
    """Write and print the table; write losses and plots."""
    out = check.chosen.out
    title = f"{check.machine.title}, {check.chosen.steps} iterations"
    parts = [f"## {model.name} ({title})\n\n{model.markdown()}\n" for model in models]
    (out / "table.md").write_text("\n".join(parts), encoding="utf-8")
    (out / "losses.csv").write_text(table.csv(models), encoding="utf-8")
    for model in models:
        (out / f"{model.name}.svg").write_text(plot.svg(model), encoding="utf-8")
    print("\n" + "\n".join(parts))
    print(f"{out}: table.md, losses.csv, {', '.join(f'{model.name}.svg' for model in models)}")


def main() -> int:
    """Run, compare, write."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen = parsed()
    check = Check(chosen, jobs.look(chosen.python, chosen.device))
    whole = check.train()
    models = check.models()
    write(check, models)
    held = [(m, line) for m in models for line in m.lines if not line.path.wrong]
    wrong = any(m.differs(line) or line.why_not.startswith("failed") for m, line in held)
    return int(wrong or len(models) < len(chosen.model)) if whole else 130


if __name__ == "__main__":
    sys.exit(main())
