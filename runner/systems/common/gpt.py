"""What the systems that pre-train a GPT share: sizes, options, paths on a node, estimates. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from runner.base.errors import UserError
from runner.figures.flops import Decoder
from runner.systems.common import estimates
from runner.systems.common.pins import pins
from runner.systems.common.system import Estimate, Split, parallel_sizes
from runner.terms.cell import Cell, Parameter
from runner.terms.cluster import Cluster
from runner.terms.layout import Layout
from runner.terms.run import NodeContext

GPT2_VOCAB_SIZE = 50257

TENSOR_PARALLEL = Parameter(
    "tensor_parallel", int, 1, "devices that each layer is split over", minimum=1
)
PIPELINE_PARALLEL = Parameter(
    "pipeline_parallel", int, 1, "stages that the layers are split into", minimum=1
)
CONTEXT_PARALLEL = Parameter(
    "context_parallel", int, 1, "devices that each sample's tokens are split over", minimum=1
)
PARALLEL = (Split("tensor_parallel"), Split("pipeline_parallel"))
WITH_CONTEXT = (*PARALLEL, Split("context_parallel"))
CHECKPOINT = Parameter(
    "checkpoint",
    str,
    "off",
    "off: nothing is saved; documented: as the document has it, into the run's folder",
    choices=("off", "documented"),
)


def options(values: Mapping[str, Any], table: Iterable[tuple[str, str]]) -> list[str]:
    """Build command line options from (flag, parameter) pairs, in their order.

    True gives the flag alone, False and None nothing. A text with spaces is several words.
    """
    argv: list[str] = []
    for flag, name in table:
        value = values[name]
        if value is True:
            argv.append(flag)
        elif value is not None and value is not False:
            argv += [flag, *str(value).split()]
    return argv


def parallel(cell: Cell) -> dict[str, int]:
    """Return tensor and pipeline sizes as given; the rest of the devices are data parallel."""
    return parallel_sizes(cell, PARALLEL)


def shape(values: Mapping[str, Any], vocab_size: int = GPT2_VOCAB_SIZE) -> Decoder:
    """Return the model's shape from the parameters that say it."""
    experts = values.get("num_experts") or 0
    return Decoder(
        **(expert_shape(values) if experts else {}),
        kv_channels=values.get("kv_channels"),
        num_layers=values["num_layers"],
        hidden_size=values["hidden_size"],
        num_attention_heads=values["num_attention_heads"],
        seq_length=values["seq_length"],
        vocab_size=values.get("vocab_size") or vocab_size,
        ffn_hidden_size=values.get("ffn_hidden_size"),
        num_query_groups=values.get("num_query_groups"),
        gated=bool(values.get("swiglu")),
    )


def expert_shape(values: Mapping[str, Any]) -> dict[str, int]:
    """Return what a shape says of experts, which all layers have."""
    width = values.get("moe_ffn_hidden_size") or values.get("ffn_hidden_size")
    return {
        "moe_layers": values["num_layers"],
        "num_experts": values["num_experts"],
        "moe_router_topk": values.get("moe_router_topk") or 2,
        "moe_ffn_hidden_size": width or 4 * values["hidden_size"],
        "moe_shared_expert_intermediate_size": (
            values.get("moe_shared_expert_intermediate_size") or 0
        ),
    }


def check_shape(model: Decoder, *, pipeline: int, even: bool = True) -> None:
    """Refuse a shape that no trainer takes; `even`: stages must have equally many layers."""
    if not model.kv_channels and model.hidden_size % model.num_attention_heads:
        raise UserError(
            f"num_attention_heads {model.num_attention_heads} does not divide hidden_size"
            f" {model.hidden_size}; change one"
        )
    if model.num_layers < pipeline or (even and model.num_layers % pipeline):
        raise UserError(
            f"pipeline_parallel {pipeline} does not divide num_layers {model.num_layers}; change"
            " one"
        )


def check_nodes(cell: Cell) -> None:
    """Refuse tensor groups that begin in the middle of a node.

    Each node's first process builds the node's index of the data, and only the first of a tensor
    group reads it.
    """
    tensor, devices = parallel(cell)["tensor_parallel"], cell.devices_per_node
    if cell.nodes > 1 and devices % tensor and tensor % devices:
        raise UserError(
            f"tensor_parallel {tensor} does not divide devices_per_node {devices}; change one"
        )


def cuda_home(system: str, pin: str) -> dict[str, str]:
    """Return CUDA_HOME of a pin set: kernels are compiled at the first start.

    A toolkit that lies elsewhere is named in `cluster_env`.
    """
    version = pins(system)[pin].get("cuda")
    return {"CUDA_HOME": f"/usr/local/cuda-{version}"} if version else {}


def python(node: NodeContext) -> str:
    """Return the interpreter of the system's environment."""
    return node.program("python3")


