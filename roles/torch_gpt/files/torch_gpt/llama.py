"""A block of Llama 3 (Grattafiori et al. 2024, section 3.2), and of its relatives.

Qwen 3 has normalised queries and keys, Mixtral experts, GPT-OSS experts, biases, windows and sinks.
"""

from __future__ import annotations

import math
from argparse import Namespace

import torch
from context_group import ContextGroup
from experts import ExpertGroup, MixtureOfExperts
from layers import Block, Linear, RMSNorm, attend
from shapes import GATE_WIDTH
from tensor_group import TensorGroup
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  # PyTorch's own name for it
from windows import Sinks, attend_window, yarn


def rotations(options: Namespace, head_size: int, device: torch.device) -> Tensor:
    """Return the factors of a head and of its turned halves, fp32 [2, seq, head size].

    Of Llama 3.2 the frequencies are not stretched, as texts here are no longer than 8192 tokens.
    """
    exponents = torch.arange(0, head_size, 2, device=device, dtype=torch.float32) / head_size
    positions = torch.arange(options.seq_length, device=device, dtype=torch.float32)
    speeds, size = 1 / options.rotary_base**exponents, 1.0
    if options.yarn_factor:
        speeds, size = yarn(speeds, options.rotary_base, options.yarn_factor)
    angles = positions[:, None] * speeds
    cosine, sine = angles.cos() * size, angles.sin() * size
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
    """Attention with grouped queries and a gated perceptron, or experts, each added to its
    normalised input.
    """

    def __init__(
        self,
        options: Namespace,
        group: TensorGroup,
        context: ContextGroup,
        layer: int,
        experts: ExpertGroup,
    ) -> None:
        super().__init__(options, group, context)
        hidden, inner = options.hidden_size, options.ffn_hidden_size // group.size
        self.groups = options.num_query_groups // group.size
        self.queries = options.num_attention_heads // options.num_query_groups  # of a group
        heads, bias = self.groups * self.queries, options.attention_bias
        rows = self.groups * (self.queries + 2) * self.head_size
        self.norm_1 = RMSNorm(hidden, options.norm_epsilon)
        self.qkv = Linear(hidden, rows, bias=bias)
        self.query_norm = RMSNorm(self.head_size, options.norm_epsilon) if options.qk_norm else None
        self.key_norm = RMSNorm(self.head_size, options.norm_epsilon) if options.qk_norm else None
        self.window = 0 if layer % 2 else options.window_size
        self.sinks = Sinks(heads) if options.attention_sinks else None
        self.attention_out = Linear(heads * self.head_size, hidden, bias=False)
        self.attention_bias = nn.Parameter(torch.zeros(hidden)) if bias else None
        self.norm_2 = RMSNorm(hidden, options.norm_epsilon)
        self.moe = MixtureOfExperts(options, group, experts) if options.num_experts else None
        if self.moe is None:
            self.gate_width = math.gcd(options.ffn_hidden_size, GATE_WIDTH)
            self.mlp_in = Linear(hidden, 2 * inner, bias=False)
            self.mlp_out = Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor, angles: Tensor | None) -> Tensor:
        """As any block's; what its experts had to do is counted."""
        if self.moe is None:
            return self.kept(x, angles)
        return self.moe.counted(*self.kept(x, angles))

    def compute(self, x: Tensor, angles: Tensor | None) -> Tensor | tuple[Tensor, ...]:
        """Return the block's output, with experts what ``counted`` takes."""
        assert angles is not None
        x = x + self.attention(self.group.gather(self.norm_1(x)), angles)
        y = self.group.gather(self.norm_2(x))
        if self.moe is not None:
            y, *load = self.moe(y)
            return x + self.group.scatter_sum(y), *load
        return x + self.group.scatter_sum(self.perceptron(y))

    def attention(self, x: Tensor, angles: Tensor) -> Tensor:
        """Return what is added to this rank's tokens.

        The rows of ``qkv`` go group by group: its queries, its key, its value.
        """
        heads = self.qkv(x).view(-1, self.seq_length, self.groups, self.queries + 2, self.head_size)
        query, key, value = heads.split((self.queries, 1, 1), dim=3)
        if self.query_norm is not None and self.key_norm is not None:
            query, key = self.query_norm(query), self.key_norm(key)
        query, key, value = query.flatten(2, 3), key.flatten(2, 3), value.flatten(2, 3)
        query, key = rotate(query, angles), rotate(key, angles)
        if self.window or self.sinks is not None:
            sinks = None if self.sinks is None else self.sinks.bias
            y = attend_window(query, key, value, self.window, sinks)
        else:
            y = attend(query, key, value, self.context)
        y = self.group.scatter_sum(self.attention_out(y))
        return y if self.attention_bias is None else y + self.attention_bias.to(y.dtype)

    def perceptron(self, x: Tensor) -> Tensor:
        """Return a tensor rank's summand.

        The rows of ``mlp_in`` are, by turns, some that gate and some that are gated: one wide
        product instead of two.
        """
        gate, y = self.mlp_in(x).view(len(x), -1, 2, self.gate_width).unbind(2)
        return self.mlp_out((F.silu(gate) * y).flatten(1))  # type: ignore[no-any-return]  # a module's result is untyped
