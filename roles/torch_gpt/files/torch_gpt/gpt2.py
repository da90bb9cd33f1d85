"""A block of GPT-2 (Radford et al. 2019), without dropout, which hides differences between runs."""

from __future__ import annotations

from argparse import Namespace

import torch
from context_group import ContextGroup
from layers import Block, LayerNorm, Linear, attend
from tensor_group import TensorGroup
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  # PyTorch's own name for it


class GPT2Block(Block):
    """Causal self-attention and a two-layer perceptron, each added to its normalised input.

    The biases of the products that a tensor group adds up stand apart: they are added once.
    """

    def __init__(self, options: Namespace, group: TensorGroup, context: ContextGroup) -> None:
        super().__init__(options, group, context)
        hidden, inner = options.hidden_size, options.ffn_hidden_size // group.size
        self.ln_1 = LayerNorm(hidden)
        self.qkv = Linear(hidden, 3 * hidden // group.size)
        self.attention_out = Linear(hidden // group.size, hidden, bias=False)
        self.attention_bias = nn.Parameter(torch.zeros(hidden))
        self.ln_2 = LayerNorm(hidden)
        self.mlp_in = Linear(hidden, inner)
        self.mlp_out = Linear(inner, hidden, bias=False)
        self.mlp_bias = nn.Parameter(torch.zeros(hidden))

    def compute(self, x: Tensor, angles: Tensor | None) -> Tensor:
        """Return the block's output.

        The rows of ``qkv`` go head by head, so that a rank of a tensor group has some heads whole.
        """
        heads = self.qkv(self.group.gather(self.ln_1(x)))
        heads = heads.view(
            -1, self.seq_length, heads.shape[1] // self.head_size // 3, 3, self.head_size
        )
        y = self.attention_out(attend(*heads.unbind(3), self.context))
        x = x + self.group.scatter_sum(y) + self.attention_bias.to(x.dtype)
        y = self.mlp_in(self.group.gather(self.ln_2(x)))
        # On three dimensions: inductor then sums up the bias' gradient within GELU's backward
        # kernel, instead of reading all of it again (4 of the 77 values a token that it moves).
        y = F.gelu(y.view(-1, self.seq_length, y.shape[1]), approximate="tanh").flatten(0, 1)
        return x + self.group.scatter_sum(self.mlp_out(y)) + self.mlp_bias.to(x.dtype)
