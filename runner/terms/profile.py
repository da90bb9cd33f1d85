"""A profiler on a run: which, over which iterations and ranks. Data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from node.schema import OneOf, Whole
from runner.terms.orders import Line, Rank

TORCH, NSYS = "torch", "nsys"
TOOLS = (TORCH, NSYS)
DEFAULT_STEPS = (10, 12)
DEFAULT_NSYS = "/usr/local/cuda/bin/nsys"
WHOLE_RUN = 1 << 40  # iterations: more than any run has


@dataclass(frozen=True)
class Profile:
    """What a cell's `profile` asks for, with all defaults."""

    tool: Annotated[str, OneOf(*TOOLS)]
    first: Annotated[int, Whole(0)] = 0  # iterations from 1, both included; 0, 0: the whole run
    last: Annotated[int, Whole(0)] = 0
    ranks: tuple[Rank, ...] = ()  # none: all
    program: Line = ""  # nsys on the nodes

    @property
    def until(self) -> int:
        """The last iteration that it makes slower: it may write its trace in the one after."""
        return self.last + 1 if self.last else WHOLE_RUN

    @property
    def words(self) -> str:
        """Write `torch, iterations 10 to 12 of ranks 0, 8`."""
        steps = f"iterations {self.first} to {self.last}" if self.last else "the whole run"
        ranks = f"ranks {', '.join(map(str, self.ranks))}" if self.ranks else "all ranks"
        return f"{self.tool}, {steps} of {ranks}"

    def covers(self, ranks: range) -> bool:
        """Whether it traces one of the ranks."""
        return not self.ranks or any(rank in ranks for rank in self.ranks)
