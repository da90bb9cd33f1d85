"""Keys of mixtures of experts, alike for all systems, under Megatron-LM's names. Pure."""

from collections.abc import Mapping
from typing import Any

from runner.base.errors import UserError
from runner.figures.flops import Decoder
from runner.systems.common.system import Split
from runner.terms.cell import Parameter
from runner.terms.record import DATA_PARALLEL

LEARNED, BALANCED = "learned", "balanced"
EXPERT_PARALLEL = Parameter(
    "expert_parallel", int, 1, "data parallel devices that share out the experts", minimum=1
)
# Expert ranks are laid anew over those of data, context and tensor parallelism: torchtitan 0.2.2,
# distributed/parallel_dims.py:138; Megatron core, parallel_state.py (expert_data_parallel_size).
FOLDED = Split("expert_parallel", (DATA_PARALLEL, "context_parallel", "tensor_parallel"))
ROUTING = Parameter(
    "routing",
    str,
    LEARNED,
    "what sends tokens to experts; balanced: each expert gets as many, whatever the router says",
    choices=(LEARNED, BALANCED),
)
SHAPE = (
    Parameter("num_experts", int, None, "experts of a layer; 0: none; default: the model's"),
    Parameter("moe_router_topk", int, None, "experts of a token; default: the model's", minimum=1),
    Parameter(
        "moe_ffn_hidden_size", int, None, "width of an expert; default: the model's", minimum=1
    ),
    Parameter(
        "moe_shared_expert_intermediate_size",
        int,
        None,
        "width of the expert that all tokens go through; 0: none; default: the model's",
        minimum=0,
    ),
    Parameter(
        "moe_router_score_function",
        str,
        None,
        "scores of the router; default: the model's",
        choices=("softmax", "sigmoid"),
    ),
)
BALANCE = (
    Parameter(
        "moe_router_load_balancing_type",
        str,
        "aux_loss",
        "what evens out the experts' tokens",
        choices=("aux_loss", "none"),
    ),
    Parameter("moe_aux_loss_coeff", float, 0.01, "weight of aux_loss", minimum=0),
    Parameter(
        "moe_router_bias_update_rate",
        float,
        0.0,
        "step of a bias that evens them out without a loss; 0: without it",
        minimum=0,
    ),
    Parameter(
        "moe_expert_capacity_factor",
        float,
        0.0,
        "most tokens of an expert, in even shares; the others are dropped; 0: no limit",
        minimum=0,
    ),
)


def check(values: Mapping[str, Any], model: Decoder) -> None:
    """Refuse what does not divide, keys of experts without any, and keys that contradict."""
    split = values["expert_parallel"]
    if not model.num_experts:
        for name in ("expert_parallel", "routing", "moe_router_bias_update_rate"):
            if values.get(name) not in (None, 0, 1, LEARNED):
                raise UserError(f"{name} is for a model with experts, and this has none; leave it")
        return
    if model.moe_router_topk > model.num_experts:
        raise UserError(
            f"moe_router_topk {model.moe_router_topk} is more than num_experts"
            f" {model.num_experts}; lower it"
        )
    if model.num_experts % split:
        raise UserError(
            f"expert_parallel {split} does not divide num_experts {model.num_experts}; change one"
        )
    if values["routing"] == BALANCED and values.get("moe_router_bias_update_rate"):
        raise UserError(
            "routing balanced asks no router, and moe_router_bias_update_rate moves its bias;"
            " leave one out"
        )
