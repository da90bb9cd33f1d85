"""How fast a device multiplies in each shape of a model, attends, and copies.

    <Python with torch> benchmarks/products.py --model gpt2-medium --micro-batch-size 32 --save FILE

Prints TFLOP/s of the forward product (with its bias in the same kernel, where it has one), of the
gradients by inputs and by weights, of all three in fp8 (tensorwise, without the casts, where the
device has it), of attention by each kernel, and GB/s of a large copy. `--save` is what
`python -m benchmarks.roofline --rates FILE` takes: a floor of rates that this device reaches in the
model's own shapes. Each is measured for `--seconds` after one call; the whole takes under a minute.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PROJECT / "roles/torch_gpt/files/torch_gpt"), str(PROJECT)]

import torch  # noqa: E402
from context_group import ContextGroup  # type: ignore[import-not-found]  # noqa: E402
from layers import BACKENDS, attend  # type: ignore[import-not-found]  # noqa: E402
from shapes import MODELS  # type: ignore[import-not-found]  # noqa: E402
from torch.nn.attention import sdpa_kernel  # noqa: E402

from benchmarks.training_step import Step  # noqa: E402
from runner.figures.flops import Decoder  # noqa: E402

GPT2_VOCABULARY = 50257


def step_of(name: str, micro_batch_size: int, seq_length: int | None) -> Step:
    """Return the step of a model of the trainer's."""
    shape = MODELS[name]
    model = Decoder(
        shape.num_layers,
        shape.hidden_size,
        shape.num_attention_heads,
        seq_length or shape.seq_length,
        shape.vocab_size or GPT2_VOCABULARY,
        ffn_hidden_size=shape.ffn_hidden_size,
        num_query_groups=shape.num_query_groups,
        gated=shape.llama,
    )
    return Step(model, micro_batch_size)


class Measured(NamedTuple):
    """A product or attention, of one layer."""

    name: str
    seconds: float
    flops: float


class Clock:
    """Seconds of a call on a device, the mean of as many as fill the time."""

    def __init__(self, device: torch.device, seconds: float) -> None:
        self.device, self.seconds = device, seconds

    def wait(self) -> None:
        """Wait for the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def __call__(self, call: Callable[[], Any]) -> float:
        """Return it of `call`; the first call, which may choose a kernel, is left out."""
        call()
        self.wait()
        began, calls, some = time.perf_counter(), 0, 1
        while not calls or time.perf_counter() - began < self.seconds:
            for _ in range(some):
                call()
            self.wait()
            calls, some = calls + some, min(2 * some, 64)
        return (time.perf_counter() - began) / calls


def in_fp8(m: int, n: int, k: int, device: torch.device) -> Callable[[], Any]:
    """Return a product of [m, k] by [k, n] in float8, each scaled as a whole."""
    one = torch.ones((), device=device)
    first, second = (torch.randn(rows, k, device=device).to(torch.float8_e4m3fn) for rows in (m, n))
    made = {"out_dtype": torch.bfloat16, "use_fast_accum": True}
    return partial(torch._scaled_mm, first, second.t(), one, one, **made)


def products(step: Step, device: torch.device, clock: Clock) -> Iterator[Measured]:
    """Yield those of a layer and of the output layer, each forward and for both gradients."""
    fp8 = device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 9)
    for name, (k, n, _) in step.products.items():
        tokens, flops = step.tokens, 2.0 * step.tokens * k * n
        x, weight, gradient, bias = (
            torch.randn(size, device=device, dtype=torch.bfloat16)
            for size in ((tokens, k), (n, k), (tokens, n), (n,))
        )
        forward = partial(torch.mm, x, weight.t())
        if name in ("qkv", "mlp_in") and not step.model.gated:
            forward = partial(torch.addmm, bias, x, weight.t())
        by_input, by_weight = (
            partial(torch.mm, gradient, weight),
            partial(torch.mm, gradient.t(), x),
        )
        seconds = [clock(call) for call in (forward, by_input, by_weight)]
        directions = ("forward", "by inputs", "by weights")
        for direction, took in zip(directions, seconds, strict=True):
            yield Measured(f"{name}: {direction}", took, flops)
        yield Measured(f"{name}: gradients", sum(seconds[1:]), 2 * flops)
        sizes = ((tokens, n, k), (tokens, k, n), (n, k, tokens)) if fp8 else ()
        for direction, size in zip(directions, sizes, strict=False):
            took = clock(in_fp8(*size, device))
            yield Measured(f"{name}: {direction}, fp8", took, flops)


def attention(step: Step, device: torch.device, clock: Clock) -> Iterator[Measured]:
    """Yield the same of attention by each kernel that this device has, forward and backward."""
    query, both, _ = step.widths
    model = step.model
    head = query // model.num_attention_heads
    sizes = (step.micro_batch_size, model.seq_length)
    forward, backward = (part.flops / model.num_layers for part in step.attention())
    inputs = [
        torch.randn(*sizes, width // head, head, device=device, dtype=torch.bfloat16)
        for width in (query, both // 2, both // 2)
    ]
    inputs = [each.requires_grad_() for each in inputs]
    for backend in ("cudnn", "flash") if device.type == "cuda" else ("flash",):
        with sdpa_kernel(BACKENDS[backend]):
            y = attend(*inputs, ContextGroup())
            gradient = torch.randn_like(y)
            took = clock(partial(attend, *inputs, ContextGroup()))
            yield Measured(f"attention: forward, {backend}", took, forward)
            took = clock(partial(torch.autograd.grad, y, inputs, gradient, retain_graph=True))
            yield Measured(f"attention: backward, {backend}", took, backward)


def best(measured: dict[str, float]) -> dict[str, float]:
    """Return TFLOP/s by the names of a step's parts: of attention, by the faster kernel."""
    parts = {
        name: rate for name, rate in measured.items() if name.endswith(("forward", "gradients"))
    }
    for direction in ("attention: forward", "attention: backward"):
        found = [rate for name, rate in measured.items() if name.startswith(direction + ",")]
        parts |= {direction: max(found)} if found else {}
    return parts


def main(argv: list[str] | None = None) -> int:
    """Measure and print; save what the roofline takes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--micro-batch-size", type=int, default=8)
    parser.add_argument("--seq-length", type=int, help="tokens per sample; default: the model's")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each measurement")
    parser.add_argument("--copy-mib", type=int, default=4096, help="size of the copy")
    parser.add_argument("--save", type=Path, help="JSON for benchmarks.roofline --rates")
    chosen = parser.parse_args(argv)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    clock = Clock(device, chosen.seconds)
    step = step_of(chosen.model, chosen.micro_batch_size, chosen.seq_length)
    measured: dict[str, float] = {}
    for source in (products, attention):
        for name, seconds, flops in source(step, device, clock):
            measured[name] = flops / seconds / 1e12
            print(f"{measured[name]:10.3f} TFLOP/s {1e6 * seconds:12.1f} us  {name}", flush=True)
    source_, target = (
        torch.empty(chosen.copy_mib << 20, dtype=torch.uint8, device=device) for _ in "ab"
    )
    memory = 2 * len(target) / clock(lambda: target.copy_(source_)) / 1e9
    print(f"{memory:10.1f} GB/s of a copy, read and written")
    if chosen.save:
        chosen.save.write_text(json.dumps({"memory": memory, "parts": best(measured)}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
