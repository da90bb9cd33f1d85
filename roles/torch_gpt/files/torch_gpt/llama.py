"""A block of Llama 3 (Grattafiori et al. 2024, section 3.2)."""

from __future__ import annotations

import math
from argparse import Namespace

import torch
from layers import Block, Linear, RMSNorm, attend
from shapes import GATE_WIDTH
from tensor_group import TensorGroup
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  # PyTorch's own name for it

THETA = 500_000.0  # Llama 3's; 3.2 stretches its frequencies for texts longer than 8192 tokens


def rotations(seq_length: int, head_size: int, device: torch.device) -> Tensor:
    """Return the factors of a head and of its turned halves, fp32 [2, seq, head size]."""
    exponents = torch.arange(0, head_size, 2, device=device, dtype=torch.float32) / head_size
    angles = (
        torch.arange(seq_length, device=device, dtype=torch.float32)[:, None] / THETA**exponents
    )
    cosine, sine = angles.cos(), angles.sin()
    return torch.stack((torch.cat((cosine, cosine), 1), torch.cat((-sine, sine), 1)))


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Turn each pair of ``x`` [samples, seq, heads, head size] by its position's angle, in fp32.

    A pair is a number of the first half of a head and its fellow of the second, as in Hugging
    Face's and Megatron's models; Meta's pairs are neighbours: another order of the same weights.
    By ``roll`` and before the transpose, all of it is one kernel when compiled; complex numbers are
    not fused, and made a block's forward pass move 1.4 times the bytes.
    """
    cosine, sine = angles[:, None, :, None, :]
    return (x * cosine + x.roll(x.shape[-1] // 2, -1) * sine).to(x.dtype)


class LlamaBlock(Block):
    """Attention with grouped queries and a gated perceptron, each added to its normalised input."""

    def __init__(self, options: Namespace, group: TensorGroup) -> None:
        super().__init__(options, group)
        hidden, inner = options.hidden_size, options.ffn_hidden_size // group.size
        self.groups = options.num_query_groups // group.size
        self.queries = options.num_attention_heads // options.num_query_groups  # of a group
        rows = self.groups * (self.queries + 2) * self.head_size
        self.norm_1 = RMSNorm(hidden)
        self.qkv = Linear(hidden, rows, bias=False)
        self.attention_out = Linear(hidden // group.size, hidden, bias=False)
        self.norm_2 = RMSNorm(hidden)
        self.gate_width = math.gcd(options.ffn_hidden_size, GATE_WIDTH)
        self.mlp_in = Linear(hidden, 2 * inner, bias=False)
        self.mlp_out = Linear(inner, hidden, bias=False)

    def compute(self, x: Tensor, angles: Tensor | None) -> Tensor:
        """Return the block's output.

        The rows of ``qkv`` go group by group: its queries, its key, its value.  Those of ``mlp_in``
        are, by turns, some that gate and some that are gated: one wide product instead of two.
        """
        assert angles is not None
        heads = self.qkv(self.group.gather(self.norm_1(x)))
        heads = heads.view(-1, self.seq_length, self.groups, self.queries + 2, self.head_size)
        query, key, value = heads.split((self.queries, 1, 1), dim=3)
        turned = (rotate(part.flatten(2, 3), angles) for part in (query, key))
        y = self.attention_out(attend(*turned, value.flatten(2, 3)))
        x = x + self.group.scatter_sum(y)
        y = self.group.gather(self.norm_2(x))
        gate, y = self.mlp_in(y).view(len(y), -1, 2, self.gate_width).unbind(2)
        return x + self.group.scatter_sum(self.mlp_out((F.silu(gate) * y).flatten(1)))
