"""Where a device's time goes: kernels, or a CPU's operators, by category.

A category is found by a kernel's name alone; the first pattern that matches has it. Standard
library only: a node's Python with torch reads this, too.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

COLLECTIVES, OTHER = "collectives", "other"
CATEGORIES = {
    COLLECTIVES: r"nccl|gloo|c10d|all_?reduce|all_?gather|reduce_?scatter|symm_mem",
    "attention": r"sdpa|flash|fmha|attention",
    # inductor names a kernel after all operators that it holds, aten.mm's bias among them: so its
    # own kinds come before the words for products. tem and mm are its templates of products.
    "cross entropy": r"triton_(?!tem|mm).*(softmax|nll|logsumexp|cross_entropy|exp_log)"
    r"|softmax|nll_loss|cross_?entropy",
    "optimizer, norm and clipping": r"adam|multi_tensor|foreach|triton_for_|lpnorm|vector_norm",
    "elementwise and norms": r"triton_(?!tem|mm)|compiled|inductor",
    "matrix products": r"gemm|nvjet|cutlass|cublas|xmma|splitk|wgmma|scaled_mm|triton_(tem|mm)"
    r"|aten::(b?mm|addmm|linear|matmul|baddbmm)",
    "copies": r"memcpy|memset|copy|catarray|aten::(cat|clone|contiguous|zero_|fill_|_to_copy)",
}
_ELEMENTWISE = (
    r"elementwise|norm|reduce|gelu|silu|embedding|index"
    r"|aten::(add|sub|mul|div|neg|sum|sqrt|pow|exp|lerp)"
)
_PATTERNS = [
    *((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in CATEGORIES.items()),
    ("elementwise and norms", re.compile(_ELEMENTWISE, re.IGNORECASE)),
]


class Kernel(NamedTuple):
    """What ran from `start` to `end`, in microseconds; `own` of them not in a kernel within it."""

    name: str
    start: float
    end: float
    own: float


class Row(NamedTuple):
    """A category's or a kernel's time: milliseconds and kernels a step, percent of the step."""

    name: str
    ms: float
    percent: float
    number: float


def category(name: str) -> str:
    """Return the category that a kernel's name tells."""
    return next((found for found, pattern in _PATTERNS if pattern.search(name)), OTHER)


def covered(kernels: Iterable[Kernel]) -> float:
    """Return the microseconds in which at least one of them ran."""
    total, until = 0.0, float("-inf")
    for kernel in sorted(kernels, key=lambda each: each.start):
        total += max(0.0, kernel.end - max(until, kernel.start))
        until = max(until, kernel.end)
    return total


def rows(kernels: Sequence[Kernel], names: Sequence[str], step_us: float, steps: int) -> list[Row]:
    """Add up kernels by the names given beside them; longest first."""
    times: dict[str, list[float]] = {}
    for kernel, name in zip(kernels, names, strict=True):
        times.setdefault(name, []).append(kernel.own)
    found = [(name, sum(own), len(own)) for name, own in times.items()]
    found.sort(key=lambda each: -each[1])
    return [
        Row(name, us / steps / 1e3, 100 * us / steps / step_us, number / steps)
        for name, us, number in found
    ]


def report(kernels: Sequence[Kernel], step_us: float, steps: int, longest: int) -> str:
    """Return what to print: categories, collectives that nothing hides, idle; longest kernels."""
    kinds = [category(kernel.name) for kernel in kernels]
    lines = rows(kernels, kinds, step_us, steps)
    busy = covered(kernels) / steps
    apart = [each for each, kind in zip(kernels, kinds, strict=True) if kind != COLLECTIVES]
    alone = busy - covered(apart) / steps
    if alone > 0:
        lines.append(Row("(of collectives, beside nothing)", alone / 1e3, 100 * alone / step_us, 0))
    idle = max(0.0, step_us - busy)
    lines.append(Row("idle", idle / 1e3, 100 * idle / step_us, 0))
    each = rows(kernels, [kernel.name for kernel in kernels], step_us, steps)[:longest]
    head = f"{'ms a step':>10} {'%':>6} {'kernels':>8}  "
    return "\n".join(
        [
            f"step under the profiler: {step_us / 1e3:.2f} ms, {len(kernels) / steps:.0f} kernels",
            *(head + "category", *map(_line, lines), "", head + f"longest {longest} kernels"),
            *(f"{_line(row)}  [{category(row.name)}]" for row in each),
        ]
    )


def _line(row: Row) -> str:
    number = f"{row.number:.0f}" if row.number else ""
    return f"{row.ms:10.3f} {row.percent:6.1f} {number:>8}  {row.name[:120]}"
