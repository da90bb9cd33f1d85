"""A campaign as data: what it began with, and what is fixed since; campaign.json is this."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from node.schema import Number, UnfitError, Whole
from runner.terms.cell import (
    FEWEST_REPEATS,
    MOST_REPEATS,
    MOST_RUNS,
    MOST_SEED,
    AskedCell,
    File,
    Seed,
    numbered,
    seeded,
)
from runner.terms.orders import Line


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What campaign.json holds.

    `table` and `published` are the matrix's, checked again by who shows them; `environment` has
    the pins and datasets that the first run was made with, None before. `machines` is
    `Cluster.facts` of the inventory, empty in campaigns of older versions. `imported`: its runs are
    logs from elsewhere (`python -m runner import`), so that bench does not go on with it.
    `redacted`: it is of an export without names.

    With `until_percent` cells are repeated until samples/s is known to that, `repeats` times at
    most. `tuned`: its cells are candidates, of which a search runs some.

    What the matrix took out after it had run is kept and hidden: `hidden` are such cells,
    `left_out` such repeats (from 1). So `repeats` counts all that there ever were, and `seeds`, if
    there are any, has an entry for each: None where it ran with the cell's own.
    """

    matrix: str = ""
    matrix_name: Line | None = None
    baseline: Line | None = None
    title: Line = ""
    description: Line = ""
    warmup_iters: int | None = None
    table: Mapping[str, Any] = field(default_factory=dict)
    published: tuple[Mapping[str, Any], ...] = ()
    repeats: Annotated[int, Whole(1, MOST_REPEATS)]
    shuffle_seed: Annotated[int, Whole(0, MOST_SEED)] | None = None
    until_percent: Annotated[float, Number(0)] | None = None
    seeds: tuple[Seed | None, ...] = ()
    left_out: tuple[Annotated[int, Whole(1, MOST_REPEATS)], ...] = ()
    target_loss: Annotated[float, Number(0)] | None = None
    cells: tuple[AskedCell, ...]
    hidden: tuple[AskedCell, ...] = ()
    inventory: File
    inventory_digest: Line = ""
    machines: Mapping[str, Any] = field(default_factory=dict)
    trainbench: Line = ""
    created_at: Annotated[float, Number(0)] = 0.0
    environment: Mapping[str, Any] | None = None
    tuned: bool = False
    imported: bool = False
    redacted: bool = False

    def __post_init__(self) -> None:
        """Refuse more runs than a table can have, and repeats without a seed of their own."""
        if self.seeds and len(self.seeds) != self.repeats:
            raise UnfitError(
                f"campaign.json: {len(self.seeds)} seeds for {self.repeats} repeats of each cell"
            )
        count = sum(len(self.repeats_of(cell)) for cell in self.cells)
        if count > MOST_RUNS:
            raise UnfitError(f"campaign.json: its cells have {count} runs, more than {MOST_RUNS}")

    def to_json(self) -> dict[str, Any]:
        """Return what campaign.json holds; what only some campaigns have is left out of others."""
        content = asdict(self)
        for cell in (*content["cells"], *content["hidden"]):
            if cell["repeats"] is None:
                del cell["repeats"]
        for key in ("environment", "until_percent"):
            if content[key] is None:
                del content[key]
        for key in ("tuned", "imported", "redacted", "hidden", "left_out"):
            if not content[key]:
                del content[key]
        return content

    def repeats_of(self, cell: AskedCell) -> list[int]:
        """Return which repeats a cell has, from 1; of imported logs each cell its own number."""
        if cell.repeats is not None:
            return list(range(1, cell.repeats + 1))
        return numbered(self.repeats, self.left_out)

    def if_needed(self, cell: AskedCell, repeat: int) -> bool:
        """Whether a repeat runs only if those before it do not tell enough (`until_percent`), or a
        search asks for it.
        """
        if self.tuned:
            return True
        repeats = self.repeats_of(cell)[:FEWEST_REPEATS]
        return self.until_percent is not None and repeat not in repeats

    def asked(self) -> Iterator[tuple[AskedCell, int]]:
        """Yield each repeat of each cell, with its seed, in the matrix's order."""
        for cell in self.cells:
            for repeat in self.repeats_of(cell):
                yield seeded(cell, self.seeds, repeat), repeat
