"""Tensor and sequence parallelism: a group of ranks shares out each block's matrices and tokens.

As Megatron-LM does (Shoeybi et al. 2019, section 3; Korthikanti et al. 2022, section 4.2.2):
between the matrix products each rank has a part of the micro batch's tokens, and norms and residual
sums are of that part alone; before a product that is cut by its outputs the group gathers the
tokens, and after one that is cut by its inputs it adds up and scatters them.  A rank's weights are
plain tensors, so that only these two collectives are between the products: DTensor's
dispatcher kept the devices idle for a third of the time.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor


@dataclasses.dataclass(frozen=True)
class TensorGroup:
    """The ranks that share out a model's matrices; ``name`` is the process group's."""

    size: int = 1
    rank: int = 0
    name: str = ""

    def gather(self, x: Tensor) -> Tensor:
        """Return all tokens; ``x`` is [tokens / size, n], the result [tokens, n]."""
        return x if self.size == 1 else _Gather.apply(x, self.size, self.name)  # type: ignore[no-any-return, no-untyped-call]  # torch has not typed it

    def scatter_sum(self, x: Tensor) -> Tensor:
        """Return the group's sum of this rank's tokens, [tokens, n] to [tokens / size, n]."""
        return x if self.size == 1 else _ScatterSum.apply(x, self.size, self.name)  # type: ignore[no-any-return, no-untyped-call]  # as above

    def own(self, x: Tensor, dimension: int = 0) -> Tensor:
        """Return this rank's part of what all ranks have."""
        return x.tensor_split(self.size, dimension)[self.rank]


# The functional operators, which torch.compile takes into its graphs, and may move and overlap.
_OPS: Any = torch.ops._c10d_functional


def all_gather(x: Tensor, size: int, name: str) -> Tensor:
    """Return the ranks' tensors one below the other, without a gradient."""
    whole: Tensor = _OPS.all_gather_into_tensor(x.contiguous(), size, name)
    return _OPS.wait_tensor(whole)  # type: ignore[no-any-return]  # an operator is untyped


def reduce_scatter(x: Tensor, size: int, name: str) -> Tensor:
    """Return this rank's part, of ``size`` along the first dimension, of the ranks' sum."""
    part: Tensor = _OPS.reduce_scatter_tensor(x.contiguous(), "sum", size, name)
    return _OPS.wait_tensor(part)  # type: ignore[no-any-return]  # as above


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, size: int, name: str) -> Tensor:
        ctx.group = size, name
        return all_gather(x, size, name)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return reduce_scatter(gradients[0], *ctx.group), None, None


class _ScatterSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, size: int, name: str) -> Tensor:
        ctx.group = size, name
        return reduce_scatter(x, size, name)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return all_gather(gradients[0], *ctx.group), None, None


# The dimension by which each is cut, by the end of its name; all else is whole on each rank.
CUTS = {
    **dict.fromkeys(("qkv.weight", "qkv.bias", "mlp_in.weight", "mlp_in.bias"), 0),
    **dict.fromkeys(("attention_out.weight", "mlp_out.weight"), 1),
    **dict.fromkeys(("token_embedding.weight", "output.weight"), 0),
    **{"shared_in.weight": 0, "shared_out.weight": 1, "sinks.bias": 0},
    **{"expert_in.weight": 1, "expert_in.bias": 1, "expert_out.weight": 2},
}


def cut(name: str) -> int | None:
    """Return the dimension by which a tensor group cuts this parameter, None if it is whole."""
    return CUTS.get(".".join(name.split(".")[-2:]))
