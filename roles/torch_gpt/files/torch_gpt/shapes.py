"""The models by name. Standard library only, as arguments.py is."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Shape:
    """A GPT-2, or a Llama where ``llama`` is true; ``seq_length`` is the default, in tokens.

    ``num_query_groups`` are the heads of keys and values, ``ffn_hidden_size`` is the width of the
    perceptron; a ``vocab_size`` of None is the dataset's.
    """

    num_layers: int
    hidden_size: int
    num_attention_heads: int
    seq_length: int
    num_query_groups: int
    ffn_hidden_size: int
    vocab_size: int | None = None
    llama: bool = False


GATE_WIDTH = 16  # rows of a Llama's gate that lie together, where they divide all of them


def _gpt2(num_layers: int, hidden_size: int, heads: int, seq_length: int) -> Shape:
    return Shape(num_layers, hidden_size, heads, seq_length, heads, 4 * hidden_size)


def _llama(num_layers: int, hidden_size: int, heads: int, ffn_hidden_size: int) -> Shape:
    return Shape(num_layers, hidden_size, heads, 8192, 8, ffn_hidden_size, 128256, llama=True)


# gpt2-small and -medium: Radford et al. 2019, table 2.  gpt-1.3b to gpt-3.7b: the sizes of Ascend
# ModelZoo GPT-2_for_PyTorch test/train_full_8p.sh.  gpt2-tiny is ours: seconds on a CPU.
# Llama: config.json of meta-llama/Llama-3.2-1B, Llama-3.2-3B, Meta-Llama-3-8B and -70B, each with
# an output matrix of its own; debug is torchtitan's debugmodel (v0.2.2, models/llama3/__init__.py).
MODELS = {
    "gpt2-tiny": _gpt2(4, 128, 4, 128),
    "gpt2-small": _gpt2(12, 768, 12, 1024),
    "gpt2-medium": _gpt2(24, 1024, 16, 1024),
    "gpt-1.3b": _gpt2(24, 2048, 16, 1024),
    "gpt-2.7b": _gpt2(32, 2560, 32, 2048),
    "gpt-3.7b": _gpt2(32, 3072, 32, 2048),
    "llama3-debug": Shape(6, 256, 16, 2048, 16, 768, llama=True),
    "llama3.2-1b": _llama(16, 2048, 32, 8192),
    "llama3.2-3b": _llama(28, 3072, 24, 8192),
    "llama3-8b": _llama(32, 4096, 32, 14336),
    "llama3-70b": _llama(80, 8192, 64, 28672),
}
