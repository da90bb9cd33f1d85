"""How a cluster's runs are asked of Slurm: each key `slurm_*` of an inventory is a field here."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

from node.checked import Checked
from node.schema import AnyOf, Whole
from runner.terms.orders import MOST_NODES

PREFIX = "slurm_"
MODES = ("job", "allocation")
MOST_JOBS = 10_000
MOST_CPUS = 1_000_000
MOST_MARGIN_S = 86_400
MOST_NICE = 2**31 - 3


class SlurmWord(Checked):
    """A value of an option of sbatch's: it stands in a line `#SBATCH --name=value` as it is."""

    pattern = r"[^\s'\"\\#\x00-\x1f\x7f-\x9f\ud800-\udfff]+"
    most = 4_000
    what = "one word as sbatch takes it, without blanks, quotes, '\\' and '#'"


class SlurmOption(SlurmWord):
    """A whole option of sbatch's, with its value."""

    pattern = rf"--[a-z][a-z0-9-]*(?:=(?:{SlurmWord.pattern}))?"
    what = "one option of sbatch's in one word, such as --licenses=nccl:4"

    @property
    def option(self) -> str:
        """Its name, without dashes and value."""
        return self[2:].partition("=")[0]


class _NumberedWord:
    """A word of Slurm's that YAML may take for a number."""

    def __init__(self, least: int = 0) -> None:
        self.kind = AnyOf(Whole(least), SlurmWord)

    def check(self, value: Any, where: str) -> str:
        """Return the word."""
        return str(self.kind.check(value, where))

    def json_schema(self) -> dict[str, Any]:
        """Return the same as JSON schema."""
        return self.kind.json_schema()


Word = Annotated[str, SlurmWord]
Numbered = Annotated[str, _NumberedWord()]
Cpus = Annotated[int, Whole(1, MOST_CPUS)]


def _key(name: str, help: str, *, same: bool = True) -> dict[str, Any]:
    """Describe a key; `same`: runs with another value are another campaign's."""
    return {"key": f"{PREFIX}{name}", "help": help, "same": same}


@dataclass(frozen=True)
class Slurm:
    """How runs are asked of Slurm: in what mode, of which partition, with what of a node."""

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
        """What runs of one campaign must have alike: the keys that are not their default."""
        return [
            (each.name, getattr(self, each.name))
            for each in fields(self)
            if each.metadata["same"] and getattr(self, each.name) != each.default
        ]


KEYS = {each.metadata["key"]: each.metadata["help"] for each in fields(Slurm)}
# Those that are options of sbatch's or srun's: the field's name by the option's.
OPTIONS = {
    each.name.replace("_", "-"): each.name
    for each in fields(Slurm)
    if each.name not in ("nodes", "mode", "most_jobs", "setup_in_job", "time_margin_s", "options")
}
