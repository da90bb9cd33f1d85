"""Context parallelism: a group of ranks shares out the tokens of each sample.

Every layer but attention works on tokens one by one, so that a rank computes those of its part
alone.  For attention the group gathers keys and values, which of grouped queries are few beside
the rest (Grattafiori et al. 2024, section 3.3.2), in each layer and again in its backward pass: no
rank keeps more than its part.  A causal query looks at all before it, so that equal parts in a row
would leave the last rank with most of the work: a sample is cut into twice as many chunks as there
are ranks, and a rank has one from the head and its mirror image from the tail, in all equally much.

A chunk's queries attend to the chunk itself, causally, and without a mask to all chunks before it.
The two are put together by their normalisers, as in ring attention (Liu et al. 2023).
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
    """The ranks that share out each sample's tokens; ``name`` is the process group's.

    ``kernel`` is the one of attention, as partial_attention.py calls it.
    """

    size: int = 1
    rank: int = 0
    name: str = ""
    kernel: str = ""

    def own(self, x: Tensor, dimension: int) -> Tensor:
        """Return this rank's tokens, its two chunks in order, of a dimension that has all."""
        if self.size == 1:
            return x
        chunks = x.chunk(2 * self.size, dimension)
        return torch.cat((chunks[self.rank], chunks[-1 - self.rank]), dimension)

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return causal attention of this rank's tokens to all before them.

        All are [samples, heads, tokens, head size].
        """
        return _Attention.apply(query, key, value, self)  # type: ignore[no-any-return, no-untyped-call]  # torch has not typed it

    def chunks(self, length: int) -> Iterator[tuple[int, slice, slice]]:
        """Yield this rank's two: the tokens before one, and where it is among a rank's and all."""
        for place, number in enumerate((self.rank, 2 * self.size - 1 - self.rank)):
            before = number * length
            yield (
                before,
                slice(place * length, (place + 1) * length),
                slice(before, before + length),
            )

    def gather(self, key: Tensor, value: Tensor) -> Tensor:
        """Return all keys and values, [2, samples, heads, seq, head size], of the ranks' own."""
        whole = all_gather(torch.stack((key, value)).unsqueeze(0), self.size, self.name)
        head, tail = whole.chunk(2, 4)  # of each rank
        return torch.cat((*head.unbind(0), *tail.flip(0).unbind(0)), 3)

    def scatter_sum(self, x: Tensor) -> Tensor:
        """Return the group's sum of what is as ``gather`` returns it, for this rank's tokens."""
        chunks = x.chunk(2 * self.size, 3)
        parts = [torch.cat((chunks[i], chunks[-1 - i]), 3) for i in range(self.size)]
        return reduce_scatter(torch.stack(parts), self.size, self.name).squeeze(0)


class _Attention(torch.autograd.Function):
    """Attention of a rank's tokens; all tensors are [samples, heads, tokens, head size]."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, group: ContextGroup) -> Tensor:
        keys, values = group.gather(key, value).unbind(0)
        parts, normalisers = [], []
        for before, place, _ in group.chunks(query.shape[2] // 2):
            mine = (part[:, :, place] for part in (query, key, value))
            out, normaliser, state = forward(group.kernel, *mine, causal=True)
            if before:
                earlier = keys[:, :, :before], values[:, :, :before]
                more, other, _ = forward(group.kernel, query[:, :, place], *earlier, causal=False)
                out, normaliser = merge(out, normaliser, more, other)
            parts.append(out)
            normalisers.append(normaliser)
        y = torch.cat(parts, 2)
        ctx.group = group
        ctx.save_for_backward(query, key, value, y, *normalisers, *state)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        group, kernel = ctx.group, ctx.group.kernel
        query, key, value, y, head, tail, *state = ctx.saved_tensors
        both = group.gather(key, value)  # again, rather than kept
        by_both, by_query = torch.zeros_like(both), []
        chunks = group.chunks(query.shape[2] // 2)
        for (before, place, within), normaliser in zip(chunks, (head, tail), strict=True):
            some, gradient, out = (part[:, :, place] for part in (query, gradients[0], y))
            known = out, normaliser, tuple(state)
            given = some, key[:, :, place], value[:, :, place]
            total, *own = backward(kernel, gradient, given, *known, causal=True)
            by_both[:, :, :, within] += torch.stack(own)
            if before:
                given = some, both[0, :, :, :before], both[1, :, :, :before]
                more, *earlier = backward(kernel, gradient, given, *known, causal=False)
                by_both[:, :, :, :before] += torch.stack(earlier)
                total = total + more
            by_query.append(total)
        by_key, by_value = group.scatter_sum(by_both).unbind(0)
        return torch.cat(by_query, 2), by_key, by_value, None
