r"""Where a step of the reference trainer spends its device's time.

    <Python with torch> benchmarks/step_profile.py [--steps 3] [--warm-up 5] [--longest 10] \
        [--trace FILE] OPTIONS OF train.py

On several devices: <Python> -m torch.distributed.run --nproc_per_node 2 benchmarks/step_profile.py
and so on; rank 0's device is shown. Without --data-path random tokens are trained on, which are in
build/step_profile. All else is train.py as it is: this runs its iterations, some before (compiling,
warm-up), some as they are, and some under torch's profiler. It prints the milliseconds of kernels
by category, idle time, the longest kernels, and on CUDA the most memory of both halves of a step.
On a CPU kernels are operators, each without those that it calls; idle is the time between them.
"""

import argparse
import gc
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:0] = [
    *(str(PROJECT / "roles/torch_gpt/files/torch_gpt"), str(PROJECT / "node/dataset")),
    str(PROJECT),
]

import arguments  # type: ignore[import-not-found]  # noqa: E402
import megatron_mmap  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import train  # type: ignore[import-not-found]  # noqa: E402

from benchmarks.device_time import Kernel, report  # noqa: E402

# Of the vocabulary that the dataset declares; Llama has its own. Tokens are in each model's.
VOCABULARY, TOKENS = 50257, 2048
DOCUMENTS, DOCUMENT = 64, 65536
MIB = 1 << 20


def random_tokens(rank: str) -> str:
    """Return the prefix of a dataset of random tokens, a rank's own; write it if it is missing."""
    prefix = PROJECT / "build" / "step_profile" / rank / "text_document"
    if not prefix.with_suffix(".idx").exists():
        prefix.parent.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(0)
        with megatron_mmap.Writer(prefix) as writer:
            for _ in range(DOCUMENTS):
                writer.add_document(rng.integers(0, TOKENS, DOCUMENT).tolist())
        manifest = {"prefix": prefix.name, "vocab_size": VOCABULARY}
        prefix.with_name("dataset.json").write_text(json.dumps(manifest))
    return str(prefix)


def kernels(profile: Any, device: str) -> Iterator[Kernel]:
    """Return what ran on the device: its kernels and copies, or a CPU's operators."""
    for event in profile.events():
        span = event.time_range
        if device == "cpu":
            if event.device_type == torch.autograd.DeviceType.CPU:
                yield Kernel(event.name, span.start, span.end, event.self_cpu_time_total)
        elif event.device_type == torch.autograd.DeviceType.CUDA and not event.is_user_annotation:
            yield Kernel(event.name, span.start, span.end, span.end - span.start)


def peaks_of(optimizer: Any) -> dict[str, float]:
    """Return a dictionary that each step fills: most MiB allocated before the update, and in it."""
    peaks: dict[str, float] = {}

    def peak(name: str) -> None:
        peaks[name] = torch.cuda.max_memory_allocated() / MIB
        torch.cuda.reset_peak_memory_stats()

    torch.cuda.reset_peak_memory_stats()
    optimizer.register_step_pre_hook(lambda *_: peak("forward and backward"))
    optimizer.register_step_post_hook(lambda *_: peak("update"))
    return peaks


def profiled(trainer: Any, chosen: argparse.Namespace) -> None:
    """Take the place of the trainer's loop: warm up, profile, and let rank 0 print."""
    device = trainer.ranks.device
    cuda = device.type == "cuda"
    wait = torch.cuda.synchronize if cuda else lambda: None
    numbers = itertools.count()

    def run(steps: int) -> float:
        wait()
        began = time.perf_counter()
        for _ in range(steps):
            trainer.step(next(numbers))
        wait()
        return 1e6 * (time.perf_counter() - began) / max(1, steps)

    run(chosen.warm_up)
    if trainer.options.gc_interval:  # as the trainer's own loop
        gc.collect()
        gc.disable()
    alone_us = run(chosen.steps)
    peaks = peaks_of(trainer.optimizer) if cuda else {}
    activity = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activity.CUDA if cuda else activity.CPU]) as profile:
        step_us = run(chosen.steps)
    if trainer.ranks.rank:
        return
    found = list(kernels(profile, device.type))
    print(f"step: {alone_us / 1e3:.2f} ms")
    print(report(found, step_us, chosen.steps, chosen.longest))
    for name, most in peaks.items():
        print(f"most memory, {name}: {most:.0f} MiB")
    if chosen.trace:
        profile.export_chrome_trace(chosen.trace)


def main() -> None:
    """Run the trainer with this loop in place of its own."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--steps", type=int, default=3, help="profiled iterations")
    parser.add_argument("--warm-up", type=int, default=5, help="iterations before them")
    parser.add_argument("--longest", type=int, default=10, help="kernels to name")
    parser.add_argument("--trace", help="file for the trace, which chrome://tracing shows")
    chosen, words = parser.parse_known_args()
    if "--data-path" not in words:
        words += ["--data-path", random_tokens(os.environ.get("RANK", "0"))]
    words += ["--train-iters", str(chosen.warm_up + 2 * chosen.steps), "--split", "1,0,0"]
    sys.argv[1:] = words
    options, passes = arguments.parse_or_exit()
    train.Trainer.train = lambda trainer: profiled(trainer, chosen)
    train.main(options, passes)


if __name__ == "__main__":
    main()
