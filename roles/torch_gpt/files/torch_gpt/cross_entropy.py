"""The output matrix and the loss, fused: logits exist for some tokens at a time, and not twice.

A piece of the tokens goes through the output matrix, the softmax, and at once through the
backward products, since the gradient by the logits is known as soon as they are: softmax less
one-hot.
Autograd keeps the gradients of inputs and matrix alone, in place of logits of tokens x vocabulary
(345M, 64 samples: 13 GB).  Computing each piece's logits again in the backward pass instead cost a
fourth product, 191.7 samples/s of 201.3.  The ranks of a tensor group have a part of the vocabulary
each and tell each other three numbers a token (Shoeybi et al. 2019, section 3).
"""

from __future__ import annotations

from typing import Any

import torch
from tensor_group import TensorGroup, all_gather
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  # PyTorch's own name for it

PIECE = 1 << 30  # logits, where nothing else is asked for


def linear_cross_entropy(
    x: Tensor, weight: Tensor, targets: Tensor, group: TensorGroup, pieces: int | None
) -> Tensor:
    """Return the mean cross entropy in nats a token, a scalar.

    Args:
        x: [tokens, hidden size], all of them on each rank of a tensor group.
        weight: [vocabulary, hidden size], this rank's part of it.
        targets: int64 [tokens].
        pieces: of the tokens; 0 leaves the gradients to autograd; None is what PIECE makes.
    """
    if pieces == 0:
        return F.cross_entropy(F.linear(x, weight.to(x.dtype)).float(), targets)
    if pieces is None:
        pieces = -(-len(x) * len(weight) // PIECE)
    learns = torch.is_grad_enabled()
    return _LinearCrossEntropy.apply(x, weight, targets, group, pieces, learns)  # type: ignore[no-any-return, no-untyped-call]  # torch has not typed it


def _piece(logits: Tensor, targets: Tensor, group: TensorGroup) -> tuple[Tensor, Tensor]:
    """Return the sum of the tokens' losses, and its gradient by the logits."""
    scores = logits.float()
    hit = torch.arange(logits.shape[1], device=logits.device) == (
        targets - group.rank * logits.shape[1]
    ).unsqueeze(1)
    largest = scores.amax(1)
    total = (scores - largest.unsqueeze(1)).exp().sum(1)
    wanted = torch.where(hit, scores, 0.0).sum(1)
    if group.size > 1:
        own = torch.stack((largest, total, wanted))
        everyone = all_gather(own.unsqueeze(0), group.size, group.name)
        largest = everyone[:, 0].amax(0)
        total = (everyone[:, 1] * (everyone[:, 0] - largest).exp()).sum(0)
        wanted = everyone[:, 2].sum(0)
    normaliser = largest + total.log()
    gradient = (scores - normaliser.unsqueeze(1)).exp() - hit.float()
    return (normaliser - wanted).sum(), gradient.to(logits.dtype)


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        targets: Tensor,
        group: TensorGroup,
        pieces: int,
        learns: bool,
    ) -> Tensor:
        matrix = weight.to(x.dtype)
        losses, by_x, by_weight = [], [], None
        for some, wanted in zip(x.tensor_split(pieces), targets.tensor_split(pieces), strict=True):
            loss, gradient = _piece(some @ matrix.T, wanted, group)
            losses.append(loss)
            if learns:
                by_x.append(gradient @ matrix)
                product = (gradient.T @ some).to(weight.dtype)
                by_weight = product if by_weight is None else by_weight + product
        if learns:
            ctx.save_for_backward(torch.cat(by_x), by_weight)
        return torch.stack(losses).sum() / len(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        by_x, by_weight = ctx.saved_tensors
        share = gradients[0] / len(by_x)  # not before: half precision would lose small gradients
        return by_x * share, by_weight * share, None, None, None, None
