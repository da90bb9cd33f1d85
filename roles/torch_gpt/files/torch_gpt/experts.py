"""A layer of experts in place of a perceptron: router, exchange, experts, balance, what is counted.

A router sends each token to the k experts that it scores highest (Shazeer et al. 2017), by softmax
or sigmoid, and adds up what they give, weighted.  Names are Megatron-LM's.  Tokens are sorted by
expert and multiplied in one grouped product; nothing is dropped unless there is a capacity.

With expert parallelism the data parallel ranks of an expert group hold a part of the experts each:
tokens go to their experts by an all-to-all, and what the experts gave comes back by another
(Lepikhin et al. 2020, GShard).  A tensor group cuts each expert as it cuts a perceptron.

Balance: an auxiliary loss (Fedus et al. 2021, eq. 4) whose counts are those of all data parallel
ranks in a pass, so that it does not depend on how tokens are shared out; or without a loss, by a
bias that is added for the choice alone and moved after each iteration (Wang et al. 2024).
"""

from __future__ import annotations

import dataclasses
import math
from argparse import Namespace
from typing import Any

import torch
from layers import Linear
from shapes import GATE_WIDTH
from tensor_group import TensorGroup
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  # PyTorch's own name for it

_OPS: Any = torch.ops._c10d_functional
CLAMP, SHARPNESS = 7.0, 1.702  # GPT-OSS: openai/gpt-oss, gpt_oss/torch/model.py, swiglu


@dataclasses.dataclass(frozen=True)
class ExpertGroup:
    """The ranks that share out the experts; ``data_name`` is the group of all with other tokens."""

    size: int = 1
    rank: int = 0
    name: str = ""
    data_size: int = 1
    data_name: str = ""

    def experts_of_rank(self, x: Tensor) -> Tensor:
        """Return this rank's experts of all of them."""
        return x.tensor_split(self.size)[self.rank]

    def exchange(self, x: Tensor, to: list[int], of: list[int]) -> Tensor:
        """Send rows ``[sum(to), n]`` to the ranks in order; return ``[sum(of), n]`` from them."""
        return _Exchange.apply(x, to, of, self.name)  # type: ignore[no-any-return, no-untyped-call]  # torch has not typed it

    def data_sum(self, x: Tensor) -> Tensor:
        """Return the sum over all data parallel ranks, without a gradient."""
        if self.data_size == 1:
            return x
        return _OPS.wait_tensor(_OPS.all_reduce(x, "sum", self.data_name))  # type: ignore[no-any-return]  # an operator is untyped


def _all_to_all(x: Tensor, to: list[int], of: list[int], name: str) -> Tensor:
    return _OPS.wait_tensor(_OPS.all_to_all_single(x.contiguous(), of, to, name))  # type: ignore[no-any-return]  # as above


class _Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, to: list[int], of: list[int], name: str) -> Tensor:
        ctx.way = of, to, name
        return _all_to_all(x, to, of, name)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        return _all_to_all(gradients[0], *ctx.way), None, None, None


class _Sort(torch.autograd.Function):
    """Rows ``order // times`` of ``x``: each row ``times`` times, in the order of ``order``.

    Both passes read by index: a sum by atomic additions would be slower and differ from run to run.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor, back: Tensor, times: int) -> Tensor:
        ctx.save_for_backward(back)
        ctx.times = times
        return x.index_select(0, order // times)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (back,) = ctx.saved_tensors
        rows = gradients[0].index_select(0, back)
        return rows.view(-1, ctx.times, rows.shape[1]).sum(1), None, None, None


class _AddLoss(torch.autograd.Function):
    """``x`` as it is; ``loss`` has a gradient of ``scale``, as if it were part of the loss.

    So a stage of a pipeline, which does not see the loss, has one of its own (Megatron-LM's
    MoEAuxLossAutoScaler).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, loss: Tensor, scale: float) -> Tensor:
        ctx.scale, ctx.like = scale, loss.detach()
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        return gradients[0], torch.full_like(ctx.like, ctx.scale), None


class Matrices(nn.Module):
    """A matrix, and maybe a bias, for each expert of this rank: [experts, outputs, inputs]."""

    def __init__(self, experts: int, inputs: int, outputs: int, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(experts, outputs, inputs))
        self.bias = nn.Parameter(torch.empty(experts, outputs)) if bias else None

    def forward(self, x: Tensor, counts: Tensor, grouped: bool) -> Tensor:
        """Return [rows, outputs]; the rows of ``x`` are sorted by expert, ``counts`` says of each
        how many.
        """
        weight = self.weight.to(x.dtype)
        if grouped and len(x):
            ends = counts.cumsum(0).to(torch.int32)
            return F.grouped_mm(x, weight.transpose(1, 2), offs=ends)  # type: ignore[no-any-return, attr-defined, unused-ignore]  # since torch 2.10
        parts = x.split(counts.tolist())
        return torch.cat(
            [F.linear(rows, matrix) for rows, matrix in zip(parts, weight, strict=True)]
        )

    def biases(self, counts: Tensor, rows: int) -> Tensor:
        """Return each row's bias, fp32 [rows, outputs]."""
        assert self.bias is not None
        return self.bias.repeat_interleave(counts, 0, output_size=rows)


