"""Many short runs of the reference trainer, each in a fork of one process that has torch.

    <Python with torch> benchmarks/learning_runs.py < RUNS      (benchmarks/learning.py starts it)

RUNS is a JSON list of {"argv", "log", "fault"}: the trainer's options, the file that takes what it
prints, and whether a fault is planted: the gradients of all passes of an iteration but the last are
lost, as where they are set to zero inside the loop of accumulation and not after it. The loss that
is logged stays right, and each iteration takes as long: neither tells.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PROJECT / "roles/torch_gpt/files/torch_gpt"), str(PROJECT / "node/dataset")]

import arguments  # type: ignore[import-not-found]  # noqa: E402
import torch  # noqa: E402
import train  # type: ignore[import-not-found]  # noqa: E402


def lose_gradients(trainer: Any) -> None:
    """Plant the fault: before each pass the gradients so far are set to zero."""
    honest = trainer.loss

    def loss(self: Any, samples: Any, first: int) -> Any:
        self.optimizer.zero_grad(set_to_none=False)
        return honest(self, samples, first)

    trainer.loss = loss


def train_in_fork(run: dict[str, Any]) -> None:
    """Train in a process of its own, which the trainer ends; raise SystemExit where it failed."""
    child = os.fork()
    if not child:
        log = os.open(run["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        if run["fault"]:
            lose_gradients(train.Trainer)
        options = arguments.parse(run["argv"])
        train.main(options, arguments.accumulation(options, 1))
    _, status = os.waitpid(child, 0)
    if status:
        raise SystemExit(f"a run failed: {Path(run['log']).read_text()[-2000:]}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for each in json.load(sys.stdin):
        train_in_fork(each)
        print(each["log"], flush=True)
