"""How the tokens of an iteration were spread over the experts: summed up, evened out, reported."""

from __future__ import annotations

import collections
from argparse import Namespace

import torch
import torch.distributed as dist
from experts import MixtureOfExperts
from torch import Tensor, nn
from world import Ranks


class ExpertLoad:
    """The counts of all layers and ranks; a model without experts has nothing to count."""

    def __init__(self, model: nn.Module, options: Namespace, passes: int, ranks: Ranks) -> None:
        self.layers = [layer for layer in model.modules() if isinstance(layer, MixtureOfExperts)]
        self.options, self.ranks = options, ranks
        self.rate = options.moe_router_bias_update_rate
        self.iterations = 0
        if ranks.stages > 1:  # a pipeline begins with a pass that tells it the shapes
            for layer in self.layers:
                layer.passes = collections.deque(maxlen=passes)
        # Of a window: fewest, mean and most tokens of an expert, most / mean, dropped, loss.
        self.sums = torch.zeros(6, dtype=torch.float64, device=ranks.device)

    def weigh(self, scale: float, passes: int) -> None:
        """Have the auxiliary loss go backward with the loss of a pass, which is so scaled."""
        for layer in self.layers:
            layer.scale = self.options.moe_aux_loss_coeff * scale / passes

    @torch.no_grad()
    def end_iteration(self, passes: int) -> None:
        """Sum up the iteration's counts over all ranks with other tokens, and move the biases."""
        if not self.layers:
            return
        loads = [
            layer.load if layer.passes is None else torch.stack(tuple(layer.passes)).sum(0)
            for layer in self.layers
        ]
        both = torch.stack(loads)
        both[:, -2] /= passes * self.ranks.replicas
        if self.ranks.replicas > 1:
            dist.all_reduce(both, group=self.ranks.mesh.get_group("data"))
        counts, totals = both[:, :-2], both[:, -2:]
        mean = counts.mean(1, keepdim=True)
        for number, layer in enumerate(self.layers):
            if self.rate:
                layer.expert_bias += self.rate * (mean[number] - counts[number]).sign().float()
            layer.load.zero_()
        dropped = totals[:, 1] / counts.sum(1)
        most = counts.amax(1)
        figures = (counts.amin(1), mean[:, 0], most, most / mean[:, 0], dropped, totals[:, 0])
        self.sums += torch.stack([figure.sum() for figure in figures])
        self.iterations += 1

    def line(self) -> dict[str, str]:
        """Return the words of a logged line, means over its iterations and all layers.

        All ranks take part; tokens_per_expert has the fewest, the mean and the most of a layer.
        """
        if not self.options.num_experts:
            return {}
        totals = torch.cat((self.sums, self.sums.new_tensor([len(self.layers) * self.iterations])))
        if self.ranks.stages > 1:
            dist.all_reduce(totals, group=self.ranks.mesh.get_group("pipeline"))
        self.sums.zero_()
        self.iterations = 0
        fewest, mean, most, imbalance, dropped, loss = (totals[:-1] / totals[-1]).tolist()
        return {
            "tokens_per_expert": f"{fewest:.1f},{mean:.1f},{most:.1f}",
            "expert_imbalance": f"{imbalance:.4f}",
            "drop_rate": f"{dropped:.4f}",
            "aux_loss": f"{loss:.5f}",
        }


def is_expert(name: str) -> bool:
    """Return whether a parameter is one rank's experts', which the others of its group lack."""
    return ".experts." in name


def sum_expert_gradients(gradients: list[Tensor], ranks: Ranks, *, shared_out: bool) -> None:
    """Sum up experts' gradients over the ranks with the same experts, and take the mean over all.

    Each has them of the tokens of its expert group; the loss is a mean over all ranks with other
    tokens.  ``shared_out``: FSDP has made a mean over the ranks with the same experts already.
    """
    assert ranks.expert_mesh is not None
    if shared_out:
        torch._foreach_div_(gradients, ranks.expert_group.size)
        return
    if ranks.expert_mesh["expert_data"].size() > 1:
        group = ranks.expert_mesh.get_group("expert_data")
        for work in [dist.all_reduce(g, group=group, async_op=True) for g in gradients]:
            if work is not None:
                work.wait()
    torch._foreach_div_(gradients, ranks.replicas)
