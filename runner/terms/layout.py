"""How a training is laid out on devices."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Layout:
    """How one training is laid out on devices. Counts have no unit.

    tensor_parallel * context_parallel * data_parallel * pipeline_parallel is `devices`. Ranks are
    ordered as Megatron orders them: tensor parallel ranks are neighbours, pipeline stages are
    farthest apart.
    """

    devices: int
    devices_per_node: int
    global_batch_size: int  # samples per step, of all devices
    micro_batch_size: int  # samples per data parallel rank and pass
    sequence_length: int  # tokens
    layers: int
    hidden: int
    heads: int
    vocabulary: int = 50_304
    layer_weights: int | None = None  # weights of one layer; None: 12 * hidden ** 2, as in GPT
    tensor_parallel: int = 1
    data_parallel: int = 1
    pipeline_parallel: int = 1
    context_parallel: int = 1
    virtual_stages: int = 1  # stages per device of an interleaved schedule
    zero_stage: int = 0
    recompute: Literal["none", "selective", "full"] = "none"
    sequence_parallel: bool = False
    fused_attention: bool = False  # scores are not written to memory
    value_bytes: int = 2  # of an activation and a weight
    matmul_share: float = 1.0  # matrix rate of its precision, relative to MachineRates.matmul

    @property
    def micro_batches(self) -> float:
        """Micro batches per data parallel rank and step."""
        return self.global_batch_size / (self.micro_batch_size * self.data_parallel)
