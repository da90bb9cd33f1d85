"""Faults that a cell has on purpose, and how it goes on after them. Pure data.

The standard library alone: run.json has them, which the launch plugin reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from node.schema import List, Number, Text, Whole
from node.supervisor.fault_kinds import KILL_NODE
from runner.base.dataclass_schema import shape

RESTART, SPARE, SHRINK, TORCHRUN, REQUEUE = "restart", "spare", "shrink", "torchrun", "requeue"
POLICIES = {
    RESTART: "all processes start again on the same nodes",
    SPARE: "a node that had the fault is replaced by the inventory's next one",
    SHRINK: "the run goes on without the node that had the fault",
    TORCHRUN: "torchrun itself starts the processes again, on the same nodes",
    REQUEUE: "Slurm puts the job back into its queue (slurm_requeue)",
}
MOST_FAULTS = 100  # of a run
MOST_S = 1e7
# One of KINDS where a matrix asks for it; a stored run may have one of another version.
Kind = Annotated[str, Text(r"[a-z_]{1,20}")]
Seconds = Annotated[float, Number(0, MOST_S)]
Count = Annotated[int, Whole(0, 100_000)]


@dataclass(frozen=True)
class Fault:
    """One fault: what, where, and when.

    `node` is the node's rank, `rank` the process of that node (for those of one process).
    It comes after `iteration` was logged; where that is 0, `after_s` seconds after its attempt's
    launcher began, and after all faults before it; in another attempt where one ended this. What
    ends by itself lasts `for_s`; 0: until the run ends.
    """

    kind: Kind
    node: Count = 0
    rank: Count = 0
    iteration: Annotated[int, Whole(0)] = 0
    after_s: Seconds = 0.0
    for_s: Seconds = 0.0

    @property
    def sentence(self) -> str:
        """Write `kill_rank 0 of node 1 after iteration 25`."""
        process = f" {self.rank} of" if self.kind != KILL_NODE else ""
        when = f"iteration {self.iteration}" if self.iteration else f"{self.after_s:.1f} s"
        lasts = f", for {self.for_s:g} s" if self.for_s else ""
        return f"{self.kind}{process} node {self.node} after {when}{lasts}"


@dataclass(frozen=True)
class FaultPlan:
    """What a cell's `faults` asks for."""

    planned: Annotated[tuple[Fault, ...], List(shape(Fault), MOST_FAULTS, make=tuple)] = ()

    @property
    def sentence(self) -> str:
        """Say in one line what will be done."""
        return "; ".join(fault.sentence for fault in self.planned)