class Experts(nn.Module):
    """This rank's experts: gated perceptrons, whose weights lie as a Llama's do (llama.py)."""

    def __init__(self, options: Namespace, group: TensorGroup, count: int) -> None:
        super().__init__()
        hidden, inner = options.hidden_size, options.moe_ffn_hidden_size // group.size
        self.expert_in = Matrices(count, hidden, 2 * inner, options.moe_bias)
        self.expert_out = Matrices(count, inner, hidden, options.moe_bias)
        self.gate_width = math.gcd(options.moe_ffn_hidden_size, GATE_WIDTH)
        self.parts, self.grouped = group.size, options.moe_grouped_gemm == "grouped"
        self.clamped = options.moe_bias  # GPT-OSS has both

    def forward(self, x: Tensor, counts: Tensor) -> Tensor:
        """Return [rows, hidden size] of rows sorted by expert (a tensor rank: its summand)."""
        y = self.expert_in(x, counts, self.grouped)
        if self.expert_in.bias is not None:
            y = y + self.expert_in.biases(counts, len(y)).to(y.dtype)
        gate, up = _halves(y, self.gate_width)
        y = self.expert_out(_gated(gate, up, self.clamped).flatten(1), counts, self.grouped)
        if self.expert_out.bias is not None:  # once in the group's sum
            y = y + (self.expert_out.biases(counts, len(y)) / self.parts).to(y.dtype)
        return y


