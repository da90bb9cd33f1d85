"""torch_gpt: pre-train a GPT-2 in plain PyTorch, to measure ways to spread it over devices.

On one machine, for example:

    python3 -m torch.distributed.run --nproc_per_node 2 train.py --data-path data/text_document

On several machines, the same line on each with its own rank, and all with one address and port:

    python3 -m torch.distributed.run --nnodes 4 --node_rank 0 --nproc_per_node 8 \
        --master_addr 10.0.0.1 --master_port 29500 train.py --data-path ... --model gpt-1.3b \
        --zero-stage 3 --precision bf16 --micro-batch-size 8 --global-batch-size 512

A plain ``python3 train.py`` is one rank.  The files to read: arguments.py (what can be asked for),
model.py (GPT-2), data.py (batches), parallel.py (ZeRO stages, tensor parallelism), pipeline.py
(stages of layers), by_deepspeed.py (the other engine) and this one (the loop).

Output: global rank 0 prints to stdout; a value never holds a space (an underscore stands for it).

    torch_gpt config world_size=2 ... parameters=1334016 accumulation=1 ...
    torch_gpt step=10/40 samples_per_s=123.45 step_time_ms=64.81 loss=7.12345 grad_norm=1.234
        lr=3.000e-04 skipped=0 nan=0 memory_allocated_mib=812.3,812.1 memory_used_mib=900.0,901.0
    torch_gpt eval samples=16 loss=7.01234
    torch_gpt done steps=40 wall_s=12.3

A ``step=`` line (one line, broken here) speaks of the window since the line before; a last window
may be shorter.  The device is waited for at the ends of windows only.

    samples_per_s         samples of all ranks divided by the seconds of the window
    step_time_ms          milliseconds of the window divided by its iterations; the first window
                          contains what the first iteration starts up, but not the set-up before it
    loss                  mean over the ranks and the window, in nats a token; iterations whose loss
                          is not finite are left out, and `nan` stands when none is left
    grad_norm, lr         of the window's last iteration; the norm is that of all gradients of all
                          ranks before clipping; `-` where DeepSpeed does not tell it
    skipped               iterations without an update (fp16: a gradient overflowed)
    nan                   iterations whose loss was not a finite number
    memory_allocated_mib  most memory the framework had allocated on the device so far, one value a
                          rank in rank order; `-` on a CPU, which has no such statistics
    memory_used_mib       memory in use on the device, by all its processes; on a CPU the largest
                          resident size of the rank's process so far

Exit status: 0; 2 for wrong arguments, 1 for anything else (torchrun makes every failure 1).  An
expected error is one line ``torch_gpt error: ...`` on stderr that names the cure.
Nothing is written to disk: a benchmark that saves checkpoints would measure the disk.
"""

from __future__ import annotations

import time

STARTED = time.monotonic()  # before torch is imported: wall_s includes what a user waits for

import arguments  # noqa: E402

if __name__ == "__main__":  # first: nobody should wait for torch to be told of a typing error
    OPTIONS, ACCUMULATION = arguments.parse_or_exit()

import math  # noqa: E402
from argparse import Namespace  # noqa: E402
from typing import Any, NoReturn  # noqa: E402

import by_deepspeed  # noqa: E402
import data  # noqa: E402
import megatron_mmap  # noqa: E402
import parallel  # noqa: E402
import pipeline  # noqa: E402
import torch  # noqa: E402
from model import padded  # noqa: E402
from torch import Tensor  # noqa: E402


def say(kind: str, **values: Any) -> None:
    """Print one line of ``key=value`` words."""
    words = (f"{key}={str(value).replace(' ', '_')}" for key, value in values.items())
    print("torch_gpt", *([kind] if kind else []), *words, flush=True)


def learning_rate(step: int, options: Namespace) -> float:
    """Return the rate of iteration ``step`` (from 0): linear warm-up, then cosine to a tenth."""
    if step < options.lr_warmup_iters:
        return float(options.lr * (step + 1) / options.lr_warmup_iters)
    span = max(1, options.train_iters - options.lr_warmup_iters)
    cosine = 0.5 * (1 + math.cos(math.pi * (step - options.lr_warmup_iters) / span))
    return float(options.lr * (0.1 + 0.9 * cosine))


