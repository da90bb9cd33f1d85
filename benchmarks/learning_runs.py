"""Many short runs of the reference trainer, each in a fork of one process that has torch.

    <Python with torch> benchmarks/learning_runs.py < RUNS      (benchmarks/learning.py starts it)

RUNS is a JSON list of {"argv", "log", "fault"}: the trainer's options, the file that takes what it
prints (null: standard output), and the name of a fault of FAULTS that is planted in it, or null.
The loss that is logged stays right, and each iteration takes as long: neither tells.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PROJECT / "roles/torch_gpt/files/torch_gpt"), str(PROJECT / "node/dataset")]

import arguments  # type: ignore[import-not-found]  # noqa: E402
import torch  # noqa: E402
import train  # type: ignore[import-not-found]  # noqa: E402
from torch.nn import functional  # noqa: E402


def around(name: str, change: Callable[..., Any]) -> None:
    """Have `change(honest, trainer, *arguments)` stand for a method of the trainer."""
    honest = getattr(train.Trainer, name)
    setattr(train.Trainer, name, lambda self, *arguments: change(honest, self, *arguments))


def lost_gradients() -> None:
    """Set the gradients so far to zero before each pass, and not after the update."""

    def change(honest: Any, trainer: Any, *batch: Any) -> Any:
        trainer.optimizer.zero_grad(set_to_none=False)
        return honest(trainer, *batch)

    around("one_pass", change)


def scaled_gradients() -> None:
    """Take nine tenths of every gradient, as where a mean is taken over too many."""

    def change(honest: Any, trainer: Any, *batch: Any) -> Any:
        loss = honest(trainer, *batch)
        return 0.9 * loss + 0.1 * loss.detach()

    around("loss", change)


def repeated_samples() -> None:
    """Train every pass of an iteration on the first one's samples, as ranks that read alike do."""

    def change(honest: Any, trainer: Any, samples: Any, first: int) -> Any:
        return honest(trainer, samples, first - first % trainer.options.global_batch_size)

    around("batch", change)


def late_samples() -> None:
    """Train on the iteration's samples before, as a CUDA graph does that is not given new ones."""

    def change(honest: Any, trainer: Any, samples: Any, first: int) -> Any:
        return honest(trainer, samples, max(0, first - trainer.options.global_batch_size))

    around("batch", change)


def lost_mask() -> None:
    """Let each position see the ones after it."""
    honest = functional.scaled_dot_product_attention

    def attention(*tensors: Any, **options: Any) -> Any:
        return honest(*tensors, **{**options, "is_causal": False})

    functional.scaled_dot_product_attention = attention


def lost_tokens() -> None:
    """Lose the logits' gradients of an eighth of the tokens, as of the last chunk's."""
    honest = functional.cross_entropy

    def cross_entropy(logits: Any, *rest: Any, **options: Any) -> Any:
        kept = len(logits) - len(logits) // 8
        parts = torch.cat([logits[:kept], logits[kept:].detach()])
        return honest(parts, *rest, **options)

    functional.cross_entropy = cross_entropy


def around_optimizer(change: Callable[[Any], None]) -> None:
    """Have `change` see each AdamW that is made."""
    honest = torch.optim.AdamW.__init__

    def made(self: Any, *arguments: Any, **options: Any) -> None:
        honest(self, *arguments, **options)
        change(self)

    torch.optim.AdamW.__init__ = made


def higher_rate() -> None:
    """Learn at a rate a tenth higher."""
    honest = train.learning_rate
    train.learning_rate = lambda *arguments: 1.1 * honest(*arguments)


def decay_of_all() -> None:
    """Let the gains of norms and the biases decay, too."""

    def change(optimizer: Any) -> None:
        for group in optimizer.param_groups:
            group["weight_decay"] = max(each["weight_decay"] for each in optimizer.param_groups)

    around_optimizer(change)


def other_beta() -> None:
    """Average squares of gradients over 1,000 iterations, and not over 20."""

    def change(optimizer: Any) -> None:
        for group in optimizer.param_groups:
            group["betas"] = (group["betas"][0], 0.999)

    around_optimizer(change)


def doubled_biases() -> None:
    """Double the gradients of half of every bias, as of one of two tensor-parallel ranks."""

    def double(gradient: Any) -> Any:
        half = len(gradient) // 2
        return torch.cat([gradient[:half], 2 * gradient[half:]])

    def change(optimizer: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.dim() == 1:
                    parameter.register_hook(double)

    around_optimizer(change)


def no_masters() -> None:
    """Keep weights in bfloat16 alone: of a small update nothing is left."""

    def rounded(optimizer: Any, *_: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.data.copy_(parameter.data.bfloat16())

    around_optimizer(lambda optimizer: optimizer.register_step_post_hook(rounded))


FAULTS: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (
        *(lost_gradients, scaled_gradients, repeated_samples, late_samples, lost_mask, lost_tokens),
        *(higher_rate, decay_of_all, other_beta, doubled_biases, no_masters),
    )
}


def train_in_fork(run: dict[str, Any]) -> None:
    """Train in a process of its own, which the trainer ends; raise SystemExit where it failed."""
    child = os.fork()
    if not child:
        if run["log"]:
            log = os.open(run["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(log, 1)
            os.dup2(log, 2)
        if run["fault"]:
            FAULTS[run["fault"]]()
        options = arguments.parse(run["argv"])
        train.main(options, arguments.accumulation(options, 1))
    _, status = os.waitpid(child, 0)
    if status:
        said = Path(run["log"]).read_text()[-2000:] if run["log"] else "see above"
        raise SystemExit(f"a run failed: {said}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for each in json.load(sys.stdin):
        train_in_fork(each)
        print(each["log"], flush=True)
