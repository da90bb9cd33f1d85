"""A Slurm inventory of a partition, from what Slurm says of it: files of comments and keys.

Slurm alone is asked, on its login node, and no compute node. What it cannot know (a folder that all
nodes share, an account) is asked for as an option, or named in a note.
"""

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.base.errors import UserError
from runner.base.paths import PROJECT
from runner.enrol.host_list import answer
from runner.enrol.writing import CLUSTER, HOSTS, SETUP, scalar

SLURM = "group_vars/all/slurm.yml"
FORMAT = "%N|%G|%c|%m|%T|%l"
# States of nodes that jobs may get, as sinfo(1) writes them: also while they start (#), sleep (~)
# or are planned for (-); not with any other mark, such as * for one that does not answer.
UP = re.compile(
    r"(?:idle|mix(?:ed)?|alloc(?:ated)?|comp(?:leting)?|planned|plnd|resv|reserved)[~#+-]*"
)
PART = re.compile(r"(?:.*[_.-])?\d+g\.\d+gb.*|shard|mps", re.IGNORECASE)  # of a GPU: MIG


@dataclass(frozen=True)
class PartitionNode:
    """What Slurm says of a node of a partition; its `gpus` are those of `gpu_type`."""

    name: str
    gpus: int
    gpu_type: str
    other_types: tuple[str, ...]
    cpus: int
    memory_mib: int
    state: str

    @property
    def is_up(self) -> bool:
        """Whether jobs may get it."""
        return UP.fullmatch(self.state) is not None


@dataclass(frozen=True)
class Partition:
    """A partition: its nodes, and the longest that a job may take there, as Slurm writes it."""

    name: str
    nodes: tuple[PartitionNode, ...]
    limit: str

    @property
    def devices(self) -> int:
        """GPUs of most nodes; 0 where it has none."""
        return Counter(node.gpus for node in self.nodes).most_common(1)[0][0]


def ask(name: str) -> Partition:
    """Ask Slurm about a partition. Raises UserError for an unknown one."""
    output = answer(["sinfo", "--noheader", "--Node", f"--partition={name}", f"--format={FORMAT}"])
    return read(name, output)


def read(name: str, output: str) -> Partition:
    """Read what sinfo prints in FORMAT. Raises UserError where it has no node of the partition."""
    nodes, limit = [], ""
    for line in output.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != len(FORMAT.split("|")):
            continue
        host, gres, cpus, memory, state, limit = fields
        gpus = _gpus(gres)
        gpu_type, *others = gpus or [""]
        nodes.append(
            PartitionNode(
                host,
                gpus.get(gpu_type, 0),
                gpu_type,
                tuple(filter(None, others)),
                _number(cpus),
                _number(memory),
                state.lower(),
            )
        )
    if not nodes:
        raise UserError(f"Slurm has no nodes in a partition {name}; `sinfo -s` lists partitions")
    return Partition(name, tuple(nodes), limit)


def _gpus(gres: str) -> dict[str, int]:
    """Read how many GPUs of each type a node has, most first; parts of GPUs are behind whole ones.

    `gpu:a100:4(S:0-1),gpu:1g.5gb:14` is 4 of a100, 14 of 1g.5gb; `gpu:8` has no type, `gpu` is 1.
    """
    counts: Counter[str] = Counter()
    for resource in re.sub(r"\(.*?\)", "", gres).split(","):
        kind, *words = resource.split(":")
        if kind == "gpu":
            has_count = bool(words) and re.fullmatch(r"\d+[KMGkmg]?", words[-1]) is not None
            number = _number(words.pop()) if has_count else 1
            counts[":".join(words)] += number
    return dict(sorted(counts.items(), key=lambda item: (bool(PART.fullmatch(item[0])), -item[1])))


def _number(text: str) -> int:
    """Read the number with which a text begins; 0 where it begins with none."""
    match = re.match(r"\d{1,9}", text)
    return int(match[0]) if match else 0


def files(
    partition: Partition, root: str, device: str, account: str, devices: int
) -> dict[str, str]:
    """Return the files of an inventory by path; `devices` of each node."""
    gpus = "slurm_gpus_per_node: cell # as many as a cell uses; a number: always so many"
    gpu_lines = [gpus] if device != "cpu" else []
    return {
        HOSTS: _shipped(HOSTS),
        CLUSTER: "\n".join(
            [
                "---",
                "# Written by `init --slurm`; yours to edit. docs/slurm.md has each key.",
                "cluster_engine: slurm",
                "# A folder that login and compute nodes share, at the same path on all of them.",
                f"cluster_root: {scalar(root)}",
                "# On a disk of each compute node's own: caches of a run, removed with it.",
                "cluster_scratch: /tmp/trainbench",
                f"cluster_device: {device}",
                "# Of each compute node; a cell that names no devices_per_node uses all of them.",
                f"cluster_devices_per_node: {devices}",
                "cluster_systems: [torch_gpt]",
                "cluster_env: {}",
                "",
            ]
        ),
        SLURM: "\n".join(
            [
                "---",
                f"# The partition has {len(partition.nodes)} nodes; a cell has at most so many:",
                f"slurm_nodes: {len(partition.nodes)}",
                f"slurm_partition: {scalar(partition.name)}",
                f"slurm_account: {scalar(account)}" if account else "# slurm_account: my-account",
                "# job: one job per run. allocation: one for the whole campaign, whose runs follow",
                "# one another on the same nodes.",
                "slurm_mode: job",
                "# No other job on the nodes: what is measured is the run's own.",
                "slurm_exclusive: true",
                "# All memory of a node.",
                "slurm_mem: 0",
                *gpu_lines,
                "",
            ]
        ),
        SETUP: _shipped(SETUP),
    }


def _shipped(path: str) -> str:
    """Return a file that every Slurm inventory has alike."""
    return (PROJECT / "inventory" / "slurm" / path).read_text(encoding="utf-8")


def notes(partition: Partition, devices: int) -> Sequence[str]:
    """Say what may need a hand."""
    lines = []
    if odd := [node.name for node in partition.nodes if node.gpus != partition.devices]:
        lines.append(
            f"the number of GPUs differs from most nodes on {', '.join(odd)}; leave such nodes out"
            " with slurm_exclude or slurm_constraint"
        )
    listed = ((node.gpu_type, *node.other_types) for node in partition.nodes)
    types = list(filter(None, dict.fromkeys(itertools.chain.from_iterable(listed))))
    if len(types) > 1:
        lines.append(
            f"the partition has GPUs of several types ({', '.join(types)}); choose one:"
            f" slurm_gpus_per_node: {types[0]}:cell"
        )
    if away := [node.name for node in partition.nodes if not node.is_up]:
        lines.append(f"{len(away)} nodes are down or drained now (`sinfo -R`)")
    if re.fullmatch(r"(?:\d{1,2}:)?\d{1,2}:\d\d", partition.limit):
        lines.append(
            f"a job may take {partition.limit} there; the time_limit_s of a matrix and"
            " slurm_time_margin_s must fit"
        )
    if not devices:
        lines.append("Slurm knows of no GPU there, so the device is cpu")
    return lines


def default_root() -> str:
    """Return where everything goes by default: most sites share home folders."""
    return str(Path.home() / "trainbench")
