"""Which cells may not be published, why, and what to do. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from node.printable import printable
from runner.figures.publishable import CODES
from runner.tables.row import PUBLISHABLE, Row


@dataclass(frozen=True)
class Refused:
    """A cell that is not publishable: its codes to why, worst first."""

    cell: str
    why: Mapping[str, str]

    @property
    def words(self) -> str:
        """Say it in a line: each code, why, and the cure of the worst."""
        whys = "; ".join(f"{code}: {printable(why)}" for code, why in self.why.items())
        return f"{printable(self.cell)}: {whys}. {CODES[next(iter(self.why))].cure}."


def refused(table: Sequence[Row]) -> list[Refused]:
    """Return the cells that are not publishable, in the table's order."""
    return [
        Refused(row["cell"], row["verdict_reasons"])
        for row in table
        if row["verdict"] != PUBLISHABLE
    ]
