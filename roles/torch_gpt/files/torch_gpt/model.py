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
        self.head_size = hidden_size // heads
        self.checkpointing = checkpointing
        self.ln_1 = nn.LayerNorm(hidden_size)
        self.qkv = nn.Linear(hidden_size, 3 * hidden_size)
        self.attention_out = nn.Linear(hidden_size, hidden_size)
        self.ln_2 = nn.LayerNorm(hidden_size)
        self.mlp_in = nn.Linear(hidden_size, 4 * hidden_size)
        self.mlp_out = nn.Linear(4 * hidden_size, hidden_size)

    def attention(self, x: Tensor) -> Tensor:
        """Mix positions; x and the result have shape [batch, seq, hidden].

        The rows of ``qkv`` go head by head, so that a rank of a tensor group has some heads whole.
        """
        batch, seq, _ = x.shape
        heads = self.qkv(x).view(batch, seq, -1, 3, self.head_size)
        query, key, value = heads.permute(3, 0, 2, 1, 4)  # each [batch, heads, seq, head size]
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.attention_out(y.transpose(1, 2).reshape(batch, seq, -1))  # type: ignore[no-any-return]  # torch types a call of a Module as Any

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
    """A GPT-2, or a stage of one, that returns its loss.

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
        # By number, which a block keeps when a stage drops others.
        self.blocks = nn.ModuleDict(
            {str(i): Block(hidden_size, heads, checkpointing) for i in range(num_layers)}
        )
        self.ln_out = nn.LayerNorm(hidden_size)
        self.first = self.last = True

    def keep_stage(self, stage: int, stages: int) -> None:
        """Drop what the other stages of a pipeline hold; the tied matrix is at both ends."""
        self.first, self.last = stage == 0, stage == stages - 1
        layers = len(self.blocks) // stages
        for i in set(range(len(self.blocks))) - set(range(stage * layers, (stage + 1) * layers)):
            del self.blocks[str(i)]
        if not self.first:
            del self.position_embedding
        if not self.last:
            del self.ln_out
        if not self.first and not self.last:
            del self.token_embedding

    def forward(self, x: Tensor, targets: Tensor | None = None) -> Tensor:
        """Return the loss; without targets the logits, or what the next stage takes.

        The first stage takes tokens [batch, seq], as targets are, the others [batch, seq, hidden].
        """
        if self.first:
            positions = torch.arange(x.shape[1], device=x.device)
            x = self.token_embedding(x) + self.position_embedding(positions)
        for block in self.blocks.values():
            x = block(x)
        if not self.last:
            return x
        logits = F.linear(self.ln_out(x), self.token_embedding.weight)
        return logits if targets is None else cross_entropy(logits, targets)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross entropy in nats a token, a scalar."""
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def padded(vocab_size: int) -> int:
    """Return ``vocab_size`` rounded up to a multiple of 128, as Megatron does."""
    return math.ceil(vocab_size / 128) * 128


def initial_value(name: str, shape: torch.Size, layers: int, generator: torch.Generator) -> Tensor:
    """Return a parameter's first value as GPT-2 has it, on the generator's device.

    Matrices are normal with 0.02, those that end a residual branch smaller by sqrt(2 layers);
    biases are 0 and the gains of layer norms 1.
    """
    value = torch.zeros(shape, device=generator.device)
    if len(shape) == 2:
        residual = name.endswith(("attention_out.weight", "mlp_out.weight"))
        std = 0.02 / math.sqrt(2 * layers) if residual else 0.02
        return value.normal_(0.0, std, generator=generator)
    return value.fill_(1.0) if name.endswith("weight") else value
