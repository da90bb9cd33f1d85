"""Attention to a part of the keys, as it is needed to merge it with that to the others.

The forward pass also returns the normalisers: for each query the log of its sum of exponentials.
The backward pass takes the result and the normalisers of all keys, and returns this part's share of
the gradients.  scaled_dot_product_attention hides both, so that its kernels are called by name.
All tensors are [samples, heads, tokens, head size], normalisers fp32 [samples, heads, tokens]; keys
and values may have fewer heads, each of which serves as many of the query's, side by side.
"""

from __future__ import annotations

import math
from argparse import Namespace
from typing import Any

import torch
from torch import Tensor

_AT: Any = torch.ops.aten
CUDNN_HEAD_SIZE = 128  # the largest that its backward pass takes
State = tuple[Tensor, ...]  # a kernel's seed and offset, which nothing reads without dropout


def on_hopper(device: torch.device) -> bool:
    """Whether cuDNN's kernel is the fastest: on an H200, causal, 428 against FlashAttention's 251
    TFLOP/s forward with heads of 128, 327 against 220 with heads of 64 (backward 314, and 251
    against 188).
    """
    return device.type == "cuda" and torch.cuda.get_device_capability(device) == (9, 0)


def kernel_of(options: Namespace, device: torch.device) -> str:
    """Return the kernel of a context group: cudnn, flash, cpu_flash or math."""
    backend = options.attention_backend
    if backend == "math" or (device.type == "cuda" and options.precision == "fp32"):
        return "math"
    if device.type == "cpu":
        return "cpu_flash"
    if backend != "auto":
        return str(backend)
    head_size = options.kv_channels or options.hidden_size // options.num_attention_heads
    return "cudnn" if on_hopper(device) and head_size <= CUDNN_HEAD_SIZE else "flash"


def forward(
    kernel: str, query: Tensor, key: Tensor, value: Tensor, causal: bool
) -> tuple[Tensor, Tensor, State]:
    """Return attention, its normalisers and the kernel's state for ``backward``."""
    inputs = query, key, value
    if kernel == "cudnn":
        out, normaliser, *_, seed, offset, _ = _AT._scaled_dot_product_cudnn_attention(
            *inputs, None, True, 0.0, causal
        )
        return out, normaliser.squeeze(-1), (seed, offset)
    if kernel == "flash":
        out, normaliser, *_, seed, offset, _ = _AT._scaled_dot_product_flash_attention(
            *inputs, 0.0, causal
        )
        return out, normaliser, (seed, offset)
    if kernel == "cpu_flash":
        return *_AT._scaled_dot_product_flash_attention_for_cpu(*inputs, 0.0, causal), ()
    scores = _scores(query, key, causal)
    normaliser = scores.logsumexp(-1)
    return _by_heads(_weights(scores, normaliser), value).to(value.dtype), normaliser, ()


def backward(
    kernel: str,
    gradient: Tensor,
    inputs: tuple[Tensor, Tensor, Tensor],
    out: Tensor,
    normaliser: Tensor,
    state: State,
    causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of ``inputs``: query, key and value.

    ``out`` and ``normaliser`` are those of the attention to all keys.
    """
    query, key, value = inputs
    lengths = None, None, query.shape[2], key.shape[2]  # of each sample: none; the longest
    if kernel == "cudnn":
        result = _AT._scaled_dot_product_cudnn_attention_backward(
            gradient, *inputs, out, normaliser.unsqueeze(-1), *state, None, *lengths, 0.0, causal
        )
    elif kernel == "flash":
        result = _AT._scaled_dot_product_flash_attention_backward(
            gradient, *inputs, out, normaliser, *lengths, 0.0, causal, *state
        )
    elif kernel == "cpu_flash":
        result = _AT._scaled_dot_product_flash_attention_for_cpu_backward(
            gradient, *inputs, out, normaliser, 0.0, causal
        )
    else:
        weights = _weights(_scores(query, key, causal), normaliser)
        by_weights = _by_heads(gradient.float(), value.mT)
        along = (gradient.float() * out).sum(-1, keepdim=True)
        by_scores = weights * (by_weights - along) / math.sqrt(query.shape[3])
        by_key = _of_heads(by_scores.mT, query, key.shape[1])
        by_value = _of_heads(weights.mT, gradient, key.shape[1])
        return (
            _by_heads(by_scores, key).to(query.dtype),
            by_key.to(key.dtype),
            by_value.to(value.dtype),
        )
    return result  # type: ignore[no-any-return]  # an operator is untyped


def merge(out: Tensor, normaliser: Tensor, out_2: Tensor, normaliser_2: Tensor) -> Any:
    """Return the attention to two sets of keys and its normalisers, from those to each set."""
    total = torch.logaddexp(normaliser, normaliser_2)
    share, share_2 = ((x - total).exp().unsqueeze(-1) for x in (normaliser, normaliser_2))
    return (out * share + out_2 * share_2).to(out.dtype), total


def _by_heads(x: Tensor, of_groups: Tensor) -> Tensor:
    """Return the product, in fp32, of each head with its group's."""
    return x @ of_groups.float().repeat_interleave(x.shape[1] // of_groups.shape[1], 1)


def _of_heads(x: Tensor, of_heads: Tensor, groups: int) -> Tensor:
    """Return the product, in fp32, of each head, summed over the heads of a group."""
    return (x @ of_heads.float()).unflatten(1, (groups, -1)).sum(2)


def _scores(query: Tensor, key: Tensor, causal: bool) -> Tensor:
    scores = _by_heads(query.float(), key.mT) / math.sqrt(query.shape[3])
    if not causal:
        return scores
    later = torch.ones(scores.shape[2:], dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill(later, -math.inf)


def _weights(scores: Tensor, normaliser: Tensor) -> Tensor:
    return (scores - normaliser.unsqueeze(-1)).exp()
