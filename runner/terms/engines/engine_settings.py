"""What plans, matrices and inventories ask of what starts a cluster's runs. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, ClassVar, get_type_hints

from node.schema import AnyOf, List
from node.validated_text import Checked
from runner.base.dataclass_schema import kind_of


class OptionWord(Checked):
    """The value of a scheduler's option: it is in a line such as `#SBATCH --name=value`."""

    pattern = r"[^\s'\"\\#\x00-\x1f\x7f-\x9f\ud800-\udfff]+"
    most = 4_000
    description = "one word without blanks, quotes, '\\' and '#'"


class ShellLine(Checked):
    """A line of bash that a user has run on each node."""

    pattern = r"[^\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+"
    most = 4_000
    description = "one line of bash, such as module load cuda"


# What a cell asks of an engine: a word, or lines of bash.
CellAsks = Annotated[Any, AnyOf(OptionWord, List(ShellLine, 1_000, make=tuple))]
Placement = Mapping[str, CellAsks]
YES, NO = "true", "false"  # a flag, as a cell has it


@dataclass(frozen=True)
class EngineSettings:
    """How a cluster's runs are started; an engine derives from this class.

    Each field is a key of inventories; its metadata has the `key`, its `help`, and as `same`
    whether runs with another value belong to another campaign.
    """

    name: ClassVar[str]  # as cluster_engine has it
    title: ClassVar[str]  # as people call it
    launcher: ClassVar[str]  # MODULE:CLASS of its runner.launch.engine.Engine
    prefix: ClassVar[str] = ""  # of its keys
    page: ClassVar[str] = ""  # in docs/, with its keys
    cell_keys: ClassVar[Mapping[str, str]] = {}  # of a cell, each with the field that it replaces
    # Whether a run gets nodes, devices and port with a job, and its nodes share bench's folders.
    in_jobs: ClassVar[bool] = False
    over_ssh: ClassVar[bool] = True  # whether nodes let each other in
    starter: ClassVar[str] = ""  # a program that may start a node's task in a container
    job_variable: ClassVar[str] = ""  # which its jobs have in their environment
    # What helps against a code of runner/figures/publishable.py.
    cures: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def inventory_keys(cls) -> dict[str, str]:
        """Return its keys of an inventory, each with what it is."""
        return {setting.metadata["key"]: setting.metadata["help"] for setting in fields(cls)}

    @classmethod
    def required(cls) -> list[str]:
        """Return the keys that have no default."""
        return [setting.metadata["key"] for setting in fields(cls) if setting.default is MISSING]

    @classmethod
    def cell_value(cls, key: str, value: Any, where: str) -> str | tuple[str, ...]:
        """Read a key of a cell as the inventory's is read. Raises UnfitError."""
        kind = kind_of(get_type_hints(cls, include_extras=True)[cls.cell_keys[key]])
        checked = kind.check(value, where)
        if isinstance(checked, bool):
            return YES if checked else NO
        return checked if isinstance(checked, tuple) else str(checked)

    @property
    def facts(self) -> list[tuple[str, Any]]:
        """What runs of one campaign must have alike: the engine, and keys that are not default."""
        return [("engine", self.name), *self._own_facts()]

    def _own_facts(self) -> Iterator[tuple[str, Any]]:
        for setting in fields(self):
            if setting.metadata["same"] and getattr(self, setting.name) != setting.default:
                yield setting.name, getattr(self, setting.name)

    @property
    def job_nodes(self) -> int:
        """The most nodes that a job may have; 0 where the inventory's hosts are the nodes."""
        return 0

    @property
    def one_job(self) -> bool:
        """Whether all runs of a campaign are in one job."""
        return False

    @property
    def queues(self) -> bool:
        """Whether runs are jobs of their own, which need no bench."""
        return False

    def faults(self, device: str, devices: int) -> Iterable[str]:
        """Say what is wrong with keys together, and with what a node has."""
        return ()

    def cell_faults(
        self, placement: Placement, inventory: str, device: str, devices: int
    ) -> Iterator[str]:
        """Say what is wrong with what a cell asks of an engine, on so many devices of each node."""
        if unknown := [key for key in placement if key not in self.cell_keys]:
            yield (
                f"{unknown[0]} is a word for a scheduler, and cluster_engine of the inventory"
                f" {inventory} is {self.name}; take it out, or name another inventory with -i"
            )

    def setup_lines(self, placement: Placement) -> tuple[str, ...]:
        """Return what bash runs on each node before the trainer; a cell's win."""
        return ()

    def teardown_lines(self, placement: Placement) -> tuple[str, ...]:
        """Return what bash runs on each node once the run has ended."""
        return ()

    def without(self, hosts: Sequence[str]) -> Mapping[str, str]:
        """Return the key by which no run gets these hosts, and its value; empty without one."""
        return {}

    def setup_argv(self, command: Sequence[str]) -> tuple[str, ...]:
        """Return what runs setup in a job, where it must be in one; empty elsewhere."""
        return ()
