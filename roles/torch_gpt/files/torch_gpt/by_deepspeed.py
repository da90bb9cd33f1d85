"""DeepSpeed instead of PyTorch's own means: its ZeRO stages, accumulation, clipping and precision.

The model, the optimizer (AdamW) and the order of samples are the same, so that losses agree.
DeepSpeed is imported only when asked for; on a CPU its first start compiles an operator, which
takes a compiler and a minute.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterable
from typing import Any

import torch
from rules import TrainerError
from torch import Tensor, nn


def configuration(options: Namespace, passes: int) -> dict[str, Any]:
    """Return DeepSpeed's ds_config. Pure."""
    return {
        "train_micro_batch_size_per_gpu": options.micro_batch_size,
        "gradient_accumulation_steps": passes,
        "train_batch_size": options.global_batch_size,
        "zero_optimization": {"stage": options.zero_stage},
        "gradient_clipping": options.clip_grad,
        "bf16": {"enabled": options.precision == "bf16"},
        "fp16": {"enabled": options.precision == "fp16"},  # its loss scale is dynamic by default
        "steps_per_print": options.train_iters + 1,  # never: train.py prints
    }


class Engine:
    """A DeepSpeed engine around the model, which every rank has whole at first, at every stage."""

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, options: Namespace, passes: int
    ) -> None:
        if options.device == "cpu" or not torch.cuda.is_available():
            os.environ["DS_ACCELERATOR"] = "cpu"
        try:
            import deepspeed
        except ImportError as error:
            raise TrainerError(
                f"--engine deepspeed needs DeepSpeed in this environment ({error}); take the pin "
                "set deepspeed-0.19, or --engine torch"
            ) from error
        if options.zero_stage == 3:  # used by the output too, outside of its own module
            output = model.output or model.token_embedding
            deepspeed.zero.register_external_parameter(model, output.weight)
        for group in optimizer.param_groups:
            group["lr"] = 0.0  # `step` sets it
        self.module, *_ = deepspeed.initialize(
            model=model, optimizer=optimizer, config=configuration(options, passes)
        )
        # At stage 0 in half precision it has stepped once, on gradients of zero (DeepSpeed 0.19.8,
        # runtime/fp16/unfused_optimizer.py:425): AdamW would go on with its second step.
        optimizer.state.clear()

    def step(self, losses: Iterable[Tensor], rate: float) -> tuple[Tensor, Tensor | None, bool]:
        """Train on the passes' losses; return their mean, the gradients' norm, if it skipped."""
        engine = self.module
        kept = []
        for group in engine.optimizer.param_groups:
            group["lr"] = rate
        for loss in losses:
            engine.backward(loss)  # divides by the passes itself
            engine.step()  # updates after the last of them
            kept.append(loss.detach().float())
        norm = engine.get_global_grad_norm()
        known = None if norm is None else torch.as_tensor(float(norm))
        return torch.stack(kept).mean(), known, not engine.was_step_applied()
