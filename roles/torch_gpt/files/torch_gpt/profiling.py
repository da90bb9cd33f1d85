"""A profiler over some iterations of some ranks: torch's own, or nsys, which runs the trainer."""

from __future__ import annotations

import os
from argparse import Namespace

import torch
from world import Ranks


class Profile:
    """Told of each iteration, from 1; does nothing on a rank that is not traced."""

    def __init__(self, options: Namespace, ranks: Ranks) -> None:
        self.tool = options.profile if ranks.rank in options.profile_ranks else None
        self.first, self.last = options.profile_steps or (0, 0)
        self.path = os.path.join(options.profile_dir, f"rank{ranks.rank}.json.gz")
        self.cuda = ranks.device.type == "cuda"
        self.profiler: torch.profiler.profile | None = None

    def before(self, step: int) -> None:
        """Begin; torch's one iteration early, to warm up."""
        if self.tool == "torch" and step == self.first - 1:
            cuda = [torch.profiler.ProfilerActivity.CUDA] if self.cuda else []
            active = self.last - self.first + 1
            self.profiler = torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CPU, *cuda],
                schedule=torch.profiler.schedule(wait=0, warmup=1, active=active, repeat=1),
                on_trace_ready=self.write,
            )
            self.profiler.start()
        elif self.tool == "nsys" and step == self.first:
            torch.cuda.cudart().cudaProfilerStart()

    def after(self, step: int) -> None:
        """Go on, and end after the last iteration."""
        if self.profiler is not None:
            self.profiler.step()
            if step == self.last:
                self.profiler.stop()
                self.profiler = None
        elif self.tool == "nsys" and step == self.last:
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStop()

    def write(self, profiler: torch.profiler.profile) -> None:
        """Write Chrome's trace format, compressed."""
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        profiler.export_chrome_trace(self.path)
