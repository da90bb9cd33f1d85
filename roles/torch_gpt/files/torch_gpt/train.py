"""torch_gpt: pre-train a GPT-2 or Llama in plain PyTorch, to measure ways to spread it out.

On one machine, for example:

    python3 -m torch.distributed.run --nproc_per_node 2 train.py --data-path data/text_document

On several machines, the same line on each with its own rank, and all with one address and port:

    python3 -m torch.distributed.run --nnodes 4 --node_rank 0 --nproc_per_node 8 \
        --master_addr 10.0.0.1 --master_port 29500 train.py --data-path ... --model gpt-1.3b \
        --zero-stage 3 --precision bf16 --micro-batch-size 8 --global-batch-size 512

A plain ``python3 train.py`` is one rank.  The files, of what can be asked for: arguments.py,
rules.py and shapes.py; of the model: layers.py, gpt2.py, llama.py with windows.py, experts.py,
cross_entropy.py and model.py, which puts them together; of the ways to spread it: tensor_group.py,
context_group.py with partial_attention.py, sharding.py (ZeRO), pipeline.py and by_deepspeed.py (the
other engine); compiling.py (torch.compile, float8, CUDA graphs), expert_load.py (what experts had
to do), data.py (batches), profiling.py (traces), checkpoint.py (saving and going on), world.py
(ranks) and this one (the loop).

Output: global rank 0 prints to stdout; a value never holds a space (an underscore stands for it).

    torch_gpt config world_size=2 ... parameters=1334016 accumulation=1 ...
    torch_gpt start first_step_s=12.3 compile_s=8.1 compiled=4 from_cache=4 compile_cache=warm
        attention=cudnn gradient_reduction=last_pass
    torch_gpt step=10/40 samples_per_s=123.45 step_time_ms=64.81 loss=7.12345 grad_norm=1.234
        lr=3.000e-04 skipped=0 nan=0 memory_allocated_mib=812.3,812.1
        memory_reserved_mib=850.0,850.0 memory_used_mib=900.0,901.0 memory_rss_mib=-,-
    torch_gpt eval samples=16 loss=7.01234
    torch_gpt done steps=40 wall_s=12.3

The ``start`` line comes after the second iteration: what the first took since the process began,
compiling included (0 graphs without --compile; ``warm``: this node's caches had all of them), and
which kernels of attention the second has run, by the names of --attention-backend (``cpu_flash``
is a CPU's), and what --gradient-reduction is from the third on.  A ``step=`` line (lines are broken
here) speaks of the window since the line before; a last window may be shorter.  The device is
waited for at the ends of windows only, and the clock is read once there: what reporting a line
takes is in the next line's window, as with Megatron-LM.

    samples_per_s         samples of all ranks divided by the seconds of the window
    step_time_ms          milliseconds of the window divided by its iterations; the first window
                          contains what the first iteration starts up, but not the set-up before it
    loss                  mean over the ranks and the window, in nats a token; iterations whose loss
                          is not finite are left out, and `nan` stands when none is left
    grad_norm, lr         of the window's last iteration; the norm is that of all gradients of all
                          ranks before clipping; `-` where DeepSpeed does not tell it
    skipped               iterations without an update (fp16: a gradient overflowed)
    nan                   iterations whose loss was not a finite number
    tokens_per_expert     with experts, these four before the memory: the fewest, the mean and the
                          most tokens of an expert in an iteration, means over layers and window
    expert_imbalance      the most divided by the mean, likewise; 1 is balance
    drop_rate             share of the tokens' choices that found an expert full
    aux_loss              the auxiliary loss without its coefficient; 1 is balance, 0: it is off
    memory_allocated_mib  most memory the framework had allocated on the device so far, one value a
                          rank in rank order; `-` on a CPU, which has no such statistics
    memory_reserved_mib   most memory the framework had taken from the device so far; `-` on a CPU
    memory_used_mib       memory in use on the device, by all its processes; `-` on a CPU
    memory_rss_mib        on a CPU the largest resident size of the rank's process so far, else `-`

With --checkpoint-dir it goes on from the newest good checkpoint there, and rank 0 says so, with the
time of day of the first iteration's begin, the seconds since its process began, and what loading
took of them; later, what became of each save: how long training stood still for it, and how long it
took until it was on the disk. Step lines then have `paused_ms`, the time of a window that saves
took, which is not in its step_time_ms.

    torch_gpt resumed step=20 at=1700000000.000 start_s=4.210 load_s=0.120 bytes=16012345
    torch_gpt checkpoint refused=step-00000030 why=__0_0.distcp_has_another_checksum
    torch_gpt checkpoint step=40 stall_s=0.0102 durable_s=0.3100 write_s=0.2900 bytes=16012345
    torch_gpt checkpoint failed=60 why=No_space_left_on_device

Exit status: 0; 2 for wrong arguments, 1 for anything else (torchrun makes every failure 1).  An
expected error is one line ``torch_gpt error: ...`` on stderr that names the cure.
Nothing else is written to disk, except a trace with --profile.
"""

