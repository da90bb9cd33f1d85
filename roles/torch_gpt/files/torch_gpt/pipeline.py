"""A pipeline: each stage has some of the layers, and passes of an iteration follow each other.

The schedule is 1F1B (Narayanan et al. 2019) of torch.distributed.pipelining; a pass of gradient
accumulation is one of its microbatches.  Both ends of the pipeline hold the tied matrix and add up
what each has found for it, as Megatron does.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from model import Decoder
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from world import Ranks


class Schedule:
    """The forward and backward passes of an iteration through this rank's stage."""

    def __init__(self, model: nn.Module, passes: int, ranks: Ranks) -> None:
        assert isinstance(model, Decoder)
        self.model, self.passes, self.ranks = model, passes, ranks
        self.scale = 1.0
        self.ends: dist.ProcessGroup | None = None  # those with a tied matrix
        group = ranks.mesh.get_group("pipeline")
        stage = PipelineStage(model, ranks.stage, ranks.stages, ranks.device, group=group)
        self.schedule = Schedule1F1B(stage, passes, loss_fn=self._loss, scale_grads=False)
        if model.llama:
            return
        # Every rank takes part in making every group.
        ends = ranks.mesh.mesh[[0, -1]].flatten(1).T.tolist()
        groups = [dist.new_group(pair) for pair in ends]
        self.ends = next(
            (g for g, pair in zip(groups, ends, strict=True) if ranks.rank in pair), None
        )

    def _loss(self, x: Tensor, targets: Tensor) -> Tensor:
        return self.model.loss(x, targets) * (self.scale / self.passes)

    def run(self, batches: list[tuple[Tensor, Tensor]], scale: float) -> Tensor:
        """Leave the iteration's gradients, times ``scale``; return its loss, 0 but at the end."""
        self.scale = scale
        tokens, targets = (torch.cat(parts) for parts in zip(*batches, strict=True))
        losses: list[Tensor] = []
        inputs = (tokens,) if self.model.first else ()
        wanted = targets if self.model.last else None
        self.schedule.step(*inputs, target=wanted, losses=losses, return_outputs=False)
        if self.ends is not None:
            dist.all_reduce(self.model.token_embedding.weight.grad, group=self.ends)
        if not losses:
            return torch.zeros((), device=self.ranks.device)
        return torch.stack(losses).sum().detach() / scale
