"""A matrix and its cells as data: what is to be compared, and how a key of a cell is read."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, TypeVar

from node.schema import AnyOf, OneOf, Text, Whole
from node.validated_text import CellId, FileName
from runner.base.errors import UserError
from runner.terms.engines.engine_settings import CellAsks
from runner.terms.engines.engine_table import PLACEMENT
from runner.terms.faults import POLICIES, SPARE, FaultPlan
from runner.terms.orders import MOST_NODES, Rank, Variable
from runner.terms.profile import Profile
from runner.terms.tuning import Tuning

MOST_CELLS = 10_000  # of one campaign
MOST_REPEATS = 1_000  # of each of its cells
FEWEST_REPEATS = 3  # that tell how runs differ
MOST_RUNS = 100_000  # cells x repeats
MOST_SEED = 2**32 - 1
SEED = "seed"  # the parameter of a system that has one
File = Annotated[str, FileName]
FileIfAny = Annotated[str, AnyOf(OneOf(""), FileName)]
Count = Annotated[int, Whole(1, MOST_NODES)]
Placed = Annotated[str, OneOf(*PLACEMENT)]
Seed = Annotated[int, Whole(0, MOST_SEED)]
AnyCell = TypeVar("AnyCell", bound="Cell")


# Parameters of `system: command` by which a log is read and counted.
OF_READING = (
    "log",
    "samples_per_step",
    "tokens_per_sample",
    "model_flops_per_token",
    "architecture",
)


@dataclass(frozen=True)
class Cell:
    """One point of the matrix, with every parameter resolved (defaults included).

    `id` names its folder: the name, made safe, and a hash of everything that runs. One that was
    recorded stays, as a later version may know parameters that it does not have. `pin` is "" where
    setup brought nothing for it, `dataset` where it reads none of setup's. `placement` is what it
    asks of a scheduler in place of the inventory's key of that name. With a `profile` a profiler
    runs along. `faults` are caused on purpose; `recovery` says how it goes on after a failure ("":
    it does not).
    """

    name: Annotated[str, Text(most=100_000)]
    system: File
    pin: FileIfAny
    dataset: FileIfAny
    nodes: Count
    devices_per_node: Count
    device_ids: tuple[Rank, ...] | None
    env: Mapping[Variable, str]
    parameters: Mapping[str, Any]
    axes: Mapping[str, Any] = field(default_factory=dict)
    placement: Mapping[Placed, CellAsks] = field(default_factory=dict)
    id: Annotated[str, CellId] = ""
    profile: Profile | None = None
    faults: FaultPlan | None = None
    recovery: Annotated[str, OneOf("", *POLICIES)] = ""

    def __post_init__(self) -> None:
        """Name the folder, unless it is recorded."""
        if not self.id:
            safe = re.sub(r"[^A-Za-z0-9._=,+-]+", "_", self.name)[:80]
            object.__setattr__(self, "id", f"{safe}-{self.digest}")

    @property
    def world_size(self) -> int:
        """Processes of the cell, one a device."""
        return self.nodes * self.devices_per_node

    @property
    def nodes_held(self) -> int:
        """Nodes that it may run on, a spare one included."""
        return self.nodes + (self.recovery == SPARE)

    @property
    def goes_on(self) -> bool:
        """Whether an attempt may go on from an earlier one's checkpoint."""
        saves = self.parameters.get("checkpoint_interval") or self.parameters.get("resumes")
        return bool(self.faults or self.recovery or saves)

    @property
    def digest(self) -> str:
        """Eight hex digits over all resolved values; two cells that run the same share it.

        How a log is read and counted does not change what runs.
        """
        facts = [
            self.system,
            self.pin,
            self.dataset,
            self.nodes,
            self.devices_per_node,
            self.device_ids,
            sorted(self.env.items()),
            # A parameter that the system derives itself is left out, so that a new one, not set,
            # changes no cell's identity.
            sorted(
                (key, value)
                for key, value in self.parameters.items()
                if value is not None and key not in OF_READING
            ),
            *([sorted(self.placement.items())] if self.placement else []),
            *([asdict(self.profile)] if self.profile else []),
            *([asdict(self.faults)] if self.faults else []),
            *([self.recovery] if self.recovery else []),
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:8]


@dataclass(frozen=True)
class AskedCell(Cell):
    """A cell as campaign.json has it; of imported logs with its own number of `repeats`."""

    repeats: Annotated[int, Whole(0, MOST_REPEATS)] | None = None


def seeded(cell: AnyCell, seeds: Sequence[int | None], repeat: int) -> AnyCell:
    """Return the cell as this repeat (from 1) runs it: with its seed, under the same id."""
    if not seeds or seeds[repeat - 1] is None:
        return cell
    return replace(cell, parameters={**cell.parameters, SEED: seeds[repeat - 1]})


