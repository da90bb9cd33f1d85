"""Context parallelism in Megatron core: its options by our keys, and what it refuses. Pure.

core_v0.13.0: megatron/training/arguments.py:775 and 2384-2395; the local attention refuses it
(megatron/core/transformer/dot_product_attention.py:53), Transformer Engine's computes it.
"""

from collections.abc import Mapping
from typing import Any

from runner.base.errors import UserError
from runner.figures.flops import Decoder
from runner.systems.common import gpt
from runner.terms.cell import Parameter
from runner.terms.record import UNFUSED

A2A = "a2a"
PARAMETERS = (
    gpt.CONTEXT_PARALLEL,
    Parameter(
        "cp_comm_type",
        str,
        None,
        "how context_parallel exchanges keys and values; default: the trainer's, p2p (a ring)",
        choices=("p2p", "all_gather", A2A),
    ),
)


def check(values: Mapping[str, Any], model: Decoder, *, local: bool) -> None:
    """Refuse what the trainer would refuse once all devices have started."""
    size, tensor, exchange = (
        values[key] for key in ("context_parallel", "tensor_parallel", "cp_comm_type")
    )
    if size == 1:
        if exchange:
            raise UserError(
                f"cp_comm_type {exchange} needs context_parallel of at least 2; leave it out"
            )
        return
    if local:
        raise UserError(
            f"context_parallel {size} needs Transformer Engine, whose attention alone has it; set"
            " transformer_impl: transformer_engine and pin: core_v0.18.2-te"
        )
    if values["attention_backend"] == UNFUSED:
        raise UserError(
            f"context_parallel {size} needs fused attention; set attention_backend: auto, flash or"
            " fused"
        )
    gpt.check_context(values, model)
    if values["sequence_parallel"] and model.seq_length // size % tensor:
        raise UserError(
            f"sequence_parallel splits the {model.seq_length // size} tokens of seq_length /"
            f" context_parallel, which tensor_parallel {tensor} does not divide; change one"
        )
    heads = {
        "num_attention_heads": model.num_attention_heads,
        "num_query_groups": model.num_query_groups or model.num_attention_heads,
    }
    for name, count in heads.items():
        if exchange == A2A and count % (tensor * size):
            raise UserError(
                f"cp_comm_type a2a splits heads, and tensor_parallel x context_parallel"
                f" {tensor * size} does not divide {name} {count}; take p2p or all_gather"
            )


def options(values: Mapping[str, Any]) -> list[str]:
    """Return the words of its command line; none without context parallelism."""
    if values["context_parallel"] == 1:
        return []
    table = (("--context-parallel-size", "context_parallel"), ("--cp-comm-type", "cp_comm_type"))
    return gpt.options(values, table)
