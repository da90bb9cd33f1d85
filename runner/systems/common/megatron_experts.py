"""Experts in Megatron core: its options by our keys, and what it refuses. Pure.

core_v0.13.0: megatron/training/arguments.py:939-955 and 2698-2815, megatron/core/transformer/moe.
"""

from collections.abc import Mapping
from typing import Any

from runner.base.errors import UserError
from runner.systems.common import expert_keys, gpt
from runner.systems.common.expert_keys import BALANCED
from runner.systems.common.system import parallel_sizes
from runner.terms.cell import Cell, Parameter
from runner.terms.record import DATA_PARALLEL

PARAMETERS = (
    Parameter("kv_channels", int, None, "size of a head; default: the model's", minimum=1),
    Parameter("qk_layernorm", bool, None, "norms of queries and keys; default: the model's"),
    Parameter("norm_epsilon", float, None, "of norms; default: the model's, else 1e-5", minimum=0),
    *expert_keys.SHAPE,
    expert_keys.ROUTING,
    *expert_keys.BALANCE,
    expert_keys.EXPERT_PARALLEL,
    Parameter(
        "expert_tensor_parallel",
        int,
        None,
        "devices that each expert is split over; default: tensor_parallel",
        minimum=1,
    ),
    Parameter(
        "moe_grouped_gemm",
        bool,
        None,
        "experts' products as one; default: with transformer_engine, which has them",
    ),
)
OPTIONS = (
    ("--kv-channels", "kv_channels"),
    ("--qk-layernorm", "qk_layernorm"),
    ("--norm-epsilon", "norm_epsilon"),
)
OF_EXPERTS = (
    ("--num-experts", "num_experts"),
    ("--moe-router-topk", "moe_router_topk"),
    ("--moe-ffn-hidden-size", "moe_ffn_hidden_size"),
    ("--moe-router-score-function", "moe_router_score_function"),
    ("--moe-router-load-balancing-type", "moe_router_load_balancing_type"),
    ("--expert-model-parallel-size", "expert_parallel"),
    ("--expert-tensor-parallel-size", "expert_tensor_parallel"),
    ("--moe-grouped-gemm", "moe_grouped_gemm"),
)
PARALLEL = (*gpt.WITH_CONTEXT, expert_keys.FOLDED)


def resolve(values: dict[str, Any], *, local: bool) -> dict[str, Any]:
    """Fill in what a model without experts has not, and whether products are grouped."""
    experts = values["num_experts"] or 0
    grouped = values["moe_grouped_gemm"]
    return {
        **values,
        "num_experts": experts or None,
        "moe_grouped_gemm": bool(experts) and not local if grouped is None else grouped,
    }


def check(cell: Cell, *, local: bool) -> None:
    """Refuse what Megatron would refuse once it has started, or in its first pass."""
    values = cell.parameters
    model, sizes = gpt.shape(values), parallel_sizes(cell, gpt.WITH_CONTEXT)
    expert_keys.check(values, model)
    tensor, width = values["tensor_parallel"], values["expert_tensor_parallel"]
    if not model.num_experts:
        if width or values["moe_grouped_gemm"]:
            name = "expert_tensor_parallel" if width else "moe_grouped_gemm"
            raise UserError(f"{name} is for a model with experts, and this has none; leave it")
        return
    if width and model.moe_ffn_hidden_size % width:
        raise UserError(
            f"expert_tensor_parallel {width} does not divide moe_ffn_hidden_size"
            f" {model.moe_ffn_hidden_size}; change one"
        )
    split = (width or tensor) * values["expert_parallel"]
    spread = sizes[DATA_PARALLEL] * values["context_parallel"] * tensor
    if spread % split:
        raise UserError(
            f"expert_parallel {values['expert_parallel']} x expert_tensor_parallel"
            f" {width or tensor} does not divide data_parallel x context_parallel x"
            f" tensor_parallel {spread}; change one"
        )
    if tensor > 1 and not values["sequence_parallel"]:
        raise UserError(
            "experts with tensor_parallel need sequence_parallel, and it transformer_impl"
            " transformer_engine; set both, or tensor_parallel: 1"
        )
    if values["moe_grouped_gemm"] and local:
        raise UserError(
            "moe_grouped_gemm needs kernels that local is without; leave it out, or set"
            " transformer_impl: transformer_engine"
        )
    sigmoid = values["moe_router_score_function"] == "sigmoid"
    if values["moe_router_bias_update_rate"] and not sigmoid:
        raise UserError(
            "moe_router_bias_update_rate needs moe_router_score_function sigmoid here; set it, or"
            " leave the rate out"
        )


def options(values: Mapping[str, Any]) -> list[str]:
    """Build the options of a model with experts; none of one without."""
    argv = gpt.options(values, OPTIONS)
    if not values["num_experts"]:
        return argv
    argv += gpt.options(values, OF_EXPERTS)
    argv += ["--moe-token-dispatcher-type", "alltoall"]
    if values["moe_router_load_balancing_type"] == "aux_loss":
        argv += ["--moe-aux-loss-coeff", str(values["moe_aux_loss_coeff"])]
    if values["moe_shared_expert_intermediate_size"]:
        width = str(values["moe_shared_expert_intermediate_size"])
        argv += ["--moe-shared-expert-intermediate-size", width]
    if values["moe_router_bias_update_rate"]:
        rate = str(values["moe_router_bias_update_rate"])
        argv += ["--moe-router-enable-expert-bias", "--moe-router-bias-update-rate", rate]
    if values["moe_expert_capacity_factor"]:
        argv += ["--moe-expert-capacity-factor", str(values["moe_expert_capacity_factor"])]
    argv += ["--moe-router-force-load-balancing"] if values["routing"] == BALANCED else []
    return argv
