"""What a search chooses from: a candidate, and the machine's rates."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from runner.terms.layout import Layout

Knob = str | int | float | bool | None


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
