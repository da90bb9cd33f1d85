"""What a search chooses from: a candidate, its layout on the devices, and the machine's rates."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Knob = str | int | float | bool | None


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


@dataclass(frozen=True)
class TuneCandidate:
    """One setting that a search can run.

    `knobs` are the keys that differ between candidates and that `layout` does not have (a system,
    a compiler's mode, words of a command); of a candidate without a layout, all keys. Numbers above
    0 are compared by their ratio, everything else by equality.
    """

    id: str
    layout: Layout | None = None
    knobs: Mapping[str, Knob] = field(default_factory=dict)
    memory_mib: float | None = None  # estimate for the fullest device; None: unknown
    work: float = 1.0  # times are compared per work: 1, or tokens per step and device
    refused: str = ""  # why it cannot run; empty: it is legal


@dataclass(frozen=True)
class MachineRates:
    """What one device and its links do, as measured (doctor). Used to scale the components.

    The defaults are an A100 node's as people measure them, not a data sheet's: 8 devices with
    NVLink, an InfiniBand adapter of 200 Gbit/s per device.
    """

    matmul: float = 220e12  # FLOP/s of a large matrix product
    memory: float = 1.4e12  # bytes/s of a copy, read and written
    inside: float = 200e9  # bytes/s per device of a collective within a node (bus bandwidth)
    between: float = 20e9  # bytes/s per device of a collective between nodes
    measured: bool = False  # False: the scale of all times is uncertain
