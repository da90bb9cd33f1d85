"""How a cluster's runs are asked of Slurm: each key `slurm_*` of an inventory is a field here.

A word that Slurm itself would judge (a partition's name) is only checked for its shape: `bench`
asks `sbatch --test-only` for the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, Literal

from node.schema import AnyOf, Whole
from runner.terms.engines.engine_settings import (
    NO,
    YES,
    EngineSettings,
    OptionWord,
    Placement,
    ShellLine,
)
from runner.terms.engines.slurm_options import (
    BINDING,
    CELL,
    SlurmOption,
    device_faults,
    option_faults,
)
from runner.terms.orders import MOST_NODES

PREFIX = "slurm_"
# Keys of a cell that hold for its step, so that an allocation takes them, too.
OF_A_STEP = ("setup", "teardown", "srun_args")
# Those that sbatch is asked for in place of the inventory's; the first four have no prefix.
OF_A_JOB = (
    *("partition", "constraint", "nodelist", "exclude"),
    *("account", "qos", "reservation", "gres", "gpus_per_node", "cpus_per_task", "mem"),
    *("exclusive", "exclusive_user", "switches", "nice", "dependency", "comment", "options"),
)
MODES = ("job", "allocation")
OF_DEVICES = ("gres", "gpus_per_node")  # two ways to ask for the same
COMMENTED = ","  # between the mark in a job's comment and the user's word
MOST_JOBS = 10_000
MOST_CPUS = 1_000_000
MOST_MARGIN_S = 86_400
MOST_NICE = 2**31 - 3


class _NumberedWord:
    """A word of Slurm's that YAML may take for a number."""

    def __init__(self, least: int = 0) -> None:
        self.kind = AnyOf(Whole(least), OptionWord)

    def check(self, value: Any, where: str) -> str:
        """Return the word."""
        return str(self.kind.check(value, where))

    def json_schema(self) -> dict[str, Any]:
        """Return the same as JSON schema."""
        return self.kind.json_schema()


Word = Annotated[str, OptionWord]
Numbered = Annotated[str, _NumberedWord()]
Cpus = Annotated[int, Whole(1, MOST_CPUS)]


def _key(name: str, help: str, *, same: bool = True, option: bool = False) -> dict[str, Any]:
    """Describe a key; `same`: runs with another value are another campaign's; `option`: sbatch has
    one of that name.
    """
    return {"key": f"{PREFIX}{name}", "help": help, "same": same, "option": option}


