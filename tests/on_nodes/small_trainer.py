"""A trainer of a few lines in a git repository, whose commits `ci` and `bisect` compare."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.runner.versions.pretended import git

LOOP = """import time
def work(count):
    x = 1
    for _ in range(count):
        x = x * 1103515245 & 0x7FFFFFFF
for step in range(1, STEPS + 1):
    began = time.process_time()
    work(COUNT)
    took = (time.process_time() - began) * 1000
    print(f"step {step}/STEPS | loss {1 / step:.4f} | dt: {took:.5f}ms", flush=True)
"""

WAITING = """import random
import time
step_s = MILLISECONDS / 1000 * random.gauss(1, NOISE)
for step in range(1, STEPS + 1):
    began = time.perf_counter()
    time.sleep(step_s)
    took = (time.perf_counter() - began) * 1000
    print(f"step {step}/STEPS | loss {1 / step:.4f} | dt: {took:.5f}ms", flush=True)
"""


def loop(count: int, *, steps: int) -> str:
    """The program of a trainer whose step does `count` products, timed on the processor."""
    return LOOP.replace("COUNT", str(count)).replace("STEPS", str(steps))


def waiting(milliseconds: float, *, noise: float, steps: int) -> str:
    """The program of a trainer whose steps wait that long, as for a device.

    All steps of a run are longer or shorter by one factor, with a standard deviation of `noise`.
    """
    program = WAITING.replace("MILLISECONDS", str(milliseconds)).replace("STEPS", str(steps))
    return program.replace("NOISE", str(noise))


def matrix(pin: Mapping[str, Any], argv: list[str], warmup_iters: int) -> dict[str, Any]:
    """A matrix of one cell, which logs as LOOP does; the repository is its pin's source."""
    return {
        "name": "perf",
        "pins": {"trainer": dict(pin)},
        "defaults": {
            "system": "command",
            "pin": "trainer",
            "devices_per_node": 1,
            "argv": argv,
            "log": {
                "step": r"step (\d+)/(\d+)",
                "loss": r"loss (\S+)",
                "step_time": {"pattern": r"dt: ([\d.]+)ms", "unit": "ms"},
            },
            "samples_per_step": 8,
        },
        "warmup_iters": warmup_iters,
    }


def new_repository(folder: Path, content: Mapping[str, Any]) -> None:
    """Begin a repository with its matrix, perf.yaml, in the first commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "perf.yaml").write_text(yaml.safe_dump(dict(content)))


def commit(folder: Path, number: int, files: Mapping[str, str]) -> None:
    """Commit these files as `change NUMBER`."""
    for name, text in files.items():
        (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", f"change {number}")


def commits_of(folder: Path) -> list[str]:
    """The digits of all commits, oldest first."""
    return git(folder, "rev-list", "--reverse", "main").split()


def variables(root: str) -> dict[str, Any]:
    """An inventory's variables for a node that has versions of this trainer, and nothing else."""
    return {
        "cluster_root": root,
        "cluster_systems": [],
        "cluster_devices_per_node": 1,
        "dataset_names": [],
        "setup_privileged": False,
    }
