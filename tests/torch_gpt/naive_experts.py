"""The trainer with its layer of experts replaced by a plain loop, or with a fault planted in it.

Run as a program: `naive_experts.py FOLDER loop|FAULT OPTIONS...`, FOLDER being the trainer's.
"""

import runpy
import sys
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812  # PyTorch's own name for it


def loop(layer: Any, x: Any) -> Any:
    """What the layer computes, as its sources write it: expert by expert, no sorting, one rank."""
    tokens, k = len(x), layer.k
    logits = x @ layer.router.weight.T
    if layer.router.bias is not None:
        logits = logits + layer.router.bias
    scores = torch.softmax(logits, 1) if layer.score == "softmax" else torch.sigmoid(logits)
    chosen = torch.zeros(tokens, layer.count, dtype=torch.bool)
    if layer.balanced:
        for slot in range(tokens * k):
            chosen[slot // k, slot % layer.count] = True
    else:
        best = (scores + layer.expert_bias).topk(k).indices
        chosen[torch.arange(tokens)[:, None], best] = True
    weights = torch.where(chosen, scores, 0.0)
    if layer.normalised:
        weights = weights / weights.sum(1, keepdim=True)
    counts = chosen.sum(0)
    result, kept = torch.zeros_like(x), 0
    for expert in range(layer.count):
        mine = chosen[:, expert].nonzero()[:, 0]
        if layer.factor:
            room = min(tokens, -int(-layer.factor * tokens * k // layer.count))
            mine = mine[weights[mine, expert].argsort(descending=True)[:room]]
        kept += len(mine)
        y = gated(layer, layer.experts, expert, x[mine])
        result = result.index_put((mine,), weights[mine, expert, None] * y, accumulate=True)
    if layer.shared_in is not None:
        gate, up = halves(x @ layer.shared_in.weight.T, layer.gate_width)
        result = result + (F.silu(gate) * up) @ layer.shared_out.weight.T
    auxiliary = torch.zeros(())
    if layer.balances == "aux_loss":
        shares = scores / scores.sum(1, keepdim=True)
        auxiliary = layer.count * (counts / (tokens * k) * shares.mean(0)).sum()
    return result, counts, auxiliary, torch.tensor(tokens * k - kept)


def halves(y: Any, width: int) -> Any:
    """The rows that gate, and those that are gated, which lie by turns."""
    pieces = y.view(len(y), y.shape[1] // width // 2, 2, width)  # there may be no row
    return pieces[:, :, 0].flatten(1), pieces[:, :, 1].flatten(1)


def gated(layer: Any, experts: Any, expert: int, x: Any) -> Any:
    """One expert's perceptron."""
    y = x @ experts.expert_in.weight[expert].T
    if experts.clamped:
        y = y + experts.expert_in.bias[expert]
    gate, up = halves(y, experts.gate_width)
    if experts.clamped:
        gate, up = gate.clamp(max=7), up.clamp(-7, 7)
        inner = gate / (1 + torch.exp(-1.702 * gate)) * (up + 1)
    else:
        inner = gate / (1 + torch.exp(-gate)) * up
    y = inner @ experts.expert_out.weight[expert].T
    return y + experts.expert_out.bias[expert] if experts.clamped else y


def plant(name: str) -> None:
    """Put a fault of the arithmetic into the layer, as somebody could who edits it."""
    import expert_load
    import experts
    import sharding

    layer, group = experts.MixtureOfExperts, experts.ExpertGroup
    route, dropless, exchange = layer.route, layer.dropless, group.exchange

    def swapped_expert(self: Any, x: Any) -> Any:
        made = route(self, x)
        chosen = made.chosen.clone()
        chosen[made.chosen == 0], chosen[made.chosen == 1] = 1, 0
        return experts.Routing(made.weights, chosen, made.counts[SWAP].clone(), made.auxiliary)

    def lost_token(self: Any, x: Any, routing: Any) -> Any:
        y, dropped = dropless(self, x, routing)
        return torch.cat((torch.zeros_like(y[:1]), y[1:])), dropped

    def unnormalised(self: Any, options: Any, *rest: Any) -> None:
        options.moe_normalised = False
        init(self, options, *rest)

    def no_weights(self: Any, x: Any) -> Any:
        made = route(self, x)
        even = torch.full_like(made.weights, 1 / self.k)
        return experts.Routing(even, made.chosen, made.counts, made.auxiliary)

    def detached_router(self: Any, x: Any) -> Any:
        made = route(self, x)
        return experts.Routing(made.weights.detach(), made.chosen, made.counts, made.auxiliary)

    def own_counts(self: Any, x: Any) -> Any:
        return x

    def shifted_ranks(self: Any, x: Any, to: Any, of: Any) -> Any:
        return exchange(self, x, to, of).roll(1, 0)

    def no_gradient(self: Any, x: Any, to: Any, of: Any) -> Any:
        return exchange(self, x.detach(), to, of) + 0 * x.sum()

    def unsummed(gradients: Any, ranks: Any, **_: Any) -> None:
        torch._foreach_div_(gradients, ranks.data_size)

    def undivided(gradients: Any, ranks: Any, **how: Any) -> None:
        summed(gradients, ranks, **how)
        torch._foreach_mul_(gradients, ranks.data_size)

    def wrong_experts(self: Any, x: Any) -> Any:
        return x.tensor_split(self.size)[self.size - 1 - self.rank]

    def one_choice(self: Any, x: Any) -> Any:
        made = route(self, x)
        first = made.weights.new_tensor([1.0] + [0.0] * (self.k - 1))
        return experts.Routing(made.weights * first, made.chosen, made.counts, made.auxiliary)

    def aux_each_pass(self: Any, scale: float, passes: int) -> None:
        weigh(self, 2 * scale, passes)

    init, summed = layer.__init__, expert_load.sum_expert_gradients
    weigh = expert_load.ExpertLoad.weigh
    places = {
        "swapped_expert": (layer, "route", swapped_expert),
        "lost_token": (layer, "dropless", lost_token),
        "unnormalised_weights": (layer, "__init__", unnormalised),
        "no_weights": (layer, "route", no_weights),
        "router_without_gradient": (layer, "route", detached_router),
        "counts_of_one_rank": (group, "data_sum", own_counts),
        "rows_shifted_in_exchange": (group, "exchange", shifted_ranks),
        "exchange_without_gradient": (group, "exchange", no_gradient),
        "no_sum_over_the_group": (sharding, "sum_expert_gradients", unsummed),
        "sum_not_divided": (sharding, "sum_expert_gradients", undivided),
        "first_choice_alone": (layer, "route", one_choice),
        "auxiliary_loss_twice": (expert_load.ExpertLoad, "weigh", aux_each_pass),
    }
    setattr(*places[name])


SWAP = [1, 0, 2, 3, 4, 5, 6, 7]
FAULTS = (
    *("swapped_expert", "lost_token", "unnormalised_weights", "no_weights"),
    *("router_without_gradient", "counts_of_one_rank", "rows_shifted_in_exchange"),
    *("exchange_without_gradient", "no_sum_over_the_group", "sum_not_divided"),
    *("first_choice_alone", "auxiliary_loss_twice"),
)

if __name__ == "__main__":
    folder, what, *options = sys.argv[1:]
    sys.path.insert(0, folder)
    if what == "loop":
        import experts

        experts.MixtureOfExperts.forward = loop
    else:
        plant(what)
    sys.argv = [f"{folder}/train.py", *options]
    runpy.run_path(sys.argv[0], run_name="__main__")
