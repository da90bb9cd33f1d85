"""Context parallelism: a group of ranks splits the tokens of each sample.

Every layer except attention works on single tokens, so that a rank computes it for its own tokens.
For attention the group gathers keys and values (Grattafiori et al. 2024, section 3.3.2), in each
layer and again in its backward pass, so that no rank stores more than its share; with grouped
queries they are small.  A causal query reads all keys before it: with equal parts in a row the last
rank would have most of the work.  Therefore a sample is cut into two chunks per rank, and a rank
has one from the head and its mirror image from the tail, which together cost the same on each rank.

The queries of a chunk attend to the chunk itself with the causal mask, and to all chunks before it
without a mask.  The two results are merged by their normalisers, as in ring attention (Liu et al.
2023).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
from partial_attention import backward, forward, merge
from tensor_group import all_gather, reduce_scatter
from torch import Tensor


@dataclasses.dataclass(frozen=True)
class ContextGroup:
    """The ranks that split each sample's tokens; ``name`` is the process group's.

    ``kernel`` is the attention kernel, under its name in partial_attention.py.
    """

    size: int = 1
    rank: int = 0
    name: str = ""
    kernel: str = ""

    def tokens_of_rank(self, x: Tensor, dimension: int) -> Tensor:
        """Return this rank's two chunks, in order, of a dimension that has a sample's tokens."""
        if self.size == 1:
            return x
        chunks = x.chunk(2 * self.size, dimension)
        return torch.cat((chunks[self.rank], chunks[-1 - self.rank]), dimension)

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return causal attention of this rank's tokens to the whole sample.

        All are [samples, heads, tokens, head size] with this rank's tokens.
        """
        return _Attention.apply(query, key, value, self)  # type: ignore[no-any-return, no-untyped-call]  # torch has not typed it

    def chunks(self, length: int) -> Iterator[tuple[int, slice, slice]]:
        """Yield of each of this rank's chunks: tokens before it, and its slices of the rank's
        tokens and of the sample.
        """
        for index, number in enumerate((self.rank, 2 * self.size - 1 - self.rank)):
            start = number * length
            yield start, slice(index * length, (index + 1) * length), slice(start, start + length)

    def gather(self, key: Tensor, value: Tensor) -> Tensor:
        """Return the sample's keys and values, [2, samples, heads, seq, head size]."""
        by_rank = all_gather(torch.stack((key, value)).unsqueeze(0), self.size, self.name)
        head, tail = by_rank.chunk(2, 4)
        return torch.cat((*head.unbind(0), *tail.flip(0).unbind(0)), 3)

    def scatter_sum(self, x: Tensor) -> Tensor:
        """Return the group's sum for this rank's tokens; ``x`` has the shape of ``gather``'s."""
        chunks = x.chunk(2 * self.size, 3)
        by_rank = [torch.cat((chunks[i], chunks[-1 - i]), 3) for i in range(self.size)]
        return reduce_scatter(torch.stack(by_rank), self.size, self.name).squeeze(0)


class _Attention(torch.autograd.Function):
    """Attention of a rank's tokens; all tensors are [samples, heads, tokens, head size]."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, group: ContextGroup) -> Tensor:
        keys, values = group.gather(key, value).unbind(0)
        outputs, normalisers = [], []
        for start, chunk, _ in group.chunks(query.shape[2] // 2):
            inside = (x[:, :, chunk] for x in (query, key, value))
            out, normaliser, state = forward(group.kernel, *inside, causal=True)
            if start:
                before = query[:, :, chunk], keys[:, :, :start], values[:, :, :start]
                out, normaliser = merge(
                    out, normaliser, *forward(group.kernel, *before, causal=False)[:2]
                )
            outputs.append(out)
            normalisers.append(normaliser)
        y = torch.cat(outputs, 2)
        ctx.group = group
        ctx.save_for_backward(query, key, value, y, *normalisers, *state)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        group, kernel = ctx.group, ctx.group.kernel
        query, key, value, y, head, tail, *state = ctx.saved_tensors
        sample = group.gather(key, value)
        by_sample, by_query = torch.zeros_like(sample), []
        chunks = group.chunks(query.shape[2] // 2)
        for (start, chunk, position), normaliser in zip(chunks, (head, tail), strict=True):
            queries, gradient, out = (x[:, :, chunk] for x in (query, gradients[0], y))
            result = out, normaliser, tuple(state)
            inside = queries, key[:, :, chunk], value[:, :, chunk]
            by_queries, *by_keys = backward(kernel, gradient, inside, *result, causal=True)
            by_sample[:, :, :, position] += torch.stack(by_keys)
            if start:
                before = queries, sample[0, :, :, :start], sample[1, :, :, :start]
                more, *by_keys = backward(kernel, gradient, before, *result, causal=False)
                by_sample[:, :, :, :start] += torch.stack(by_keys)
                by_queries = by_queries + more
            by_query.append(by_queries)
        by_key, by_value = group.scatter_sum(by_sample).unbind(0)
        return torch.cat(by_query, 2), by_key, by_value, None