def numbered(repeats: int, left_out: Collection[int] = ()) -> list[int]:
    """Return the numbers of the repeats that a matrix names, of all that there ever were."""
    return [number for number in range(1, repeats + 1) if number not in left_out]


@dataclass(frozen=True)
class Matrix:
    """A campaign's cells and how each is run. `text` is the file as it was read.

    `warmup_iters` None: found in each run's steps. `layout` is the file's `table`, `published` its
    list of documents, both checked (layouts.py, published.py of runner/matrix) and still plain
    data, as campaign.json holds them. `seeds` has one for each repeat, or none. Of a campaign that
    ran before, `repeats` and `seeds` are those of all its repeats, without those `left_out`
    (`Settings`). With `until_percent` a cell is repeated until samples/s is known to that,
    `repeats` times at most. With `tune` the cells are candidates, of which a search runs some.
    `pins` are pin sets of its own, by name, each whole (runner/matrix/pins_key.py).
    `searched`: what runs of it is decided by what ran, as a bisection does.
    """

    name: str
    cells: tuple[Cell, ...]
    repeats: int = 1
    seeds: tuple[int | None, ...] = ()
    left_out: tuple[int, ...] = ()
    target_loss: float | None = None
    shuffle_seed: int | None = None
    until_percent: float | None = None
    warmup_iters: int | None = None
    time_limit_s: float = 3600.0
    stall_limit_s: float = 1800.0
    baseline: str | None = None
    title: str = ""
    description: str = ""
    text: str = ""
    layout: Mapping[str, Any] = field(default_factory=dict)
    published: Sequence[Mapping[str, Any]] = ()
    tune: Tuning | None = None
    pins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    searched: bool = False

    @property
    def numbers(self) -> list[int]:
        """Return which repeats of each cell are to run, at most."""
        return numbered(self.repeats, self.left_out)

    @property
    def first_numbers(self) -> list[int]:
        """Return which repeats run whatever comes out."""
        return self.numbers if self.until_percent is None else self.numbers[:FEWEST_REPEATS]


def first_repeat(matrix: Matrix, cell: AnyCell) -> AnyCell:
    """Return the cell as the first of its repeats runs it."""
    return seeded(cell, matrix.seeds, matrix.numbers[0])


@dataclass(frozen=True)
class Parameter:
    """One key that a matrix may set for a system.

    `kind` is int, float, bool or str; `default` None means that the system derives it. `help`
    says what it is, with its unit. `older` is what cells did that were recorded before there was
    this key, where that is not the default. `once` has what false and true of a key that was bool
    are called today.
    """

    name: str
    kind: type
    default: Any
    help: str
    choices: tuple[Any, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    older: Any = None
    once: tuple[Any, Any] | None = None

    def recorded(self, values: Mapping[str, Any], where: str) -> Any:
        """Read the value of a recorded cell, as old as it may be."""
        value = values.get(self.name, self.older)
        if self.once and isinstance(value, bool):
            value = self.once[value]
        return self.read(value, where)

    def read(self, value: Any, where: str) -> Any:
        """Read the value, typed. Raises UserError naming the key, what is wrong and what it
        may be.
        """
        key = f"{where}: {self.name}"
        if value is None:
            return self.default
        if self.kind is not bool and isinstance(value, bool):
            today = f", so write {self.once[value]}" if self.once else ""
            raise UserError(f"{key} is {str(value).lower()}; it must be {self.wanted()}{today}")
        if self.kind is float and isinstance(value, int | str):
            try:
                value = float(value)
            except (ValueError, OverflowError):
                raise UserError(f"{key} is {value!r}; it must be {self.wanted()}") from None
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{key} is {value}; it must be {self.wanted()}")
        if not isinstance(value, self.kind):
            raise UserError(f"{key} is {value!r}; it must be {self.wanted()}")
        if self.choices and value not in self.choices:
            raise UserError(f"{key} is {value!r}; it must be {self.wanted()}")
        if isinstance(value, int | float) and not self._is_within(value):
            raise UserError(f"{key} is {value}; it must be {self.wanted()}")
        return value

    def _is_within(self, value: float) -> bool:
        least = -math.inf if self.minimum is None else self.minimum
        return least <= value <= (math.inf if self.maximum is None else self.maximum)

    def wanted(self) -> str:
        """Say what the key may be, for people."""
        if self.choices:
            return "one of " + ", ".join(str(choice) for choice in self.choices)
        name = {
            int: "a whole number",
            float: "a number",
            bool: "true or false",
            str: "text",
            list: "a list",
            dict: "a mapping",
            object: "text, a number or a mapping",
        }
        if self.maximum is not None:
            return f"{name[self.kind]} of {self.minimum or 0} to {self.maximum}"
        if self.minimum is not None:
            return f"{name[self.kind]} of at least {self.minimum:g}"
        return name[self.kind]
