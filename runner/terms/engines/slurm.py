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
from runner.terms.engines.engine_settings import EngineSettings, OptionWord
from runner.terms.orders import MOST_NODES

PREFIX = "slurm_"
MODES = ("job", "allocation")
MOST_JOBS = 10_000
MOST_CPUS = 1_000_000
MOST_MARGIN_S = 86_400
MOST_NICE = 2**31 - 3


class SlurmOption(OptionWord):
    """A whole option of sbatch's, with its value."""

    pattern = rf"--[a-z][a-z0-9-]*(?:=(?:{OptionWord.pattern}))?"
    what = "one option of sbatch's in one word, such as --licenses=nccl:4"

    @property
    def option(self) -> str:
        """Its name, without dashes and value."""
        return self[2:].partition("=")[0]


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


def _key(name: str, help: str, *, same: bool = True) -> dict[str, Any]:
    """Describe a key; `same`: runs with another value are another campaign's."""
    return {"key": f"{PREFIX}{name}", "help": help, "same": same}


@dataclass(frozen=True)
class Slurm(EngineSettings):
    """How runs are asked of Slurm: in what mode, of which partition, with what of a node."""

    name: ClassVar[str] = "slurm"
    title: ClassVar[str] = "Slurm"
    launcher: ClassVar[str] = "runner.launch.slurm.slurm_engine:SlurmEngine"
    prefix: ClassVar[str] = PREFIX
    page: ClassVar[str] = "slurm.md"
    cell_keys: ClassVar[tuple[str, ...]] = ("partition", "constraint", "nodelist", "exclude")
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
            "what a campaign asks for: job (one job a run, side by side as the queue lets them) or"
            " allocation (one for all of it, whose nodes its runs have one after the other)",
        ),
    )
    most_jobs: Annotated[int, Whole(1, MOST_JOBS)] = field(
        default=64,
        metadata=_key("most_jobs", "jobs that one campaign has in the queue at once", same=False),
    )
    account: Word | None = field(
        default=None, metadata=_key("account", "account that is charged", same=False)
    )
    partition: Word | None = field(
        default=None, metadata=_key("partition", "partition, or several with commas")
    )
    qos: Word | None = field(default=None, metadata=_key("qos", "quality of service", same=False))
    constraint: Word | None = field(
        default=None, metadata=_key("constraint", "features that nodes must have, such as a100&ib")
    )
    exclusive: bool = field(
        default=False, metadata=_key("exclusive", "whether nodes are shared with no other job")
    )
    gres: Word | None = field(
        default=None,
        metadata=_key(
            "gres",
            "generic resources of each node, such as gpu:a100:8; none where Slurm knows of no GPUs",
        ),
    )
    gpus_per_node: Numbered | None = field(
        default=None,
        metadata=_key(
            "gpus_per_node", "GPUs of each node, such as 8 or a100:8; in place of slurm_gres"
        ),
    )
    cpus_per_task: Cpus | None = field(
        default=None, metadata=_key("cpus_per_task", "CPUs of each node, which has one task")
    )
    mem: Numbered | None = field(
        default=None, metadata=_key("mem", "memory of each node, such as 500G; 0 is all of it")
    )
    reservation: Word | None = field(
        default=None, metadata=_key("reservation", "reservation that runs are in", same=False)
    )
    nodelist: Word | None = field(
        default=None,
        metadata=_key("nodelist", "nodes that each run must have, such as n[01-04]", same=False),
    )
    exclude: Word | None = field(
        default=None,
        metadata=_key(
            "exclude", "nodes that no run may have, such as n07; doctor names them", same=False
        ),
    )
    switches: Numbered | None = field(
        default=None,
        metadata=_key(
            "switches", "leaf switches at most, and how long to wait for that, such as 1@10:00"
        ),
    )
    nice: Annotated[int, Whole(-MOST_NICE, MOST_NICE)] | None = field(
        default=None, metadata=_key("nice", "how much other jobs go first", same=False)
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

    def faults(self, device: str, devices: int) -> Iterator[str]:
        """Do as EngineSettings'."""
        yield from _option_faults(self)
        yield from _device_faults(self, device, devices)

    def cell_faults(self, placement: Sequence[str], inventory: str) -> Iterator[str]:
        """Do as EngineSettings'."""
        yield from super().cell_faults(placement, inventory)
        if placement and self.one_job:
            key = placement[0]
            yield (
                f"{key} is asked for a job of the cell's own, and all cells have one allocation"
                f" (slurm_mode of the inventory {inventory}); set slurm_{key} there"
            )

    def without(self, hosts: Sequence[str]) -> Mapping[str, str]:
        """Do as EngineSettings', beside those that are left out already."""
        return {"slurm_exclude": ",".join(filter(None, [self.exclude, *hosts]))}

    def setup_argv(self, command: Sequence[str]) -> tuple[str, ...]:
        """Do as EngineSettings'."""
        one_node = ("srun", "--nodes=1", "--ntasks=1", *self.asked({}), *self.options)
        return (*one_node, *command) if self.setup_in_job else ()

    def asked(self, placement: Mapping[str, str]) -> Iterator[str]:
        """Yield sbatch's options that the inventory sets, or a cell in its place."""
        for option, name in OPTIONS.items():
            value = placement.get(name, getattr(self, name))
            if name in NOT_OF_SBATCH or value in (None, False) or (name, value) == ("gres", "none"):
                continue
            yield f"--{option}" if value is True else f"--{option}={value}"


# Those keys that are options of sbatch's or srun's: the field's name by the option's.
OPTIONS = {
    each.name.replace("_", "-"): each.name
    for each in fields(Slurm)
    if each.name not in ("nodes", "mode", "most_jobs", "setup_in_job", "time_margin_s", "options")
}
NOT_OF_SBATCH = ("mpi", "requeue")  # mpi is srun's, and the other is always said
# Options that no inventory may give, since bench does, each with what says it instead.
OURS: Mapping[str, str] = {
    **dict.fromkeys(("job-name", "comment", "output", "error", "input", "open-mode", "chdir"), ""),
    **dict.fromkeys(("export", "export-file", "get-user-env", "container"), ""),
    **dict.fromkeys(("array", "dependency", "kill-on-invalid-dep", "wait", "wrap"), ""),
    **dict.fromkeys(("parsable", "test-only", "clusters", "help", "usage", "version"), ""),
    **dict.fromkeys(("distribution", "nodefile", "cpu-bind"), ""),
    **dict.fromkeys(("time", "signal"), "time_limit_s of the matrix and slurm_time_margin_s"),
    **dict.fromkeys(("nodes", "ntasks", "ntasks-per-node"), "`nodes` of the matrix"),
    **dict.fromkeys(("gpus", "gpus-per-task", "ntasks-per-gpu"), "slurm_gpus_per_node"),
    "no-requeue": "slurm_requeue",
}


def _option_faults(slurm: Slurm) -> Iterator[str]:
    """Say which of the further options are not for an inventory to give, or are given twice.

    sbatch takes the beginning of an option for all of it, so that is refused like the option.
    """
    known = {**OURS, **OPTIONS}
    seen: set[str] = set()
    for each in slurm.options:
        name = each.option
        if name in seen:
            yield f"slurm_options has --{name} twice; leave one"
        seen.add(name)
        whole = name if name in known else next((o for o in known if o.startswith(name)), "")
        if name.startswith("container"):
            whole = "container"
        if whole in OPTIONS:
            key = PREFIX + OPTIONS[whole]
            yield f"slurm_options has --{name}, which has a key of its own: {key}"
        elif whole:
            cure = f"it comes from {OURS[whole]}" if OURS[whole] else "take it out"
            yield f"slurm_options has --{name}, which bench sets itself; {cure}"


def _device_faults(slurm: Slurm, device: str, devices: int) -> Iterator[str]:
    """Say what is wrong with what a node's GPUs are asked by."""
    if slurm.gres and slurm.gpus_per_node:
        yield "slurm_gres and slurm_gpus_per_node are both set; they say the same, so leave one out"
    if device != "cuda":
        return
    if not (slurm.gres or slurm.gpus_per_node):
        # Not even an exclusive job's step has GPUs that it did not ask for (man srun, --gres).
        yield (
            "cluster_device is cuda, and a job that asks for no GPU has none; set"
            f" slurm_gpus_per_node: {devices} (slurm_gres: none where Slurm knows of no GPUs)"
        )
    key, asked = "slurm_gres", slurm.gres or ""
    if slurm.gpus_per_node:
        key = "slurm_gpus_per_node"
        asked = ",".join(f"gpu:{part}" for part in slurm.gpus_per_node.split(","))
    if (count := _gpus_of(asked)) and count < devices:
        yield (
            f"{key} asks for {count} GPUs a node, and cluster_devices_per_node is {devices}; make"
            " them the same"
        )


def _gpus_of(gres: str) -> int:
    """Return how many GPUs `gpu:a100:4,nvme:1` has; 0 where it has none."""
    parts = [part.split(":") for part in re.sub(r"\(.*?\)", "", gres).split(",")]
    counts = [rest[-1] if rest else "1" for name, *rest in parts if name == "gpu"]
    return sum(int(count) if count.isdecimal() else 1 for count in counts)