from __future__ import annotations

import time

# Before torch is imported: wall_s includes what a user waits for.
STARTED_AT, STARTED = time.time(), time.monotonic()

import arguments  # noqa: E402

if __name__ == "__main__":  # first: nobody should wait for torch to be told of a typing error
    OPTIONS, ACCUMULATION = arguments.parse_or_exit()

import gc  # noqa: E402
import math  # noqa: E402
import os  # noqa: E402
from argparse import Namespace  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from typing import Any, NoReturn  # noqa: E402

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # torch's profiler talks in the log otherwise
# FSDP's gathered weights leave holes else: 8B, ZeRO 2, bf16: 128,768 MiB of a device, not 125,318.
if "PYTORCH_CUDA_ALLOC_CONF" not in os.environ:  # the name before torch 2.9
    os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")

import by_deepspeed  # noqa: E402
import checkpoint  # noqa: E402
import compiling  # noqa: E402
import data  # noqa: E402
import megatron_mmap  # noqa: E402
import pipeline  # noqa: E402
import profiling  # noqa: E402
import rules  # noqa: E402
import sharding  # noqa: E402
import torch  # noqa: E402
import world  # noqa: E402
from expert_load import ExpertLoad  # noqa: E402
from layers import attention_kernels  # noqa: E402
from model import padded  # noqa: E402
from torch import Tensor  # noqa: E402
from world import Ranks  # noqa: E402

# Options that the line of all options has not: of what is not there.
HIDDEN = {
    True: ("profile", "checkpoint_"),
    False: ("profile", "checkpoint_", "moe_", "expert", "routing", "num_experts"),
}
Batch = tuple[Tensor, Tensor]  # inputs and targets, int64 [samples, seq] each


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


def collects(step: int, options: Namespace) -> bool:
    """Return whether Python's garbage is collected before iteration ``step``, from 1."""
    return bool(options.gc_interval) and (step - 1) % int(options.gc_interval) == 0


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
        self.good = 0

    def overflowed(self, norm: Tensor) -> bool:
        """Adapt to this iteration's norm; true if the update must be left out."""
        if not self.enabled:
            return False  # without asking the device, which would wait for it
        if not math.isfinite(norm.item()):
            self.value, self.good = max(1.0, self.value / 2), 0
            return True
        self.good += 1
        if self.good == self.growth:
            self.value, self.good = self.value * 2, 0
        return False


