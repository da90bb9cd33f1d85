"""Arithmetic intensity: model FLOPs of a step by the bytes of device memory that it moves. Pure.

The bytes are counted, not measured: what the fused kernels of a GPT in half precision move at least
(training_step.py, made of what torch.compile makes of the reference trainer). A trainer that fuses
less moves more, and lies to the left of where it is drawn.
"""

from runner.figures.flops import Decoder
from runner.figures.training_step import Step
from runner.terms.record import DATA_PARALLEL, Record

HALF = ("bf16", "fp16")
_COUNTED = (DATA_PARALLEL, "tensor_parallel")  # the splits whose bytes are


def flop_per_byte(record: Record, vocab_size: int) -> tuple[float | None, str]:
    """Return FLOPs a byte of an iteration on one device; None and why it is not known."""
    model, micro, batch = record.model, record.micro_batch_size, record.global_batch_size
    if why := _uncounted(record):
        return None, why
    assert isinstance(model, Decoder)
    assert micro
    assert batch
    tensor, data = (record.parallel_size(n) for n in ("tensor_parallel", DATA_PARALLEL))
    data = max(data, record.world_size // tensor)
    passes = max(batch // (micro * data), 1)
    step = Step(model, micro, tensor, data, int(record.parameters.get("zero_stage") or 0))
    flops = model.flops(vocab_size=vocab_size) * micro * passes / tensor
    return flops / step.moved(passes), ""


def _uncounted(record: Record) -> str:
    """Say why the bytes of a cell's step are not counted; empty where they are."""
    if type(record.model) is not Decoder or record.model.moe_layers:
        return "the bytes of its kind of model are not counted"
    if record.arithmetic not in HALF:
        return "the bytes are counted for bf16 and fp16 alone"
    if not record.micro_batch_size or not record.global_batch_size:
        return "its batch sizes are not known"
    kept = record.parameters.get("activation_checkpointing") in (None, False, "none")
    if record.activation_checkpointing or not kept:
        return "the bytes of activations that are computed again are not counted"
    others = (
        f"{n} {size}" for n, size in record.parallel.items() if size > 1 and n not in _COUNTED
    )
    split = next(others, "")
    return f"the bytes with {split} are not counted" if split else ""
