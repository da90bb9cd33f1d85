"""What GPT-2 and Llama are made of.

Activations are [tokens, hidden size], the tokens of a micro batch sample by sample: a tensor group
then cuts them anywhere, and every product has two dimensions.  A layer makes its weights into the
type of what comes in: the parameters stay fp32 (the masters that the optimizer has), and the
activations' type, chosen at the embedding, is that of all between the products.  On an H200, 345M
with torch.compile, bf16 between the products made 201.3 samples/s of autocast's 183.6.
"""

from __future__ import annotations

import contextlib
from argparse import Namespace
from typing import Any

import torch
from context_group import ContextGroup
from partial_attention import on_hopper
from tensor_group import TensorGroup
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  # PyTorch's own name for it
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

BACKENDS = {
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}


class Linear(nn.Linear):
    """``x W^T + b`` in the type of ``x``."""

    def forward(self, x: Tensor) -> Tensor:
        """Return [tokens, outputs] of [tokens, inputs]."""
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.linear(x, self.weight.to(x.dtype), bias)


class LayerNorm(nn.LayerNorm):
    """Layer norm with its gain and bias in the type of ``x``; the sums are in fp32."""

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape and type of ``x``."""
        weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
        return F.layer_norm(x, self.normalized_shape, weight, bias, self.eps)


class RMSNorm(nn.RMSNorm):
    """The same for RMSNorm (Zhang and Sennrich 2019)."""

    def __init__(self, size: int, epsilon: float) -> None:
        super().__init__(size, eps=epsilon)

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape and type of ``x``."""
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


class TokenEmbedding(nn.Embedding):
    """The vectors of tokens; a rank of a tensor group has those of its part of the vocabulary."""

    def __init__(self, vocab_size: int, hidden_size: int, group: TensorGroup) -> None:
        super().__init__(vocab_size // group.size, hidden_size)
        self.group = group

    def forward(self, tokens: Tensor) -> Tensor:
        """Return fp32 vectors [tokens, hidden size] (a tensor group's rank: of its tokens)."""
        tokens = tokens.flatten()
        if self.group.size == 1:
            return F.embedding(tokens, self.weight)
        rows = tokens - self.group.rank * self.num_embeddings
        absent = (rows < 0) | (rows >= self.num_embeddings)
        x = F.embedding(rows.masked_fill(absent, 0), self.weight)
        return self.group.scatter_sum(x.masked_fill(absent[:, None], 0))


class Block(nn.Module):
    """One of a decoder's blocks; a subclass has the layers, and ``compute``."""

    def __init__(self, options: Namespace, group: TensorGroup, context: ContextGroup) -> None:
        super().__init__()
        self.group, self.context = group, context
        self.seq_length = options.seq_length // context.size  # of a rank's part of a sample
        self.head_size = options.kv_channels or options.hidden_size // options.num_attention_heads
        self.checkpointing = options.activation_checkpointing

    def compute(self, x: Tensor, angles: Tensor | None) -> Any:
        """Return the block's output, of the shape and type of ``x``."""
        raise NotImplementedError

    def forward(self, x: Tensor, angles: Tensor | None) -> Tensor:
        """As ``compute``, keeping for the backward pass what checkpointing leaves.

        The checkpoint is inside the block: FSDP gathers a block's weights around ``forward``, so
        that computing it again in the backward pass needs no second gathering.
        """
        return self.kept(x, angles)  # type: ignore[no-any-return]  # of one without experts

    def kept(self, x: Tensor, angles: Tensor | None) -> Any:
        """Do so; this is what torch.compile makes one graph of."""
        if self.checkpointing == "none":
            return self.compute(x, angles)
        how: dict[str, Any] = {"use_reentrant": False, "preserve_rng_state": False}
        if self.checkpointing == "selective":
            how["context_fn"] = selection
        return checkpoint(self.compute, x, angles, **how)


# What selective checkpointing keeps: what takes long to compute, and little memory beside its
# inputs (torchtitan's list, v0.2.2, models/llama3/infra/parallelize.py, _op_sac_save_list).
_AT = torch.ops.aten
KEPT = {
    *(_AT.mm.default, _AT.addmm.default, _AT._grouped_mm.default),
    *(_AT._scaled_mm.default, _AT.max.default),  # float8's product, and what its scale is from
    *(
        _AT._scaled_dot_product_cudnn_attention.default,
        _AT._scaled_dot_product_flash_attention.default,
    ),
    *(
        _AT._scaled_dot_product_efficient_attention.default,
        _AT._scaled_dot_product_flash_attention_for_cpu.default,
    ),
    torch.ops._c10d_functional.reduce_scatter_tensor.default,
}


def selection() -> Any:
    """Return the contexts of a selective checkpoint."""
    return create_selective_checkpoint_contexts(list(KEPT))


def attend(query: Tensor, key: Tensor, value: Tensor, context: ContextGroup) -> Tensor:
    """Return causal attention [tokens, heads x head size].

    The query is [samples, seq, heads, head size]; key and value may have fewer heads, each of which
    serves as many heads of the query, side by side.  A context group's rank has some tokens of a
    sample, and returns theirs.
    """
    grouped = key.shape[2] != query.shape[2]
    heads = (part.transpose(1, 2) for part in (query, key, value))
    if context.size > 1:
        return context.attend(*heads).transpose(1, 2).flatten(0, 1).flatten(1)
    y = F.scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=grouped)
    return y.transpose(1, 2).flatten(0, 1).flatten(1)


def attention_kernels(backend: str, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Return the context in which ``attend`` takes the asked-for kernel."""
    if device.type != "cuda":
        return contextlib.nullcontext() if backend == "auto" else sdpa_kernel(BACKENDS[backend])
    if backend != "auto":
        return sdpa_kernel(BACKENDS[backend])
    order = ["flash", "efficient", "math"]
    if on_hopper(device):
        order.insert(0, "cudnn")
    return sdpa_kernel([BACKENDS[name] for name in order], set_priority=True)
