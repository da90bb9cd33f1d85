"""What is published: a campaign's rows, machines and environments, and who says so. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from node.printable import printable
from runner.figures.measured_cell import MeasuredCell
from runner.figures.publishable import CODES
from runner.tables.row import PUBLISHABLE, Row
from runner.terms.inspected import Inspected
from runner.terms.run import Run
from runner.terms.settings import Settings

UNTOLD = "not said"


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


@dataclass(frozen=True)
class Lock:
    """The packages of an environment, name to version, or why they are not known."""

    packages: Mapping[str, str]
    missing: str = ""


@dataclass(frozen=True)
class InstalledPin:
    """A pin set that cells ran with: its literals, what the nodes said that it is, its packages.

    `literals` is None of one that this version of TrainBench does not have. `patches` are files of
    this version, by the names that the pin set gives them; `other` says why some are not of those
    that were applied.
    """

    system: str
    name: str
    literals: Mapping[str, Any] | None
    identity: Mapping[str, Any]
    lock: Lock
    patches: Mapping[str, Path]
    other: str = ""

    @property
    def folder(self) -> str:
        """Its folder in the bundle."""
        return f"environment/{self.system}/{self.name}"


@dataclass(frozen=True)
class Publication:
    """A campaign, as it is published; `entity` may be empty, and then says so.

    `runs` has the run that describes each cell, by the cell's id. `day` is the last run's,
    YYYY-MM-DD, empty where none is known.
    """

    name: str
    settings: Settings
    table: Sequence[Row]
    cells: Sequence[MeasuredCell]
    runs: Mapping[str, Run]
    nodes: Mapping[str, Inspected]
    pins: Sequence[InstalledPin]
    refused: Sequence[Refused]
    entity: str
    day: str
    redacted: bool

    @property
    def theme(self) -> str:
        """Name the models, or what else was compared."""
        models = {str(row["parameters"].get("model") or "") for row in self.table}
        return ", ".join(sorted(filter(None, models))) or self.name

    @property
    def devices(self) -> list[str]:
        """Name the devices, each kind once."""
        names = (cell.record.device or cell.record.device_kind for cell in self.cells)
        return list(dict.fromkeys(filter(None, names)))
