"""What of a cell of torch_gpt is refused before anything starts: pure, a sentence each.

The trainer refuses the same (rules.py); but it would do so when all devices have started.
"""

import math
import re

from runner.base.errors import UserError
from runner.figures.flops import Decoder
from runner.systems.common import expert_keys, expert_models, gpt, launchers
from runner.systems.common.launchers import DEEPSPEED, PYTHON
from runner.systems.common.pins import pins
from runner.systems.common.system import parallel_sizes
from runner.terms.cell import Cell
from runner.terms.cluster import Cluster
from runner.terms.record import DATA_PARALLEL

FP8_MULTIPLE = 16  # of what a product in float8 has on each side
VOCABULARY_MULTIPLE = 128  # the trainer's own
GATE_ROWS = 16  # of a Llama's gate, that the trainer keeps together


def check(cell: Cell, cluster: Cluster, model: Decoder, *, llama: bool) -> None:
    """Refuse what the trainer would refuse."""
    _check_shape(cell, model, llama=llama)
    if cell.parameters["context_parallel"] > 1:
        _check_context_parallel(cell, model)
    _check_experts(cell, cluster, model, llama=llama)
    _check_tensor_parallel(cell, model, llama=llama)
    _check_pipeline(cell)
    _check_precision(cell, cluster, model)
    _check_speed(cell, cluster)
    if not re.fullmatch(r"\d+(\.\d+)?(,\d+(\.\d+)?){2}", cell.parameters["split"]):
        raise UserError(
            f"split is {cell.parameters['split']!r}; write three shares such as 900,50,50"
        )
    _check_deepspeed(cell, cluster)
    values = cell.parameters
    if values["launcher"] == PYTHON and cell.devices_per_node > 1:
        raise UserError(
            f"launcher python starts one process on each node, and devices_per_node is"
            f" {cell.devices_per_node}; take launcher torchrun"
        )
    if cell.goes_on and values["engine"] == DEEPSPEED:
        raise UserError("checkpoints, faults and recovery go with engine torch alone; change one")
    for key in ("checkpoint_async", "checkpoint_keep"):
        if values[key] and not values["checkpoint_interval"]:
            raise UserError(f"{key} needs checkpoint_interval")