class Trainer:
    """The training loop and what it measures."""

    def __init__(
        self, options: Namespace, passes: int, ranks: Ranks, samples: data.Samples
    ) -> None:
        self.options, self.passes, self.ranks, self.samples = options, passes, ranks, samples
        self.vocab_size = padded(options.vocab_size)
        self.model, self.parameters = sharding.build(options, self.vocab_size, ranks)
        self.experts = ExpertLoad(self.model, options, passes, ranks)
        self.optimizer = sharding.optimizer_for(self.model, options, ranks)
        self.scale = LossScale(options.precision == "fp16" and options.engine == "torch")
        self.precision = torch.autocast(
            ranks.device.type,
            dtype=sharding.DTYPES[options.precision],
            enabled=options.mixed_precision == "autocast",
            cache_enabled=not options.cuda_graphs,  # a graph has its own copies
        )
        self.forward_backward = self.one_pass
        if options.cuda_graphs:
            # The second iteration runs its kernels, too: which ones of attention is seen then.
            warm_ups = max(compiling.WARM_UPS, 2 * passes)
            self.forward_backward = compiling.Replayed(self.one_pass, warm_ups)
        self.fused = options.adamw == "fused" and options.zero_stage == 0
        self.never = torch.zeros((), device=ranks.device)  # has a gradient overflowed
        self.position = checkpoint.Position(loss_scale=self.scale.value)
        self.batches = self.micro_batches()
        self.ready = next(self.batches)
        self.schedule, self.engine = None, None
        if ranks.stages > 1:
            self.schedule = pipeline.Schedule(self.model, passes, ranks)
        if options.engine == "deepspeed":
            self.engine = by_deepspeed.Engine(self.model, self.optimizer, options, passes)
            self.model = self.engine.module
        self.checkpoints = None
        if options.checkpoint_dir:
            self.checkpoints = checkpoint.Checkpoints(
                options, ranks, self.model, self.optimizer, say
            )

    def batch(self, samples: data.Samples, first: int) -> Batch:
        """Return the rank's micro batch from the ranks' samples ``first`` on."""
        size = self.options.micro_batch_size
        sample = samples.batch(first + self.ranks.data_rank * size, size, self.ranks.device)
        tokens, targets = (self.ranks.context.tokens_of_rank(x, 1) for x in sample)
        return tokens, targets

    def micro_batches(self) -> Iterator[Batch]:
        """Yield the rank's micro batches of all iterations to come, one after the other."""
        every = self.ranks.data_size * self.options.micro_batch_size
        iterations = self.options.train_iters - self.position.iteration
        begin = self.position.samples
        for first in range(begin, begin + iterations * self.options.global_batch_size, every):
            yield self.batch(self.samples, first)

    def read_on(self) -> Batch:
        """Return the micro batch that is ready, and make the next one so."""
        batch, self.ready = self.ready, next(self.batches, self.ready)
        return batch

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of a micro batch."""
        with self.precision:
            loss: Tensor = self.model(tokens, targets)
        return loss

    def one_pass(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Add the gradients of a micro batch to those there are; return its loss."""
        loss = self.loss(tokens, targets)
        (loss * (self.scale.value / self.passes)).backward()  # type: ignore[no-untyped-call]  # torch has not typed it
        return loss.detach()

    def gradients(self) -> Tensor:
        """Accumulate the gradients of an iteration; return its loss here."""
        total = torch.zeros((), device=self.ranks.device)
        for left in reversed(range(self.passes)):
            with sharding.gradients_are_complete(self.model, not left, self.options):
                total += self.forward_backward(*self.ready)
            self.read_on()  # while the device computes: it is not to wait for the next iteration's
        return total / self.passes

    def gradients_of_stage(self, schedule: pipeline.Schedule) -> Tensor:
        """As ``gradients``, of this rank's stage of the pipeline, all passes at once."""
        batches = [self.read_on() for _ in range(self.passes)]
        with self.precision:
            return schedule.run(batches, self.scale.value)

    def step(self, number: int) -> tuple[Tensor, Tensor | None, bool]:
        """Run iteration ``number`` (from 0); return its loss here, its norm, and if it skipped."""
        options = self.options
        self.experts.weigh(self.scale.value, self.passes)
        if self.engine is not None:
            losses = (self.loss(*self.read_on()) for _ in range(self.passes))
            return self.engine.step(losses, learning_rate(number, options))
        if self.schedule is not None:
            total = self.gradients_of_stage(self.schedule)
        else:
            total = self.gradients()
        sharding.complete_gradients(self.model, self.ranks)
        gradients, norm = sharding.gradient_norm(self.model, self.ranks)
        norm = norm / self.scale.value
        factor = torch.ones_like(norm) / self.scale.value
        if options.clip_grad:
            factor = factor * (options.clip_grad / (norm + 1e-6)).clamp(max=1.0)
        skipped = self.scale.overflowed(norm)
        if not skipped:
            if self.fused:  # within AdamW's kernel, which divides
                self.optimizer.grad_scale, self.optimizer.found_inf = 1 / factor, self.never
            elif options.clip_grad or self.scale.enabled:
                torch._foreach_mul_(gradients, factor)  # as clip_grads_with_norm_
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate(number, options)
            self.optimizer.step()
            if options.precision == "fp8" and options.zero_stage >= 2:
                compiling.scale_float8(self.model)
        self.optimizer.zero_grad(set_to_none=not options.cuda_graphs)
        self.experts.end_iteration(self.passes)
        return total, norm, skipped

    def observed_step(self, step: int) -> tuple[Tensor, Tensor | None, bool]:
        """Run iteration ``step``, from 1; after the second, rank 0 says what the start took."""
        first = self.position.iteration + 1
        if step != first + 1:
            result = self.step(step - 1)
            if step == first:
                world.synchronize(self.ranks)
                self.first_step_s = time.monotonic() - STARTED
            return result
        attention = ""
        if self.ranks.rank == 0:
            result, attention = compiling.attention_of(lambda: self.step(step - 1))
        else:
            result = self.step(step - 1)
        sharding.settle_reduction(self.model, self.options, self.ranks)
        if self.ranks.rank == 0:
            took = {"first_step_s": f"{self.first_step_s:.1f}", **compiling.compiled()}
            if attention == "-":
                attention = "math"  # compiled, or a context group's, to its single products
            reduction = self.options.gradient_reduction
            say("start", **took, attention=attention, gradient_reduction=reduction)
        return result

    def resume(self, checkpoints: checkpoint.Checkpoints) -> None:
        """Go on where the newest good checkpoint is, and say where that is."""
        self.position, load_s, size = checkpoints.load()
        if self.position.iteration:
            self.scale.value, self.scale.good = self.position.loss_scale, self.position.good_steps
            if self.options.precision == "fp8" and self.options.zero_stage >= 2:
                compiling.scale_float8(self.model)
            self.batches = self.micro_batches()
            self.ready = next(self.batches, self.ready)
        torch.distributed.barrier()
        if self.ranks.rank == 0:
            now = time.time()
            took = {"start_s": f"{now - STARTED_AT:.3f}", "load_s": f"{load_s:.3f}", "bytes": size}
            say("resumed", step=self.position.iteration, at=f"{now:.3f}", **took)

    def save(self, checkpoints: checkpoint.Checkpoints, step: int) -> float:
        """Save after iteration ``step`` if it is one to save; return the seconds that took."""
        checkpoints.tell()
        every = self.options.checkpoint_interval
        if not every or step % every or step == self.options.train_iters:
            return 0.0
        world.synchronize(self.ranks)
        iterations = step - self.position.iteration
        samples = self.position.samples + iterations * self.options.global_batch_size
        return checkpoints.save(
            checkpoint.Position(step, samples, self.scale.value, self.scale.good)
        )

    def train(self) -> None:
        """Run all iterations, printing a line for each window."""
        options, ranks = self.options, self.ranks
        losses: list[Tensor] = []
        skips = 0
        paused = 0.0  # of the window, seconds that checkpoints took
        if self.checkpoints is not None:
            self.resume(self.checkpoints)
        profile = profiling.Profile(options, ranks)
        torch.distributed.barrier()
        if options.gc_interval:  # else a rank collects now, another then, and all wait for each
            gc.disable()
        began = time.perf_counter()
        for step in range(self.position.iteration + 1, options.train_iters + 1):
            if collects(step, options):
                gc.collect()
            profile.before(step)
            loss, norm, skipped = self.observed_step(step)
            profile.after(step)  # in the iteration's own time, writing included
            losses.append(loss)
            skips += skipped
            if self.checkpoints is not None:
                paused += self.save(self.checkpoints, step)
            if step % options.log_interval and step < options.train_iters:
                continue
            world.synchronize(ranks)
            now = time.perf_counter()
            elapsed, began = now - began - paused, now
            of_steps = world.average(torch.stack(losses), ranks)
            finite = of_steps[of_steps.isfinite()]
            memory, experts = world.memory(ranks), self.experts.line()
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
                    **experts,
                    **memory,
                    **({"paused_ms": f"{1000 * paused:.2f}"} if self.checkpoints else {}),
                )
            losses, skips, paused = [], 0, 0.0
        if self.checkpoints is not None:
            self.checkpoints.settle()

    @torch.no_grad()
    def evaluate(self, samples: data.Samples) -> None:
        """Print the mean loss over ``--eval-iters`` micro batches a rank."""
        count = self.options.micro_batch_size * self.ranks.data_size
        iterations = range(self.options.eval_iters)
        losses = torch.stack([self.loss(*self.batch(samples, i * count)) for i in iterations])
        mean = world.average(losses, self.ranks).mean().item()
        if self.ranks.rank == 0:
            say("eval", samples=count * len(iterations), loss=f"{mean:.5f}")


