"""What a GPT cell is expected to need, before it runs. Estimates, good to a factor of two."""

from dataclasses import replace

from runner.figures.flops import Decoder

# Sustained TFLOP/s of one device for a rough time; measured figures replace it in the table.
# npu: from 59.7 samples/s of GPT-2 345M on 8 NPUs (document 004, table 2).
SUSTAINED_TFLOPS = {"cpu": 0.03, "cuda": 200.0, "npu": 25.0}
# Of a layer's 34 bytes: queries, keys, values 6, attention and its product 4, the MLP's two 10.
SELECTIVE_BYTES = 20
START_S = 15.0  # imports, rendezvous, first iteration
TORCH_PROCESS_MIB = 420.0  # RSS of a CPU process that imported torch 2.13 and joined a gloo group


def parameters(shape: Decoder) -> int:
    """Count the weights with tied embeddings (arXiv:2104.04473, eq. 2), of all experts."""
    matrices = replace(shape, moe_router_topk=shape.num_experts).layer_weights
    rest = 13 * shape.num_layers + shape.vocab_size + shape.seq_length
    return int(matrices + rest * shape.hidden_size)


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
) -> float:
    """Estimate the memory of one device in MiB: weights, gradients, Adam and activations.

    Model states as in ZeRO (arXiv:1910.02054, section 3): 2+2+12 bytes a weight in mixed
    precision, 4+4+8 in single, divided by the stage. Activations as in Korthikanti et al. 2022
    (arXiv:2205.05198), section 4: s*b*h*(34 + 5*a*s/h) bytes a layer in half precision, without
    the attention term where attention is fused, and 2*s*b*h a layer when recomputed. `selective`
    keeps the results of products and attention. `loss_tokens` are those whose logits there are.
    """
    weights = parameters(shape)
    bytes_weight, bytes_gradient, bytes_optimizer = (4, 4, 8)
    share = max(data_parallel, 1)
    states = weights * (
        bytes_weight / (share if zero_stage >= 3 else 1)
        + bytes_gradient / (share if zero_stage >= 2 else 1)
        + bytes_optimizer / (share if zero_stage >= 1 else 1)
    )
    tokens = shape.seq_length * micro_batch_size
    attention = 0 if flash_attention else 5 * shape.num_attention_heads * shape.seq_length
    kept = SELECTIVE_BYTES if selective else 34
    layer = tokens * (kept * shape.hidden_size + attention)
    if activation_checkpointing:
        activations = tokens * 2 * shape.hidden_size * shape.num_layers + layer
    else:
        activations = layer * shape.num_layers
    # Logits and their gradient, in single precision.
    logits = (loss_tokens or tokens) * shape.vocab_size * 8
    return (states + activations * (1 if half else 2) + logits) / 2**20


def time_s(flops_per_iteration: float, train_iters: int, devices: int, device: str) -> float:
    """Estimate the seconds of a run, from sustained rates that such devices reach."""
    rate = SUSTAINED_TFLOPS[device] * 1e12 * devices
    return START_S + train_iters * flops_per_iteration / rate
