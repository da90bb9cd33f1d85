"""GPT-2 in plain PyTorch: the model of Radford et al. 2019 without dropout.

Pre-norm blocks, learned positions, tanh-GELU, biases everywhere, the output matrix tied to the
token embedding.  Dropout is left out: it only hides differences between two runs of a benchmark.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  # PyTorch's own name for it
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    """Causal self-attention and a two-layer perceptron, each added to its normalised input."""

    def __init__(self, hidden_size: int, heads: int, checkpointing: bool) -> None:
        super().__init__()
        self.heads = heads
        self.checkpointing = checkpointing
        self.ln_1 = nn.LayerNorm(hidden_size)
        self.qkv = nn.Linear(hidden_size, 3 * hidden_size)
        self.attention_out = nn.Linear(hidden_size, hidden_size)
        self.ln_2 = nn.LayerNorm(hidden_size)
        self.mlp_in = nn.Linear(hidden_size, 4 * hidden_size)
        self.mlp_out = nn.Linear(4 * hidden_size, hidden_size)

    def attention(self, x: Tensor) -> Tensor:
        """Mix positions; x and the result have shape [batch, seq, hidden]."""
        batch, seq, hidden = x.shape
        heads = self.qkv(x).view(batch, seq, 3, self.heads, hidden // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)  # each [batch, heads, seq, hidden / heads]
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.attention_out(y.transpose(1, 2).reshape(batch, seq, hidden))  # type: ignore[no-any-return]  # torch types a call of a Module as Any

    def compute(self, x: Tensor) -> Tensor:
        """Return the block's output; shapes [batch, seq, hidden]."""
        x = x + self.attention(self.ln_1(x))
        return x + self.mlp_out(F.gelu(self.mlp_in(self.ln_2(x)), approximate="tanh"))  # type: ignore[no-any-return]  # as above

    def forward(self, x: Tensor) -> Tensor:
        """As ``compute``, keeping only ``x`` for the backward pass when checkpointing.

        The checkpoint is inside the block: FSDP gathers a block's weights around ``forward``, so
        that computing it again in the backward pass needs no second gathering.
        """
        if not self.checkpointing:
            return self.compute(x)
        out: Tensor = checkpoint(self.compute, x, use_reentrant=False, preserve_rng_state=False)
        return out


class GPT(nn.Module):
    """A GPT-2 that returns its loss.

    Args:
        vocab_size: tokens, padded to a multiple of 128.
        seq_length: longest input, in tokens.
    """

    def __init__(
        self,
        vocab_size: int,
        seq_length: int,
        num_layers: int,
        hidden_size: int,
        heads: int,
        checkpointing: bool = False,
    ) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(vocab_size, hidden_size)
        self.position_embedding = nn.Embedding(seq_length, hidden_size)
        self.blocks = nn.ModuleList(
            Block(hidden_size, heads, checkpointing) for _ in range(num_layers)
        )
        self.ln_out = nn.LayerNorm(hidden_size)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross entropy in nats a token, a scalar; both inputs [batch, seq]."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.token_embedding(tokens) + self.position_embedding(positions)
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_out(x), self.token_embedding.weight)
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def padded(vocab_size: int) -> int:
    """Return ``vocab_size`` rounded up to a multiple of 128, as Megatron does."""
    return math.ceil(vocab_size / 128) * 128


def initial_value(name: str, parameter: Tensor, layers: int, generator: torch.Generator) -> Tensor:
    """Return a parameter's first value as GPT-2 has it, on the generator's device, in full shape.

    Matrices are normal with 0.02, those that end a residual branch smaller by sqrt(2 layers);
    biases are 0 and the gains of layer norms 1.
    """
    value = torch.zeros(parameter.shape, device=generator.device)
    if parameter.dim() == 2:
        residual = name.endswith(("attention_out.weight", "mlp_out.weight"))
        std = 0.02 / math.sqrt(2 * layers) if residual else 0.02
        return value.normal_(0.0, std, generator=generator)
    return value.fill_(1.0) if name.endswith("weight") else value
