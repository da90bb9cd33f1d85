r"""The least time that a training step of the reference trainer can take, part by part.

    python -m benchmarks.roofline --model gpt2-medium --micro-batch-size 8 32 64
    python -m benchmarks.roofline --model llama3-8b --micro-batch-size 1 2 --data-parallel 2 \
        --zero-stage 3

Each part has FLOPs and bytes that it moves to and from the device's memory; its floor is the longer
of the two at the given rates, since one hides behind the other inside a kernel, and kernels follow
one another; times in parentheses run beside the products. What is counted is in
benchmarks/training_step.py. MFU is the project's own formula, runner/figures/flops.py, which
has attention in full.

Rates are those of an H200: 773 TFLOP/s is a product of 8192 cubed, seen here; 631 cuDNN's attention
forward on an H100 (pytorch#142132); 4,000 of 4,800 GB/s of memory are what copies reach by rule of
thumb; 450 GB/s is NVLink's data sheet, one way. `--rates FILE` takes those that were measured on a
device by benchmarks/products.py, of each product in its own shape.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

from tabulate import tabulate

from benchmarks.training_step import Rates, Step
from runner.base.dataclass_schema import shape
from runner.folder import stored
from runner.systems.common import gpt, models


def table(steps: Sequence[Step], rates: Rates) -> str:
    """Return a Markdown table: a row a part, and of each step TFLOP, GB and ms."""
    rows: dict[str, list[str]] = {}
    for step in steps:
        for part in step.parts():
            moved = (part.bytes or part.link) / 1e9
            took = f"{1e3 * rates.seconds(part):.2f}"
            cells = [f"{part.flops / 1e12:.2f}" if part.flops else "", f"{moved:.2f}"]
            rows.setdefault(part.name, []).extend([*cells, f"({took})" if part.hidden else took])
        for name, value in step.figures(rates).items():
            digits = f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"
            rows.setdefault(f"**{name}**", []).extend(["", "", f"**{digits}**"])
    headers = ["part"]
    for step in steps:
        headers += [f"{step.micro_batch_size}: TFLOP", "GB", "ms"]
    body = [[name, *cells] for name, cells in rows.items()]
    return tabulate(body, headers=headers, tablefmt="github", disable_numparse=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=models.MODELS, required=True)
    parser.add_argument("--micro-batch-size", type=int, nargs="+", default=[8, 32, 64])
    parser.add_argument("--seq-length", type=int, help="tokens per sample; default: the model's")
    for name in ("tensor-parallel", "data-parallel"):
        parser.add_argument(f"--{name}", type=int, default=1, help="devices")
    parser.add_argument("--zero-stage", type=int, choices=(0, 1, 2, 3), default=0)
    for rate in ("matrix", "attention", "memory", "link"):
        unit = "TFLOP/s" if rate in ("matrix", "attention") else "GB/s"
        parser.add_argument(f"--{rate}", type=float, help=f"{unit}; default {getattr(Rates, rate)}")
    parser.add_argument("--rates", type=Path, help="of benchmarks/products.py")
    chosen = parser.parse_args(argv)
    rates = (chosen.rates and stored.load(chosen.rates, shape(Rates))) or Rates()
    given = {field.name: getattr(chosen, field.name, None) for field in fields(Rates)}
    rates = replace(rates, **{name: value for name, value in given.items() if value is not None})
    if min(rates.matrix, rates.attention, rates.memory, rates.link, *rates.parts.values()) <= 0:
        parser.error("a rate is not above 0")
    values = dict(models.MODELS[chosen.model])
    values["seq_length"] = chosen.seq_length or values["seq_length"]
    split = (chosen.tensor_parallel, chosen.data_parallel, chosen.zero_stage)
    steps = [Step(gpt.shape(values), size, *split) for size in chosen.micro_batch_size]
    print(table(steps, rates))
    return 0


if __name__ == "__main__":
    sys.exit(main())