def _check_shape(cell: Cell, model: Decoder, *, llama: bool) -> None:
    """Refuse sizes that do not go together."""
    gpt.check_shape(model, pipeline=cell.parameters["pipeline_parallel"])
    heads, groups = model.num_attention_heads, model.num_query_groups
    if not llama and groups not in (None, heads):
        raise UserError(
            f"model {cell.parameters['model']} has keys and values for each head; leave"
            " num_query_groups out, or take a Llama"
        )
    if groups and heads % groups:
        raise UserError(
            f"num_query_groups {groups} does not divide num_attention_heads {heads}; change one"
        )
    if not llama and model.kv_channels:
        raise UserError("kv_channels is for a Llama; leave it out")
    if llama and (model.kv_channels or model.hidden_size // heads) % 2:
        size = f"hidden_size {model.hidden_size} / num_attention_heads {heads}"
        raise UserError(
            f"{f'kv_channels {model.kv_channels}' if model.kv_channels else size} is an odd number,"
            " which RoPE cannot turn by pairs; change one"
        )


def _check_context_parallel(cell: Cell, model: Decoder) -> None:
    """Refuse samples that cannot be cut equally, and what a context group does not go with."""
    values = cell.parameters
    gpt.check_context(values, model)
    size = values["context_parallel"]
    windowed = expert_models.MODELS[values["model"]].get("window_size")
    for key, is_set in (
        ("engine deepspeed", values["engine"] == DEEPSPEED),
        ("cuda_graphs", values["cuda_graphs"]),
        ("attention_backend efficient", values["attention_backend"] == "efficient"),
        (f"model {values['model']}, which has windows,", windowed),
    ):
        if is_set:
            raise UserError(
                f"{key} does not go with context_parallel {size}; leave one of them out"
            )


def _tokens(cell: Cell, model: Decoder) -> tuple[str, int]:
    """Return what a device has of a micro batch's tokens: what that is, and how many."""
    values, context = cell.parameters, cell.parameters["context_parallel"]
    name = "micro_batch_size x seq_length" + (" / context_parallel" if context > 1 else "")
    return name, values["micro_batch_size"] * model.seq_length // context


def _check_experts(cell: Cell, cluster: Cluster, model: Decoder, *, llama: bool) -> None:
    """Refuse what experts do not go with."""
    values = cell.parameters
    if model.num_experts and not llama:
        raise UserError(
            f"num_experts is for a Llama, and {values['model']} is a GPT-2; leave it out"
        )
    expert_keys.check(values, model)
    if not model.num_experts:
        return
    grouped = values["moe_grouped_gemm"]
    for keys, cure, holds in (
        ("engine deepspeed", "set engine: torch", values["engine"] == DEEPSPEED),
        ("precision fp8", "take bf16", values["precision"] == "fp8"),
        (
            "compile model with expert_parallel",
            "set compile: block",
            values["compile"] == "model" and values["expert_parallel"] > 1,
        ),
        (
            "cuda_graphs without grouped products",
            "set moe_grouped_gemm: auto and precision: bf16",
            values["cuda_graphs"] and (grouped == "loop" or values["precision"] != "bf16"),
        ),
        (
            "moe_grouped_gemm grouped without bf16",
            "set precision: bf16",
            grouped == "grouped" and values["precision"] != "bf16",
        ),
    ):
        if holds:
            raise UserError(f"experts do not go with {keys}; {cure}")


def _check_tensor_parallel(cell: Cell, model: Decoder, *, llama: bool) -> None:
    """Refuse what a tensor group cannot share out: tokens, vocabulary, width of the MLP."""
    values = cell.parameters
    size = values["tensor_parallel"]
    width = model.ffn_hidden_size or 4 * model.hidden_size
    name = "ffn_hidden_size"
    if model.num_experts:
        width, name = model.moe_ffn_hidden_size, "moe_ffn_hidden_size"
    rows = math.gcd(width, GATE_ROWS) if llama else 1
    tokens, count = _tokens(cell, model)
    shared = {
        tokens: count,
        name if rows == 1 else f"{name} / {rows}": width // rows,
    }
    if shared_width := model.moe_shared_expert_intermediate_size:
        rows = math.gcd(shared_width, GATE_ROWS)
        shared[f"moe_shared_expert_intermediate_size / {rows}"] = shared_width // rows
    if values["vocab_size"]:
        multiple = VOCABULARY_MULTIPLE
        padded = -(-values["vocab_size"] // multiple) * multiple
        shared[f"vocab_size, padded to a multiple of {multiple},"] = padded
    for name, total in shared.items():
        if total % size:
            raise UserError(f"tensor_parallel {size} does not divide {name} {total}; change one")
    if size > 1 and values["cross_entropy_chunks"] == 0:
        raise UserError(
            "cross_entropy_chunks 0 has all logits on one device, and tensor_parallel splits them;"
            " leave it out"
        )


def _check_pipeline(cell: Cell) -> None:
    """Refuse what stages do not go with."""
    values = cell.parameters
    stages = values["pipeline_parallel"]
    if stages > 1 and values["zero_stage"]:
        raise UserError("pipeline_parallel goes with zero_stage 0 alone; change one")
    if stages > 1 and values["eval_iters"]:
        raise UserError("pipeline_parallel has no validation; set eval_iters: 0")
    if stages > 1 and values["compile"] == "model":
        raise UserError("pipeline_parallel goes with compile block or none; change one")
    micro = values["micro_batch_size"] * parallel_sizes(cell, gpt.WITH_CONTEXT)[DATA_PARALLEL]
    if values["global_batch_size"] // micro < stages:
        raise UserError(
            f"global_batch_size {values['global_batch_size']} makes fewer passes than"
            f" pipeline_parallel {stages}; make it {micro * stages} or more"
        )


def _check_precision(cell: Cell, cluster: Cluster, model: Decoder) -> None:
    """Refuse arithmetic that the device, or the other keys, do not go with."""
    values = cell.parameters
    precision, mixed = values["precision"], values["mixed_precision"]
    if precision == "fp16" and cluster.device == "cpu":
        raise UserError("precision fp16 needs a GPU; use bf16 or fp32 on a CPU")
    fits = {"fp32": (), "bf16": ("autocast", "master_weights"), "fp16": ("autocast",)}
    takes = fits.get(precision, ("master_weights",))
    if mixed and mixed not in takes:
        goes = f"goes with mixed_precision {takes[0]} alone" if takes else "has no mixed precision"
        raise UserError(f"precision {precision} {goes}; leave mixed_precision out")
    if precision != "fp8":
        return
    if cluster.device != "cuda":
        raise UserError("precision fp8 needs GPUs; use bf16 on a CPU")
    if values["compile"] == "none":
        raise UserError("precision fp8 without compile is slower than bf16; set compile: block")
    size = values["tensor_parallel"]
    tokens, count = _tokens(cell, model)
    widths = {
        "hidden_size": model.hidden_size,
        "hidden_size / tensor_parallel": model.hidden_size / size,
        "ffn_hidden_size / tensor_parallel": (model.ffn_hidden_size or 4 * model.hidden_size)
        / size,
        tokens: count,
    }
    for name, width in widths.items():
        if width % FP8_MULTIPLE:
            raise UserError(
                f"precision fp8 needs multiples of {FP8_MULTIPLE}, and {name} is {width:g}; change"
                " it, or take bf16"
            )


def _check_speed(cell: Cell, cluster: Cluster) -> None:
    """Refuse ways to be faster that a device or another key does not let go."""
    values = cell.parameters
    if cluster.device == "cpu" and values["attention_backend"] in ("cudnn", "efficient"):
        raise UserError(
            f"attention_backend {values['attention_backend']} needs a GPU; use auto, flash or math"
            " on a CPU"
        )
    if values["compile"] == "model" and values["zero_stage"] >= 2:
        raise UserError("compile model goes with zero_stage 0 and 1; set compile: block")
    for name in ("gradient_reduction", "grad_reduce_in_bf16"):
        if values[name]:
            _check_needs(
                name,
                ("zero_stage 2 or 3", values["zero_stage"] >= 2),
                ("engine torch", values["engine"] != DEEPSPEED),
            )
    if values["async_tensor_parallel"]:
        _check_needs(
            "async_tensor_parallel",
            ("GPUs", cluster.device == "cuda"),
            ("compile", values["compile"] != "none"),
            ("tensor_parallel of 2 or more", values["tensor_parallel"] > 1),
        )
    if values["cuda_graphs"]:
        _check_needs(
            "cuda_graphs",
            ("GPUs", cluster.device == "cuda"),
            ("zero_stage 0", values["zero_stage"] == 0),
            ("data_parallel 1", parallel_sizes(cell, gpt.WITH_CONTEXT)[DATA_PARALLEL] == 1),
            ("pipeline_parallel 1", values["pipeline_parallel"] == 1),
            ("another precision than fp16", values["precision"] != "fp16"),
        )


def _check_needs(name: str, *needs: tuple[str, bool]) -> None:
    lacking = [requirement for requirement, is_there in needs if not is_there]
    if lacking:
        raise UserError(f"{name} needs {' and '.join(lacking)}; leave it out, or change that")


def _check_deepspeed(cell: Cell, cluster: Cluster) -> None:
    """Refuse DeepSpeed without a pin set that has it, and what it or its launcher cannot do."""
    values = cell.parameters
    if values["engine"] == DEEPSPEED:
        if values["tensor_parallel"] * values["pipeline_parallel"] > 1:
            raise UserError(
                "engine deepspeed is data parallel only here; take engine: torch, or set"
                " tensor_parallel and pipeline_parallel to 1"
            )
        for key, is_set in (
            (f"compile {values['compile']}", values["compile"] not in ("auto", "none")),
            ("mixed_precision", values["mixed_precision"] is not None),
            ("precision fp8", values["precision"] == "fp8"),
            ("cuda_graphs", values["cuda_graphs"]),
        ):
            if is_set:
                raise UserError(f"engine deepspeed does not support {key} here; leave it out")
    wants = [name for name in ("engine", "launcher") if values[name] == DEEPSPEED]
    having = [name for name, pin in pins("torch_gpt").items() if "deepspeed" in pin]
    if wants and cell.pin not in having:
        raise UserError(
            f"{wants[0]} deepspeed is not in pin {cell.pin}; set pin: {having[0]}, and have it set"
            " up (torch_gpt_pin_sets)"
        )
    if values["launcher"] == DEEPSPEED:
        launchers.check_deepspeed(cell, cluster, keeps_signs=True)
