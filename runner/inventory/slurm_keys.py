"""What an inventory says of Slurm: its `slurm_` keys, checked before anything is asked of it. Pure.

A word that Slurm itself would judge (a partition's name) is only checked for its shape: `bench`
asks `sbatch --test-only` for the rest.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from node.schema import UnfitError, shown
from node.supervisor.placeholders import node_addr
from runner.base.errors import UserError
from runner.base.shape import read
from runner.terms.cluster import Node
from runner.terms.slurm import KEYS, OPTIONS, PREFIX, Slurm

ENGINES = ("ssh", "slurm")

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


def read_slurm(values: Mapping[str, Any], where: str, device: str, devices: int) -> Slurm | None:
    """Read the keys that are set; None for an inventory of the ssh engine. Raises UserError.

    `device` and `devices` are what a node of the cluster has.
    """
    engine = values.get("cluster_engine") or ENGINES[0]
    if engine not in ENGINES:
        must = f"it must be {' or '.join(ENGINES)}"
        raise UserError(f"{where}: cluster_engine is {shown(engine)}; {must}")
    given = {key: values[key] for key in KEYS if values.get(key) is not None}
    if engine != "slurm":
        if given:
            raise UserError(
                f"{where}: {next(iter(given))} is set, and the nodes are reached by ssh; set"
                " cluster_engine: slurm, or take it out"
            )
        return None
    if "slurm_nodes" not in given:
        raise UserError(
            f"{where}: slurm_nodes is not set; say how many nodes a run may have at most"
        )
    try:
        slurm = read(Slurm, given, f"{where}:")
    except UnfitError as error:
        raise UserError(str(error)) from None
    for fault in (*_option_faults(slurm), *_device_faults(slurm, device, devices)):
        raise UserError(f"{where}: {fault}")
    return slurm


def nodes_of_jobs(
    hosts: Sequence[Node], count: int, where: str, *, local: bool
) -> tuple[Node, ...]:
    """Return the nodes of any job, with words for what only it knows. Raises UserError.

    `hosts` are the inventory's own: the login node alone, whose root they share; `local`: bench
    runs there.
    """
    if len(hosts) > 1 or not local:
        raise UserError(
            f"{where}: a Slurm inventory has one host, the login node that bench runs on, with"
            f" ansible_connection: local; Slurm names the others (it has {len(hosts)}"
            f" {'hosts' if len(hosts) > 1 else 'host, which is reached by ssh'})"
        )
    (login,) = hosts
    return tuple(
        Node(f"rank{rank}", node_addr(rank), login.devices, login.root) for rank in range(count)
    )


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