def _halves(y: Tensor, width: int) -> tuple[Tensor, ...]:
    """Return the numbers that gate and those that are gated, [rows, pieces, width] each."""
    return y.view(len(y), y.shape[1] // width // 2, 2, width).unbind(2)  # there may be no row


def _gated(gate: Tensor, up: Tensor, clamped: bool) -> Tensor:
    """Return SwiGLU, or that of GPT-OSS."""
    if not clamped:
        return F.silu(gate) * up
    gate, up = gate.clamp(max=CLAMP), up.clamp(-CLAMP, CLAMP)
    return gate * torch.sigmoid(SHARPNESS * gate) * (up + 1)


class Router(nn.Module):
    """The scores of all experts, in fp32; not nn.Linear, which float8 would make its own."""

    def __init__(self, hidden: int, experts: int, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(experts, hidden))
        self.bias = nn.Parameter(torch.empty(experts)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Return fp32 [tokens, experts]."""
        bias = None if self.bias is None else self.bias.float()
        return F.linear(x.float(), self.weight.float(), bias)


@dataclasses.dataclass(frozen=True)
class Routing:
    """Where the tokens go: ``weights`` fp32 and ``chosen`` int64 [tokens, k], ``counts`` int64
    [experts], and the auxiliary loss, a scalar.
    """

    weights: Tensor
    chosen: Tensor
    counts: Tensor
    auxiliary: Tensor


class MixtureOfExperts(nn.Module):
    """The layer."""

    def __init__(self, options: Namespace, group: TensorGroup, experts: ExpertGroup) -> None:
        super().__init__()
        hidden, self.count = options.hidden_size, options.num_experts
        self.group, self.expert_group, self.k = group, experts, options.moe_router_topk
        self.score, self.normalised = options.moe_router_score_function, options.moe_normalised
        self.balanced = options.routing == "balanced"
        self.factor = options.moe_expert_capacity_factor
        self.balances = options.moe_router_load_balancing_type
        self.router = Router(hidden, self.count, options.moe_bias)
        self.experts = Experts(options, group, self.count // experts.size)
        shared = options.moe_shared_expert_intermediate_size
        self.shared_in = Linear(hidden, 2 * shared // group.size, bias=False) if shared else None
        self.shared_out = Linear(shared // group.size, hidden, bias=False) if shared else None
        self.gate_width = math.gcd(shared, GATE_WIDTH)
        self.register_buffer("expert_bias", torch.empty(self.count))
        # Set by expert_load.py: of the auxiliary loss' gradient, and what a pipeline's passes had.
        self.scale, self.passes = 0.0, None

    def prepare(self, device: torch.device) -> None:
        """Begin with no bias and nothing counted."""
        self.expert_bias.zero_()
        # Tokens of each expert, the auxiliary loss, and what was dropped, of an iteration's passes.
        self.load = torch.zeros(self.count + 2, dtype=torch.float64, device=device)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return [tokens, hidden size] (a tensor rank: its summand), tokens of each expert, the
        auxiliary loss and how many of a token's choices were dropped.
        """
        routing = self.route(x)
        y, dropped = self.by_capacity(x, routing) if self.factor else self.dropless(x, routing)
        if self.shared_in is not None and self.shared_out is not None:
            gate, up = _halves(self.shared_in(x), self.gate_width)
            y = y + self.shared_out((F.silu(gate) * up).flatten(1))
        return y, routing.counts, routing.auxiliary, dropped

    def route(self, x: Tensor) -> Routing:
        """Choose experts for all tokens."""
        logits = self.router(x)
        scores = logits.softmax(1) if self.score == "softmax" else logits.sigmoid()
        if self.balanced:
            turns = torch.arange(len(x) * self.k, device=x.device) % self.count
            chosen = turns.view(-1, self.k)
        else:
            chosen = (scores.detach() + self.expert_bias).topk(self.k).indices
        weights = scores.gather(1, chosen)
        if self.normalised:
            weights = weights / (weights.sum(1, keepdim=True) + 1e-20)
        every = torch.arange(self.count, device=x.device)
        counts = (chosen.flatten()[:, None] == every).sum(0)
        return Routing(weights, chosen, counts, self.auxiliary(scores, counts))

    def auxiliary(self, scores: Tensor, counts: Tensor) -> Tensor:
        """Return experts x sum of (share of choices x mean score), 1 where all are alike."""
        if self.balances != "aux_loss":
            return scores.new_zeros(())
        if self.score == "sigmoid":
            scores = scores / (scores.sum(1, keepdim=True) + 1e-20)
        everywhere = self.expert_group.data_sum(counts).float()
        return self.count * (everywhere / everywhere.sum() * scores.mean(0)).sum()

    def dropless(self, x: Tensor, routing: Routing) -> tuple[Tensor, Tensor]:
        """Return what all chosen experts give, and 0."""
        order = routing.chosen.flatten().argsort(stable=True)
        back = order.argsort()
        rows = _Sort.apply(x, order, back, self.k)  # type: ignore[no-untyped-call]  # torch has not typed it
        if self.expert_group.size == 1:
            y = self.experts(rows, routing.counts)
        else:
            y = self.elsewhere(rows, routing.counts)
        y = _Sort.apply(y, back, order, 1)  # type: ignore[no-untyped-call]  # as above
        y = y.view(len(x), self.k, -1) * routing.weights.unsqueeze(2).to(x.dtype)
        return y.sum(1), routing.counts.new_zeros(())

    def elsewhere(self, rows: Tensor, counts: Tensor) -> Tensor:
        """Have rows, sorted by expert, computed by the ranks that have their experts."""
        group = self.expert_group
        local = self.count // group.size
        even = [local] * group.size
        received = _all_to_all(counts, even, even, group.name).view(group.size, local)
        sizes = torch.stack((counts.view(group.size, local).sum(1), received.sum(1))).tolist()
        to, of = sizes
        rows = group.exchange(rows, to, of)
        # They come rank by rank, and of each expert by expert.
        expert = torch.arange(local, device=rows.device).repeat(group.size)
        order = expert.repeat_interleave(received.flatten(), output_size=len(rows))
        order = order.argsort(stable=True)
        back = order.argsort()
        rows = _Sort.apply(rows, order, back, 1)  # type: ignore[no-untyped-call]  # as above
        y = self.experts(rows, received.sum(0))
        y = _Sort.apply(y, back, order, 1)  # type: ignore[no-untyped-call]  # as above
        return group.exchange(y, of, to)

    def by_capacity(self, x: Tensor, routing: Routing) -> tuple[Tensor, Tensor]:
        """Return what the experts give that have room, and how many choices had none.

        Each expert takes the tokens of this rank that weigh most, factor x tokens x k / experts of
        them (GShard's capacity, Megatron-LM's policy `probs`); room that is left over is computed.
        """
        group, local = self.expert_group, self.count // self.expert_group.size
        room = min(len(x), math.ceil(self.factor * len(x) * self.k / self.count))
        by_expert = x.new_zeros(len(x), self.count, dtype=torch.float32)
        by_expert = by_expert.scatter(1, routing.chosen, routing.weights)
        weights, tokens = by_expert.T.topk(room, dim=1)
        rows = x.index_select(0, tokens.flatten())
        if group.size > 1:
            even = [local * room] * group.size
            rows = group.exchange(rows, even, even)
            rows = rows.view(group.size, local, room, -1).transpose(0, 1).flatten(0, 2)
        y = self.experts(rows, torch.full((local,), room * group.size, device=x.device))
        if group.size > 1:
            y = y.view(local, group.size, room, -1).transpose(0, 1).flatten(0, 2)
            y = group.exchange(y, even, even)
        y = y * weights.flatten().unsqueeze(1).to(y.dtype)
        lost = routing.counts.sum() - (weights > 0).sum()
        return torch.zeros_like(x).index_add(0, tokens.flatten(), y), lost

    def counted(self, x: Tensor, counts: Tensor, auxiliary: Tensor, dropped: Tensor) -> Tensor:
        """Return ``x``, having counted what a pass of training did; outside of what is computed
        again, or compiled.
        """
        if not torch.is_grad_enabled():
            return x
        totals = torch.stack((auxiliary.detach(), dropped)).double()
        load = torch.cat((counts.double(), totals))
        if self.passes is None:
            self.load += load  # in its place, as a CUDA graph needs
        else:
            self.passes.append(load)
        if not self.scale:
            return x
        # The ranks of a tensor group have it alike, and their gradients are added up.
        return _AddLoss.apply(x, auxiliary, self.scale / self.group.size)  # type: ignore[no-any-return, no-untyped-call]  # as above