class LossScale:
    """The factor that keeps fp16 gradients in range (Micikevicius et al. 2018, section 3.2).

    It is halved when a gradient overflows, and doubled after ``growth`` updates without one.  Every
    rank sees the same norm, so all ranks decide alike; torch's GradScaler would have to be told of
    each stage's way to share gradients out.
    """

    growth = 1000

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self.value = 2.0**16 if enabled else 1.0
        self._good = 0

    def overflowed(self, norm: Tensor) -> bool:
        """Adapt to this iteration's norm; true if the update must be left out."""
        if not self.enabled:
            return False  # without asking the device, which would wait for it
        if not math.isfinite(norm.item()):
            self.value, self._good = max(1.0, self.value / 2), 0
            return True
        self._good += 1
        if self._good == self.growth:
            self.value, self._good = self.value * 2, 0
        return False


class Trainer:
    """The training loop and what it measures."""

    def __init__(
        self, options: Namespace, passes: int, ranks: parallel.Ranks, samples: data.Samples
    ) -> None:
        self.options, self.passes, self.ranks, self.samples = options, passes, ranks, samples
        self.vocab_size = padded(options.vocab_size)
        self.model, self.parameters = parallel.build(options, self.vocab_size, ranks)
        self.optimizer = parallel.optimizer_for(self.model, options, ranks)
        self.scale = LossScale(options.precision == "fp16" and options.engine == "torch")
        self.precision = torch.autocast(
            ranks.device.type,
            dtype=parallel.DTYPES[options.precision],
            enabled=options.precision != "fp32" and options.engine == "torch",
        )
        self.schedule, self.engine = None, None
        if ranks.stages > 1:
            self.schedule = pipeline.Schedule(self.model, passes, ranks)
        if options.engine == "deepspeed":
            self.engine = by_deepspeed.Engine(self.model, self.optimizer, options, passes)
            self.model = self.engine.module

    def loss(self, samples: data.Samples, first: int) -> Tensor:
        """Return the loss of the rank's micro batch from the ranks' samples ``first`` on."""
        size = self.options.micro_batch_size
        batch = samples.batch(first + self.ranks.data_rank * size, size, self.ranks.device)
        with self.precision:
            loss: Tensor = self.model(*batch)
        return loss

    def firsts(self, number: int) -> list[int]:
        """Return the first sample, of all ranks, of each pass of iteration ``number``."""
        first = number * self.options.global_batch_size
        samples = self.ranks.data_size * self.options.micro_batch_size
        return [first + accumulated * samples for accumulated in range(self.passes)]

    def gradients(self, number: int) -> Tensor:
        """Accumulate the gradients of iteration ``number``; return its loss here."""
        total = torch.zeros((), device=self.ranks.device)
        for first in self.firsts(number):
            last = first == self.firsts(number)[-1]
            with parallel.gradients_are_complete(self.model, last, self.options.zero_stage):
                loss = self.loss(self.samples, first) / self.passes
                (loss * self.scale.value).backward()  # type: ignore[no-untyped-call]  # torch has not typed it
            total += loss.detach()
        return total

    def gradients_of_stage(self, number: int, schedule: pipeline.Schedule) -> Tensor:
        """As ``gradients``, of this rank's stage of the pipeline, all passes at once."""
        size, ranks = self.options.micro_batch_size, self.ranks
        batches = [
            self.samples.batch(first + ranks.data_rank * size, size, ranks.device)
            for first in self.firsts(number)
        ]
        with self.precision:
            return schedule.run(batches, self.scale.value)

    def step(self, number: int) -> tuple[Tensor, Tensor | None, bool]:
        """Run iteration ``number`` (from 0); return its loss here, its norm, and if it skipped."""
        options = self.options
        if self.engine is not None:
            losses = (self.loss(self.samples, first) for first in self.firsts(number))
            return self.engine.step(losses, learning_rate(number, options))
        if self.schedule is not None:
            total = self.gradients_of_stage(number, self.schedule)
        else:
            total = self.gradients(number)
        parallel.average_gradients(self.model, self.ranks)
        gradients, norm = parallel.gradient_norm(self.model, self.ranks)
        norm = norm / self.scale.value
        factor = torch.ones_like(norm) / self.scale.value
        if options.clip_grad:
            factor = factor * (options.clip_grad / (norm + 1e-6)).clamp(max=1.0)
        skipped = self.scale.overflowed(norm)
        if not skipped:
            if options.clip_grad or self.scale.enabled:
                for some in gradients:  # as torch.nn.utils.clip_grads_with_norm_
                    torch._foreach_mul_(some, factor)
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate(number, options)
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return total, norm, skipped

    def train(self) -> None:
        """Run all iterations, printing a line for each window."""
        options, ranks = self.options, self.ranks
        losses: list[Tensor] = []
        skips = 0
        torch.distributed.barrier()
        began = time.perf_counter()
        for step in range(1, options.train_iters + 1):
            loss, norm, skipped = self.step(step - 1)
            losses.append(loss)
            skips += skipped
            if step % options.log_interval and step < options.train_iters:
                continue
            parallel.synchronize(ranks)
            elapsed = time.perf_counter() - began
            of_steps = parallel.average(torch.stack(losses), ranks)
            finite = of_steps[of_steps.isfinite()]
            allocated, used = parallel.memory(ranks)
            if ranks.rank == 0:
                say(
                    "",
                    step=f"{step}/{options.train_iters}",
                    samples_per_s=f"{options.global_batch_size * len(losses) / elapsed:.2f}",
                    step_time_ms=f"{1000 * elapsed / len(losses):.2f}",
                    loss=f"{finite.mean().item():.5f}",
                    grad_norm="-" if norm is None else f"{norm.item():.3f}",
                    lr=f"{learning_rate(step - 1, options):.3e}",
                    skipped=skips,
                    nan=len(losses) - len(finite),
                    memory_allocated_mib=allocated,
                    memory_used_mib=used,
                )
            losses, skips = [], 0
            began = time.perf_counter()

    @torch.no_grad()
    def evaluate(self, samples: data.Samples) -> None:
        """Print the mean loss over ``--eval-iters`` micro batches a rank."""
        count = self.options.micro_batch_size * self.ranks.data_size
        iterations = range(self.options.eval_iters)
        losses = torch.stack([self.loss(samples, i * count) for i in iterations])
        mean = parallel.average(losses, self.ranks).mean().item()
        if self.ranks.rank == 0:
            say("eval", samples=count * len(iterations), loss=f"{mean:.5f}")