def settle(options: Namespace, device: torch.device) -> None:
    """Put in what ``auto`` is on this device.

    Raises:
        TrainerError: something was asked for that a CPU does not have.
    """
    cuda = device.type == "cuda"
    for name in ("cuda_graphs", "async_tensor_parallel"):
        if getattr(options, name) and not cuda:
            raise rules.TrainerError(f"--{name.replace('_', '-')} needs CUDA; leave it out")
    if options.compile == "auto":
        options.compile = "block" if cuda and options.engine == "torch" else "none"
    if options.adamw == "auto":
        options.adamw = "fused" if cuda else "foreach"
    measured = cuda and options.zero_stage == 2 and options.engine == "torch"
    if options.gradient_reduction is None and not measured:
        options.gradient_reduction = "each_pass" if options.zero_stage >= 2 else "last_pass"
    if options.moe_grouped_gemm == "auto":
        options.moe_grouped_gemm = "grouped" if cuda and options.precision == "bf16" else "loop"
    alone = options.compile == "none" and options.tensor_parallel == 1
    if alone and options.cross_entropy_chunks is None:
        options.cross_entropy_chunks = 0  # autograd's own kernels are faster one by one


def run(options: Namespace, passes: int, ranks: Ranks) -> None:
    """Load the data, train and evaluate."""
    problem, loaded = None, None
    try:
        loaded = data.load(options, ranks.data_size, verify=ranks.node_first)
    except (rules.TrainerError, megatron_mmap.DatasetError) as error:
        problem = str(error)
    world.agree(ranks, options, problem)
    assert loaded is not None  # or agree() has raised
    train, valid, counts = loaded
    torch.set_float32_matmul_precision("high")  # TF32 on CUDA
    settle(options, ranks.device)
    trainer = Trainer(options, passes, ranks, train)
    if ranks.rank == 0:
        cuda = ranks.device.type == "cuda"
        settings = {
            key: value
            for key, value in vars(options).items()
            if key not in ("device", "llama")
            and not key.startswith(HIDDEN[bool(options.num_experts)])
        }
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
    with attention_kernels(options.attention_backend, ranks.device):
        trainer.train()
        if options.eval_iters:
            trainer.evaluate(valid)


def main(options: Namespace, passes: int) -> NoReturn:
    """Run this rank from start to end."""
    ranks = None
    try:
        ranks = world.start(options)
        run(options, passes, ranks)
        world.finish()
    except Exception as error:
        world.stop(error, ranks)
    if ranks.rank == 0:
        wall_s = time.monotonic() - STARTED
        say("done", steps=options.train_iters, wall_s=f"{wall_s:.1f}")
    world.leave(0)


if __name__ == "__main__":
    main(OPTIONS, ACCUMULATION)