@dataclass(frozen=True)
class Slurm(EngineSettings):
    """How runs are asked of Slurm: in what mode, of which partition, with what of a node."""

    name: ClassVar[str] = "slurm"
    title: ClassVar[str] = "Slurm"
    launcher: ClassVar[str] = "runner.launch.slurm.slurm_engine:SlurmEngine"
    prefix: ClassVar[str] = PREFIX
    page: ClassVar[str] = "slurm.md"
    cell_keys: ClassVar[Mapping[str, str]] = {
        **{name: name for name in OF_A_JOB[:4]},
        **{f"{PREFIX}{name}": name for name in (*OF_A_JOB[4:], *OF_A_STEP)},
    }
    in_jobs: ClassVar[bool] = True
    over_ssh: ClassVar[bool] = False
    starter: ClassVar[str] = "srun"
    job_variable: ClassVar[str] = "SLURM_JOB_ID"
    cures: ClassVar[Mapping[str, str]] = {
        "side_by_side": "slurm_mode: allocation, or slurm_most_jobs: 1",
        "other_nodes": "on Slurm: slurm_mode: allocation, or a slurm_nodelist",
    }

    nodes: Annotated[int, Whole(1, MOST_NODES)] = field(
        metadata=_key("nodes", "nodes that a run may have at most", same=False)
    )
    mode: Literal["job", "allocation"] = field(
        default="job",
        metadata=_key(
            "mode",
            "what a campaign asks for: job (one job per run, side by side as the queue allows) or"
            " allocation (one for all of it, whose nodes its runs have one after the other)",
        ),
    )
    most_jobs: Annotated[int, Whole(1, MOST_JOBS)] = field(
        default=64,
        metadata=_key("most_jobs", "jobs that one campaign has in the queue at once", same=False),
    )
    account: Word | None = field(
        default=None, metadata=_key("account", "account that is charged", same=False, option=True)
    )
    partition: Word | None = field(
        default=None, metadata=_key("partition", "partition, or several with commas", option=True)
    )
    qos: Word | None = field(
        default=None, metadata=_key("qos", "quality of service", same=False, option=True)
    )
    constraint: Word | None = field(
        default=None,
        metadata=_key("constraint", "features that nodes must have, such as a100&ib", option=True),
    )
    exclusive: bool = field(
        default=False,
        metadata=_key("exclusive", "whether nodes are shared with no other job", option=True),
    )
    exclusive_user: bool = field(
        default=False,
        metadata=_key(
            "exclusive_user",
            "whether nodes are shared with this user's jobs alone, as by --exclusive=user",
        ),
    )
    gres: Word | None = field(
        default=None,
        metadata=_key(
            "gres",
            "generic resources of each node, such as gpu:a100:8 or gpu:cell; none where Slurm knows"
            " of no GPUs",
            option=True,
        ),
    )
    gpus_per_node: Numbered | None = field(
        default=None,
        metadata=_key(
            "gpus_per_node",
            "GPUs of each node, such as 8 or a100:8, or `cell`, `a100:cell`: as many as the cell"
            " uses; in place of slurm_gres",
            option=True,
        ),
    )
    cpus_per_task: Cpus | None = field(
        default=None,
        metadata=_key("cpus_per_task", "CPUs of each node, which its tasks share", option=True),
    )
    mem: Numbered | None = field(
        default=None,
        metadata=_key("mem", "memory of each node, such as 500G; 0 is all of it", option=True),
    )
    reservation: Word | None = field(
        default=None,
        metadata=_key("reservation", "reservation that runs are in", same=False, option=True),
    )
    nodelist: Word | None = field(
        default=None,
        metadata=_key(
            "nodelist", "nodes that each run must have, such as n[01-04]", same=False, option=True
        ),
    )
    exclude: Word | None = field(
        default=None,
        metadata=_key(
            "exclude",
            "nodes that no run may have, such as n07; doctor names them",
            same=False,
            option=True,
        ),
    )
    switches: Numbered | None = field(
        default=None,
        metadata=_key(
            "switches",
            "leaf switches at most, and how long to wait for that, such as 1@10:00",
            option=True,
        ),
    )
    nice: Annotated[int, Whole(-MOST_NICE, MOST_NICE)] | None = field(
        default=None, metadata=_key("nice", "how much other jobs go first", same=False, option=True)
    )
    dependency: Word | None = field(
        default=None,
        metadata=_key(
            "dependency",
            "what each job waits for, such as afterok:1234 or singleton",
            same=False,
            option=True,
        ),
    )
    comment: Word | None = field(
        default=None,
        metadata=_key(
            "comment",
            "word behind bench's own in each job's comment, for a site's accounting",
            same=False,
        ),
    )
    mpi: Word | None = field(
        default=None, metadata=_key("mpi", "what srun's --mpi is (default none)")
    )
    requeue: bool = field(
        default=False,
        metadata=_key(
            "requeue",
            "whether Slurm may start a job again that lost a node or was"
            " preempted; each start is an attempt of its own",
            same=False,
        ),
    )
    setup_in_job: bool = field(
        default=False,
        metadata=_key(
            "setup_in_job",
            "whether what setup builds needs a compute node, so that it runs in a job",
            same=False,
        ),
    )
    time_margin_s: Annotated[int, Whole(60, MOST_MARGIN_S)] = field(
        default=300,
        metadata=_key(
            "time_margin_s",
            "seconds that a job may have beyond the matrix's time_limit_s, to prepare and to end",
            same=False,
        ),
    )
    setup: tuple[ShellLine, ...] = field(
        default=(),
        metadata=_key(
            "setup",
            "lines that bash runs on each node before the trainer, such as module load cuda; the"
            " trainer gets the variables that they set",
        ),
    )
    teardown: tuple[ShellLine, ...] = field(
        default=(),
        metadata=_key(
            "teardown", "lines that bash runs on each node once the run has ended, however it did"
        ),
    )
    srun_args: tuple[SlurmOption, ...] = field(
        default=(),
        metadata=_key(
            "srun_args",
            "list of options of srun's that place a run's tasks, such as --cpu-bind=cores or"
            " --distribution=block:block (default --cpu-bind=none)",
        ),
    )
    variables: bool = field(
        default=False,
        metadata=_key(
            "variables",
            "whether trainers get SLURM_* of their node's task, as they do by launcher srun",
        ),
    )
    options: tuple[SlurmOption, ...] = field(
        default=(),
        metadata=_key("options", "list of further options of sbatch's, such as --licenses=nccl:4"),
    )

    @property
    def facts(self) -> list[tuple[str, Any]]:
        """Do as EngineSettings', without the name: campaigns are recorded so."""
        return list(self._own_facts())

    @property
    def job_nodes(self) -> int:
        """Do as EngineSettings'."""
        return self.nodes

    @property
    def one_job(self) -> bool:
        """Do as EngineSettings'."""
        return self.mode == "allocation"

    @property
    def queues(self) -> bool:
        """Do as EngineSettings'."""
        return self.mode == "job"

    def faults(self, device: str, devices: int) -> Iterator[str]:
        """Do as EngineSettings'."""
        yield from self._option_faults(self.options, self.srun_args)
        yield from device_faults(self.gres, self.gpus_per_node, device, devices)

    def cell_faults(
        self, placement: Placement, inventory: str, device: str, devices: int
    ) -> Iterator[str]:
        """Do as EngineSettings'."""
        yield from super().cell_faults(placement, inventory, device, devices)
        of_jobs = [key for key in placement if self.cell_keys.get(key) not in OF_A_STEP]
        if of_jobs and self.one_job:
            key = of_jobs[0]
            yield (
                f"{key} is asked for a job of the cell's own, and all cells have one allocation"
                f" (slurm_mode of the inventory {inventory}); set {PREFIX}{self.cell_keys[key]}"
                " there"
            )
        lists = ("slurm_options", "slurm_srun_args")
        options = {name: tuple(map(SlurmOption, placement.get(name, ()))) for name in lists}
        yield from self._option_faults(options["slurm_options"], options["slurm_srun_args"])
        if of_devices := self._devices(placement):
            yield from device_faults(*of_devices, device, devices)

    def _option_faults(
        self, options: Sequence[SlurmOption], srun_args: Sequence[SlurmOption]
    ) -> Iterator[str]:
        keys = {option: f"{PREFIX}{name}" for option, name in OPTIONS.items()}
        keys |= {name: f"{PREFIX}{name}" for name in ("mpi", "requeue", "comment")}
        yield from option_faults("slurm_options", options, keys, BINDING)
        yield from option_faults("slurm_srun_args", srun_args, keys)

    def _devices(self, placement: Placement) -> tuple[str | None, str | None] | None:
        """Return what a cell asks in place of the inventory's GPUs: gres, GPUs of a node; None
        where it names neither.
        """
        gres, gpus = (placement.get(f"{PREFIX}{name}") for name in OF_DEVICES)
        return None if gres is None and gpus is None else (gres, gpus)

    def without(self, hosts: Sequence[str]) -> Mapping[str, str]:
        """Do as EngineSettings', beside those that are left out already."""
        return {"slurm_exclude": ",".join(filter(None, [self.exclude, *hosts]))}

    def setup_argv(self, command: Sequence[str]) -> tuple[str, ...]:
        """Do as EngineSettings'."""
        queue_options = self.asked({}, devices=1)
        one_node = ("srun", "--nodes=1", "--ntasks=1", *queue_options, *self.options)
        return (*one_node, *command) if self.setup_in_job else ()

    def setup_lines(self, placement: Placement) -> tuple[str, ...]:
        """Do as EngineSettings'."""
        return tuple(self.asked_as("setup", placement))

    def teardown_lines(self, placement: Placement) -> tuple[str, ...]:
        """Do as EngineSettings'."""
        return tuple(self.asked_as("teardown", placement))

    def asked_as(self, name: str, placement: Placement) -> Any:
        """Return the value of a field, or of a cell in its place."""
        keys = (key for key in placement if self.cell_keys.get(key, key) == name)
        return next((placement[key] for key in keys), getattr(self, name))

    def cpus_of_a_task(self, placement: Placement, tasks: int = 1) -> int:
        """Return what each of a node's tasks has of the node's CPUs; 0 where Slurm decides."""
        cpus = self.asked_as("cpus_per_task", placement)
        return max(1, int(cpus) // tasks) if cpus else 0

    def asked(self, placement: Placement, tasks: int = 1, devices: int = 0) -> Iterator[str]:
        """Yield sbatch's options that the inventory sets, or a cell in its place; a node has so
        many `tasks`, and the run uses so many `devices` of it.
        """
        for option, name in OPTIONS.items():
            value = self.asked_as(name, placement)
            if name == "cpus_per_task":
                value = self.cpus_of_a_task(placement, tasks) or None
            if name in OF_DEVICES:
                gpus = self._devices(placement) or (self.gres, self.gpus_per_node)
                value = _of_cell(gpus[OF_DEVICES.index(name)], devices)
            if value in (None, False, NO) or (name, value) == ("gres", "none"):
                continue
            yield f"--{option}" if value in (True, YES) else f"--{option}={value}"
        if self.asked_as("exclusive_user", placement) in (True, YES):
            yield "--exclusive=user"

    def further(self, placement: Placement) -> tuple[str, ...]:
        """Return `slurm_options`, a cell's in place of the inventory's."""
        return tuple(self.asked_as("options", placement))

    def commented(self, mark: str, placement: Placement) -> str:
        """Return the comment of a job: the mark by which bench knows it, then the user's word."""
        comment = self.asked_as("comment", placement)
        return f"{mark}{COMMENTED}{comment}" if comment else mark


def _of_cell(resource: str | None, devices: int) -> str | None:
    """Return `gpu:a100:cell` with the devices of the cell in place of that word."""
    return resource and re.sub(rf"(?<![^:]){CELL}(?![^,])", str(devices), resource)


# Those keys that are options of sbatch's: the field's name by the option's.
OPTIONS = {
    setting.name.replace("_", "-"): setting.name
    for setting in fields(Slurm)
    if setting.metadata["option"]
}