def run(options: Namespace, passes: int, ranks: parallel.Ranks) -> None:
    """Load the data, train and evaluate."""
    problem, loaded = None, None
    try:
        loaded = data.load(options, ranks.data_size, verify=ranks.node_first)
    except (arguments.TrainerError, megatron_mmap.DatasetError) as error:
        problem = str(error)
    parallel.agree(ranks, options, problem)
    assert loaded is not None  # or agree() has raised
    train, valid, counts = loaded
    torch.set_float32_matmul_precision("high")  # TF32 on CUDA
    trainer = Trainer(options, passes, ranks, train)
    if ranks.rank == 0:
        cuda = ranks.device.type == "cuda"
        settings = {key: value for key, value in vars(options).items() if key != "device"}
        facts = {
            "world_size": ranks.size,
            "nodes": ranks.nodes,
            "data_parallel_size": ranks.data_size,
            "backend": ranks.backend,
            "device": torch.cuda.get_device_name() if cuda else "cpu",
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "parameters": trainer.parameters,
            "padded_vocab_size": trainer.vocab_size,
            "accumulation": passes,
        }
        say("config", **facts, **settings, **counts)
    trainer.train()
    if options.eval_iters:
        trainer.evaluate(valid)


def main(options: Namespace, passes: int) -> NoReturn:
    """Run this rank from start to end."""
    ranks = None
    try:
        ranks = parallel.start(options)
        run(options, passes, ranks)
        parallel.finish()
    except Exception as error:
        parallel.stop(error, ranks)
    if ranks.rank == 0:
        wall_s = time.monotonic() - STARTED
        say("done", steps=options.train_iters, wall_s=f"{wall_s:.1f}")
    parallel.leave(0)


if __name__ == "__main__":
    main(OPTIONS, ACCUMULATION)
