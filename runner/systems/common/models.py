"""Sizes of GPT and Llama models by name, under Megatron-LM's names of them. Pure."""

from collections.abc import Mapping
from typing import Any

from runner.base.errors import UserError
from runner.terms.cell import Parameter

ROPE = "rope"
SDPA = "sdpa"  # torch's scaled_dot_product_attention, by a patch of the trainer's role
_LLAMA3: Mapping[str, Any] = {
    "num_query_groups": 8,
    "vocab_size": 128256,
    "swiglu": True,
    "normalization": "RMSNorm",
    "position_embedding_type": ROPE,
    "rotary_base": 500000,
    "disable_bias_linear": True,
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
}
_COLUMNS = ("num_layers", "hidden_size", "num_attention_heads", "seq_length", "ffn_hidden_size")


def _sizes(*row: int) -> dict[str, int]:
    return dict(zip(_COLUMNS, row, strict=False))


# GPT: gpt2-small and -medium are Radford et al. 2019's, 345M (medium) to 3.7B those of document 004
# (ModelZoo-PyTorch 2e49c279, test/train_full_8p.sh), tiny is ours: seconds on a CPU.
# Llama's: config.json of meta-llama/Meta-Llama-3-8B, -70B, Llama-3.2-1B and -3B, whose frequencies
# of RoPE are scaled there for texts longer than 8192 tokens; debug is torchtitan's debugmodel
# (0.2.2, torchtitan/models/llama3/__init__.py), with the vocabulary of the dataset.
MODELS: Mapping[str, Mapping[str, Any]] = {
    "gpt2-tiny": _sizes(4, 128, 4, 128),
    "gpt2-small": _sizes(12, 768, 12, 1024),
    "gpt2-medium": _sizes(24, 1024, 16, 1024),
    "gpt-1.3b": _sizes(24, 2048, 16, 1024),
    "gpt-2.7b": _sizes(32, 2560, 32, 2048),
    "gpt-3.7b": _sizes(32, 3072, 32, 2048),
    "llama3-debug": {
        **{name: value for name, value in _LLAMA3.items() if name != "vocab_size"},
        **_sizes(6, 256, 16, 2048, 768),
        **{"num_query_groups": None, "untie_embeddings_and_output_weights": True},
    },
    "llama3.2-1b": {**_LLAMA3, **_sizes(16, 2048, 32, 8192, 8192)},
    "llama3.2-3b": {**_LLAMA3, **_sizes(28, 3072, 24, 8192, 8192)},
    "llama3-8b": {
        **_LLAMA3,
        **_sizes(32, 4096, 32, 8192, 14336),
        "untie_embeddings_and_output_weights": True,
    },
    "llama3-70b": {
        **_LLAMA3,
        **_sizes(80, 8192, 64, 8192, 28672),
        "untie_embeddings_and_output_weights": True,
    },
}
DEFAULT = MODELS["gpt2-medium"]
SIZES = (
    Parameter("num_layers", int, None, "transformer layers; default: the model's", minimum=1),
    Parameter("hidden_size", int, None, "width; default: the model's", minimum=1),
    Parameter("num_attention_heads", int, None, "heads; default: the model's", minimum=1),
    Parameter(
        "num_query_groups",
        int,
        None,
        "heads of keys and values; default: the model's, else one for each head",
        minimum=1,
    ),
    Parameter("ffn_hidden_size", int, None, "width of the MLP; default: 4 x width", minimum=1),
    Parameter(
        "seq_length", int, None, "tokens per sample, and positions; default: the model's", minimum=2
    ),
    Parameter(
        "vocab_size",
        int,
        None,
        "tokens of the vocabulary; the dataset's is padded to it; default: the model's, else the"
        " dataset's, and GPT-2's of made-up tokens",
        minimum=2,
    ),
    Parameter("swiglu", bool, None, "a gated MLP with SiLU; default: the model's, else GELU"),
    Parameter(
        "normalization",
        str,
        None,
        "default: the model's, else LayerNorm",
        choices=("LayerNorm", "RMSNorm"),
    ),
    Parameter(
        "position_embedding_type",
        str,
        None,
        "default: the model's, else learned_absolute",
        choices=("learned_absolute", ROPE),
    ),
    Parameter("rotary_base", int, None, "theta of RoPE; default: the model's", minimum=1),
    Parameter(
        "untie_embeddings_and_output_weights",
        bool,
        None,
        "an output layer of its own; default: the model's",
    ),
    Parameter("disable_bias_linear", bool, None, "no biases; default: the model's"),
    Parameter("attention_dropout", float, None, "default: the model's, else 0.1", minimum=0),
    Parameter("hidden_dropout", float, None, "default: the model's, else 0.1", minimum=0),
)


def parameters(models: Mapping[str, Mapping[str, Any]]) -> tuple[Parameter, ...]:
    """Return the keys of a model's sizes, of which some have names."""
    text = "sizes by name; default: those of gpt2-medium"
    return Parameter("model", str, None, text, choices=tuple(models)), *SIZES


# Flags of both of Megatron's descendants.
OPTIONS = (
    ("--ffn-hidden-size", "ffn_hidden_size"),
    ("--swiglu", "swiglu"),
    ("--untie-embeddings-and-output-weights", "untie_embeddings_and_output_weights"),
    ("--disable-bias-linear", "disable_bias_linear"),
    ("--attention-dropout", "attention_dropout"),
    ("--hidden-dropout", "hidden_dropout"),
)


def resolve(
    parameters: dict[str, Any], models: Mapping[str, Mapping[str, Any]] = MODELS
) -> dict[str, Any]:
    """Fill in the named model's sizes, where a cell does not give its own."""
    sizes = models.get(parameters["model"], DEFAULT)
    return {name: sizes.get(name) if value is None else value for name, value in parameters.items()}


def check(values: Mapping[str, Any]) -> None:
    """Refuse sizes that do not go together."""
    heads, groups = values["num_attention_heads"], values["num_query_groups"]
    if groups and heads % groups:
        raise UserError(
            f"num_query_groups {groups} does not divide num_attention_heads {heads}; change one"
        )
    if values["rotary_base"] and values["position_embedding_type"] != ROPE:
        raise UserError("rotary_base needs position_embedding_type rope; set it, or leave it")
    tensor = values["tensor_parallel"]
    if values["vocab_size"] and values["vocab_size"] % tensor:
        raise UserError(
            f"tensor_parallel {tensor} does not divide vocab_size {values['vocab_size']};"
            " change one"
        )


def padded_vocabulary(values: Mapping[str, Any]) -> list[str]:
    """Build the option by which Megatron pads a smaller vocabulary to vocab_size.

    It pads to a multiple of what is given x tensor_parallel.
    """
    if not values["vocab_size"]:
        return []
    multiple = values["vocab_size"] // values["tensor_parallel"]
    return ["--make-vocab-size-divisible-by", str(multiple)]