def check_context(values: Mapping[str, Any], model: Decoder) -> None:
    """Refuse samples that cannot be cut into two chunks for each device: the balanced causal cut.

    torch_gpt, torchtitan and Megatron give each device one from the head and one from the tail.
    """
    size = values["context_parallel"]
    if size > 1 and model.seq_length % (2 * size):
        raise UserError(
            f"seq_length {model.seq_length} is not a multiple of 2 x context_parallel {size};"
            " change one"
        )


def recomputes_all(values: Mapping[str, Any]) -> bool:
    """Whether backward computes whole layers again: true, or `full` of none, selective and full."""
    return values.get("activation_checkpointing") in (True, "full")


def estimate(
    cell: Cell,
    cluster: Cluster,
    *,
    model: Decoder | None = None,
    zero_stage: int | None = None,
    flash_attention: bool = False,
    loss_tokens: int | None = None,
    splits: Iterable[Split] = PARALLEL,
    whole_gradient_bytes: int = 0,
    expert_width: int | None = None,
) -> Estimate:
    """Estimate the memory of one device and the time of one run, from the shape and the parallel
    sizes.

    What is not given is what the cell's own `num_layers` and such, `zero_stage` and `precision`
    say; a system without `precision` trains in half. `loss_tokens` are those whose logits there are
    at a time; without it all of a pass. `expert_width`: tensor ranks that split an expert; all.
    """
    values = cell.parameters
    model = shape(values) if model is None else model
    sizes = parallel_sizes(cell, splits)
    stages, context = sizes["pipeline_parallel"], sizes.get("context_parallel", 1)
    tensor = sizes["tensor_parallel"]
    stage = replace(
        model,
        num_layers=max(model.num_layers // stages, 1),
        moe_layers=model.moe_layers and max(model.moe_layers // stages, 1),
        seq_length=max(model.seq_length // context, 1),
    )
    zero = values["zero_stage"] if zero_stage is None else zero_stage
    half = values.get("precision") != "fp32"
    memory = estimates.memory_mib(
        stage,
        micro_batch_size=values["micro_batch_size"],
        zero_stage=zero,
        data_parallel=sizes["data_parallel"] * context,  # which share out the states, too
        half=half,
        activation_checkpointing=recomputes_all(values),
        flash_attention=flash_attention,
        selective=values.get("activation_checkpointing") == "selective",
        loss_tokens=loss_tokens,
        # All is divided by the tensor ranks below, of which experts may be folded over some.
        expert_parallel=sizes.get("expert_parallel", 1) * (expert_width or tensor) / tensor,
        gathered_tokens=values["micro_batch_size"] * model.seq_length if context > 1 else 0,
        whole_gradient_bytes=whole_gradient_bytes,
    )
    # The embeddings and the output, which a tensor group does not split, are counted as split.
    memory /= tensor
    memory += estimates.TORCH_PROCESS_MIB.get(cluster.device, 0.0)
    batch = values.get("global_batch_size") or (values["micro_batch_size"] * sizes["data_parallel"])
    flops = batch * model.flops()
    time = estimates.time_s(flops, values["train_iters"], cell.world_size, cluster.device)
    layout = Layout(
        devices=cell.world_size,
        devices_per_node=cell.devices_per_node,
        global_batch_size=batch,
        micro_batch_size=values["micro_batch_size"],
        sequence_length=model.seq_length,
        layers=model.num_layers,
        hidden=model.hidden_size,
        heads=model.num_attention_heads,
        vocabulary=model.vocab_size,
        layer_weights=round(model.layer_weights / model.num_layers),
        tensor_parallel=sizes["tensor_parallel"],
        data_parallel=sizes["data_parallel"],
        pipeline_parallel=sizes["pipeline_parallel"],
        context_parallel=context,
        zero_stage=zero,
        recompute=_recomputed(values),
        sequence_parallel=bool(values.get("sequence_parallel")),
        fused_attention=flash_attention,
        value_bytes=2 if half else 4,
    )
    return Estimate(
        memory_mib=memory,
        time_s=time,
        basis="shape, parallel sizes and typical rates",
        layout=layout,
    )


def _recomputed(values: Mapping[str, Any]) -> Literal["none", "selective", "full"]:
    if recomputes_all(values):
        return "full"
    chosen = values.get("activation_checkpointing") == "selective"
    return "selective" if chosen or values.get("selective_recompute") else "none"


@dataclass(frozen=True)
class Data:
    """A dataset's files on a node, as roles/dataset lays them out."""

    prefix: str  # of .bin and .idx
    vocab: str
    merges: str

    @property
    def required(self) -> dict[str, int | None]:
        """What a node must have before anything starts."""
        names = (f"{self.prefix}.bin", f"{self.prefix}.idx", self.vocab, self.merges)
        return dict.fromkeys(names)


def data(cell: Cell, node: NodeContext) -> Data:
    """Return the files of the cell's dataset."""
    return Data(
        prefix=f"{node.dataset}/{cell.dataset}_text_document",
        vocab=f"{node.dataset}/vocab.json",
        merges=f"{node.dataset}/merges.txt",
    )
