"""GPT-OSS' attention: sliding windows, sinks and YaRN (OpenAI 2025, arXiv:2508.10925)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  # PyTorch's own name for it

TRAINED = 4096  # tokens of the texts before RoPE was stretched
FASTEST, SLOWEST = 32.0, 1.0  # turns in so many tokens: YaRN's beta fast and slow
EXTRA = 8  # numbers that a head is longer by for its sink: kernels take multiples of 8


class Sinks(nn.Module):
    """A learned score for each head that takes part in its softmax, and that no value has."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(heads))


def yarn(speeds: Tensor, base: float, factor: float) -> tuple[Tensor, float]:
    """Return RoPE's frequencies stretched, and by how much its factors grow (Peng et al. 2023).

    What turns fast stays, what turns slowly is divided by ``factor``, between is interpolated.
    """
    half = len(speeds)

    def turns_at(turns: float) -> float:  # the pair that makes so many turns
        return half * math.log(TRAINED / (turns * 2 * math.pi)) / math.log(base)

    low, high = turns_at(FASTEST), turns_at(SLOWEST)
    pairs = torch.arange(half, device=speeds.device, dtype=torch.float32)
    slow = ((pairs - low) / (high - low)).clamp(0, 1)
    return speeds * (1 - slow) + speeds / factor * slow, 0.1 * math.log(factor) + 1


def attend_window(
    query: Tensor, key: Tensor, value: Tensor, window: int, sinks: Tensor | None
) -> Tensor:
    """Return attention [tokens, heads x head size] to the last ``window`` tokens; 0: to all.

    Shapes as in layers.attend.  A sink is one more key that all see: heads are longer by EXTRA
    numbers, of which queries have a 1, that key the sink, and all others 0, so that any kernel of
    scaled_dot_product_attention that takes a mask computes it.
    """
    seq, size = query.shape[1], query.shape[3]
    repeated = query.shape[2] // key.shape[2]
    query, key, value = (x.transpose(1, 2) for x in (query, key, value))
    key, value = (x.repeat_interleave(repeated, 1) for x in (key, value))
    position = torch.arange(seq, device=query.device)
    ahead = position[:, None] - position
    mask = (ahead >= 0) & (ahead < window if window else ahead >= 0)
    if sinks is not None:
        room = -(seq + 1) % EXTRA + 1  # so that the keys are a multiple, too
        mask = F.pad(mask, (1, 0), value=True)
        mask = F.pad(mask, (0, room - 1), value=False)
        unit = query.new_tensor([math.sqrt(size)] + [0.0] * (EXTRA - 1))
        query = torch.cat((query, unit.expand(*query.shape[:-1], EXTRA)), -1)
        sink = F.pad(sinks.to(key.dtype)[None, :, None, None], (size, EXTRA - 1))
        sink = sink.expand(len(key), -1, -1, -1)
        key = torch.cat((sink, F.pad(key, (0, EXTRA, 0, room - 1))), 2)
        value = F.pad(value, (0, EXTRA, 1, room - 1))
    y = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=size**-0.5)
    return y[..., :size].transpose(1, 2).flatten(0, 1).flatten(1)
