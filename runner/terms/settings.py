"""A campaign as data: what it began with, and what is fixed since; campaign.json is this."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from node.schema import Number, UnfitError, Whole
from runner.terms.cell import MOST_REPEATS, MOST_RUNS, MOST_SEED, AskedCell, File, seeded
from runner.terms.orders import Line


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What campaign.json holds.

    `table` and `published` are the matrix's, checked again by who shows them; `environment` has
    the pins and datasets that the first run was made with, None before. `imported`: its runs are
    logs from elsewhere (`python -m runner import`), so that bench does not go on with it.
    """

    matrix: str = ""
    matrix_name: Line | None = None
    baseline: Line | None = None
    warmup_iters: int | None = None
    table: Mapping[str, Any] = field(default_factory=dict)
    published: tuple[Mapping[str, Any], ...] = ()
    repeats: Annotated[int, Whole(1, MOST_REPEATS)]
    shuffle_seed: Annotated[int, Whole(0, MOST_SEED)] | None = None
    seeds: tuple[Annotated[int, Whole(0, MOST_SEED)], ...] = ()
    target_loss: Annotated[float, Number(0)] | None = None
    cells: tuple[AskedCell, ...]
    inventory: File
    inventory_digest: Line = ""
    trainbench: Line = ""
    created_at: Annotated[float, Number(0)] = 0.0
    environment: Mapping[str, Any] | None = None
    imported: bool = False

    def __post_init__(self) -> None:
        """Refuse more runs than a table can have, and repeats without a seed of their own."""
        if self.seeds and len(self.seeds) != self.repeats:
            raise UnfitError(
                f"campaign.json: {len(self.seeds)} seeds for {self.repeats} repeats of each cell"
            )
        count = sum(self.repeats if c.repeats is None else c.repeats for c in self.cells)
        if count > MOST_RUNS:
            raise UnfitError(f"campaign.json: its cells have {count} runs, more than {MOST_RUNS}")

    def to_json(self) -> dict[str, Any]:
        """Return what campaign.json holds; what only some campaigns have is left out of others."""
        content = asdict(self)
        for cell in content["cells"]:
            if cell["repeats"] is None:
                del cell["repeats"]
        if self.environment is None:
            del content["environment"]
        if not self.imported:
            del content["imported"]
        return content

    def asked(self) -> Iterator[tuple[AskedCell, int]]:
        """Yield each repeat of each cell, with its seed, in the matrix's order, from 1.

        In a campaign of reruns each cell has as many as were asked for.
        """
        for cell in self.cells:
            count = self.repeats if cell.repeats is None else cell.repeats
            for repeat in range(1, count + 1):
                yield seeded(cell, self.seeds, repeat), repeat
