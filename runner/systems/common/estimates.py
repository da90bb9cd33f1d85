"""What a GPT cell is expected to need, before it runs.

Memory: 18 % under to 4 % over what was in use on two H200, 11 % under to 15 % over what tensors had
(Llama 3 8B, 22 settings of torch_gpt and torchtitan). Time is good to a factor of two or three.
"""

from dataclasses import replace

from runner.figures.flops import Decoder

# Sustained TFLOP/s of one device for a rough time; measured figures replace it in the table.
# npu: from 59.7 samples/s of GPT-2 345M on 8 NPUs (document 004, table 2).
SUSTAINED_TFLOPS = {"cpu": 0.03, "cuda": 200.0, "npu": 25.0}
# Bytes that a layer keeps for each of a token's numbers: attention and norms 15, the MLP 19. Of
# those selective recomputation keeps queries, keys, values 6, attention and its product 4, and the
# MLP's two products 10.
ATTENTION_BYTES, MLP_BYTES = 15, 19
SELECTIVE_ATTENTION_BYTES, SELECTIVE_MLP_BYTES = 10, 10
GATHERED_COPIES = 4  # as they come and in order, and so their gradients
START_S = 15.0  # imports, rendezvous, first iteration
# Of a process that joined a group: RSS on a CPU (torch 2.13, gloo); on an H200 what the driver and
# NCCL take of the device beside torch's allocator (1,338 alone, 1,620 of two).
TORCH_PROCESS_MIB = {"cpu": 420.0, "cuda": 1500.0}


def parameters(shape: Decoder) -> int:
    """Count the weights with tied embeddings (arXiv:2104.04473, eq. 2), of all experts."""
    matrices = replace(shape, moe_router_topk=shape.num_experts).layer_weights
    per_hidden_unit = 13 * shape.num_layers + shape.vocab_size + shape.seq_length
    return int(matrices + per_hidden_unit * shape.hidden_size)


def expert_parameters(shape: Decoder) -> int:
    """Count those weights that are of routed experts."""
    matrices = 3 if shape.gated else 2
    expert = matrices * shape.hidden_size * shape.moe_ffn_hidden_size
    return shape.moe_layers * shape.num_experts * expert


def _kept_by_mlp(shape: Decoder, *, selective: bool) -> float:
    """Return the bytes of a token that an MLP, or the experts of a token, keep for backward.

    An expert keeps its copy of the input and its output, and three of its width.
    """
    if not shape.moe_layers:
        return (SELECTIVE_MLP_BYTES if selective else MLP_BYTES) * shape.hidden_size
    wide = 4 if selective else 6
    copies = 2 if selective else 4
    shared = wide * shape.moe_shared_expert_intermediate_size
    expert = copies * shape.hidden_size + wide * shape.moe_ffn_hidden_size
    return shape.moe_router_topk * expert + shared


def memory_mib(
    shape: Decoder,
    *,
    micro_batch_size: int,
    zero_stage: int,
    data_parallel: int,
    half: bool,
    activation_checkpointing: bool,
    flash_attention: bool = True,
    selective: bool = False,
    loss_tokens: int | None = None,
    expert_parallel: float = 1,
    gathered_tokens: int = 0,
    whole_gradient_bytes: int = 0,
) -> float:
    """Estimate the memory of one device in MiB: weights, gradients, Adam and activations.

    Model states as in ZeRO (arXiv:1910.02054, section 3), of fp32 weights, gradients and Adam:
    4+4+8 bytes a weight, divided by the stage; stage 2 has a copy of all weights to compute with.
    `whole_gradient_bytes`: of a weight's gradient, divided in an iteration's last pass alone; 0:
    in each. Activations as in Korthikanti et al. 2022 (arXiv:2205.05198), section 4: s*b*h*(34 +
    5*a*s/h) bytes a layer in half precision, without the attention term where attention is fused,
    and 2*s*b*h a layer when recomputed. `selective` keeps the results of products and attention.
    `loss_tokens` are those whose logits there are, `gathered_tokens` those whose keys and values a
    context group gathers, a layer at a time: as they come, in order, and the gradients of both.
    The devices of an expert group have a part of the experts each, and what is divided by the stage
    is divided over all.
    """
    experts = expert_parameters(shape)
    dense = parameters(shape) - experts
    per_group = dense + experts / expert_parallel
    bytes_weight, bytes_gradient, bytes_optimizer = (4, 4, 8)
    share = max(data_parallel, 1)
    split = (dense + experts) / share
    copy = (2 if half else 4) * per_group if zero_stage == 2 else 0
    gradients = bytes_gradient * (split if zero_stage >= 2 else per_group)
    states = (
        bytes_weight * (split if zero_stage >= 2 else per_group)
        + copy
        + (whole_gradient_bytes * per_group if whole_gradient_bytes else gradients)
        + bytes_optimizer * (split if zero_stage >= 1 else per_group)
    )
    tokens = shape.seq_length * micro_batch_size
    attention = 0 if flash_attention else 5 * shape.num_attention_heads * shape.seq_length
    stored_bytes = (SELECTIVE_ATTENTION_BYTES if selective else ATTENTION_BYTES) * shape.hidden_size
    layer = tokens * (stored_bytes + _kept_by_mlp(shape, selective=selective) + attention)
    if activation_checkpointing:
        activations = tokens * 2 * shape.hidden_size * shape.num_layers + layer
    else:
        activations = layer * shape.num_layers
    # Logits and their gradient, in single precision.
    logits = (loss_tokens or tokens) * shape.vocab_size * 8
    gathered = gathered_tokens * shape.key_value_size * 2 * GATHERED_COPIES
    return (states + (activations + gathered) * (1 if half else 2) + logits) / 2**20


def time_s(flops_per_iteration: float, train_iters: int, devices: int, device: str) -> float:
    """Estimate the seconds of a run, from sustained rates that such devices reach."""
    rate = SUSTAINED_TFLOPS[device] * 1e12 * devices
    return START_S + train_iters * flops_per_iteration / rate
