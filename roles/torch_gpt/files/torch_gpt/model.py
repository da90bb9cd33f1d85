"""The decoder: embeddings, blocks of GPT-2 or Llama, the output and the loss.

GPT-2 has learned positions and an output matrix tied to the token embedding, Llama neither.
"""

from __future__ import annotations

import math
from argparse import Namespace

import torch
from context_group import ContextGroup
from cross_entropy import linear_cross_entropy
from experts import ExpertGroup
from gpt2 import GPT2Block
from layers import LayerNorm, RMSNorm, TokenEmbedding
from llama import LlamaBlock, rotations
from tensor_group import TensorGroup
from torch import Tensor, nn


class Decoder(nn.Module):
    """A decoder, or a stage or a tensor rank's part of one, that returns its loss.

    Args:
        options: the shape, and how it is computed.
        vocab_size: tokens, padded to a multiple of 128.
        dtype: of all between the matrix products; None is that of the weights.
    """

    def __init__(
        self,
        options: Namespace,
        vocab_size: int,
        dtype: torch.dtype | None = None,
        group: TensorGroup | None = None,
        context: ContextGroup | None = None,
        experts: ExpertGroup | None = None,
    ) -> None:
        super().__init__()
        self.group, self.context = group or TensorGroup(), context or ContextGroup()
        self.dtype, self.pieces = dtype, options.cross_entropy_chunks
        self.options, self.llama = options, options.llama
        self.seq_length = options.seq_length
        hidden = options.hidden_size
        self.token_embedding = TokenEmbedding(vocab_size, hidden, self.group)
        self.position_embedding = None if self.llama else nn.Embedding(self.seq_length, hidden)
        experts = experts or ExpertGroup()
        # By number, which a block keeps when a stage drops others.
        self.blocks = nn.ModuleDict(
            {
                str(i): LlamaBlock(options, self.group, self.context, i, experts)
                if self.llama
                else GPT2Block(options, self.group, self.context)
                for i in range(options.num_layers)
            }
        )
        self.norm = RMSNorm(hidden, options.norm_epsilon) if self.llama else LayerNorm(hidden)
        part = vocab_size // self.group.size
        self.output = nn.Linear(hidden, part, bias=False) if self.llama else None
        self.first = self.last = True
        self.angles: Tensor | None = None

    def keep_stage(self, stage: int, stages: int) -> None:
        """Drop what the other stages of a pipeline hold; a tied matrix is at both ends."""
        self.first, self.last = stage == 0, stage == stages - 1
        layers = len(self.blocks) // stages
        for i in set(range(len(self.blocks))) - set(range(stage * layers, (stage + 1) * layers)):
            del self.blocks[str(i)]
        if not self.first:
            self.position_embedding = None
        if not self.last:
            self.norm = self.output = None
        if not self.first and (self.llama or not self.last):
            self.token_embedding = None

    def prepare(self, device: torch.device) -> None:
        """Compute the buffers, which are not parameters."""
        if not self.llama:
            return
        head_size = next(iter(self.blocks.values())).head_size
        self.angles = self.context.tokens_of_rank(rotations(self.options, head_size, device), 1)
        for block in self.blocks.values():
            if block.moe is not None:
                block.moe.prepare(device)

    def embed(self, tokens: Tensor) -> Tensor:
        """Return [tokens, hidden size], a tensor group's rank its part, of int64 [samples, seq]."""
        x = self.token_embedding(tokens)
        if self.position_embedding is not None:
            # Repeated and not looked up: the backward pass is a sum then, and sorts no positions.
            positions = self.context.tokens_of_rank(self.position_embedding.weight, 0)
            x = x + self.group.own(positions.repeat(len(tokens), 1))
        return x if self.dtype is None else x.to(self.dtype)

    def loss(self, x: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross entropy of what the last block gives."""
        matrix = self.output if self.output is not None else self.token_embedding
        x = self.group.gather(self.norm(x))
        return linear_cross_entropy(x, matrix.weight, targets.flatten(), self.group, self.pieces)

    def forward(self, x: Tensor, targets: Tensor | None = None) -> Tensor:
        """Return the loss; without targets what the next stage, or ``loss``, takes.

        The first stage takes tokens [samples, seq], as targets are, the others [tokens, hidden].
        """
        if self.first:
            x = self.embed(x)
        for block in self.blocks.values():
            x = block(x, self.angles)
        return x if targets is None else self.loss(x, targets)


def padded(vocab_size: int) -> int:
    """Return ``vocab_size`` rounded up to a multiple of 128, as Megatron does."""
    return math.ceil(vocab_size / 128) * 128


def initial_value(name: str, shape: torch.Size, layers: int, generator: torch.Generator) -> Tensor:
    """Return a whole parameter's first value as GPT-2 has it, on the generator's device.

    Matrices are normal with 0.02, those that end a residual branch smaller by sqrt(2 layers);
    biases are 0 and the gains of norms 1.
    """
    value = torch.zeros(shape, device=generator.device)
    if name.endswith("weight") and len(shape) > 1:
        residual = name.endswith("_out.weight")
        std = 0.02 / math.sqrt(2 * layers) if residual else 0.02
        return value.normal_(0.0, std, generator=generator)
    return value.fill_(1.0) if name.endswith("weight") else value
