"""Options of sbatch's and srun's in an inventory: which it may give, and what they ask. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from runner.terms.engines.engine_settings import OptionWord

CELL = "cell"  # as a number of GPUs: as many as the cell has devices on a node


class SlurmOption(OptionWord):
    """A whole option of sbatch's or srun's, with its value."""

    pattern = rf"--[a-z][a-z0-9-]*(?:=(?:{OptionWord.pattern}))?"
    description = "one option of sbatch's in one word, such as --licenses=nccl:4"

    @property
    def option(self) -> str:
        """Its name, without dashes and value."""
        return self[2:].partition("=")[0]


# Options that no inventory may give, since bench does, each with what says it instead.
OURS: Mapping[str, str] = {
    **dict.fromkeys(("job-name", "comment", "output", "error", "input", "open-mode", "chdir"), ""),
    **dict.fromkeys(("export", "export-file", "get-user-env", "container"), ""),
    **dict.fromkeys(
        ("array", "kill-on-invalid-dep", "wait", "wrap"),
        "",
    ),
    **dict.fromkeys(("parsable", "test-only", "clusters", "help", "usage", "version"), ""),
    **dict.fromkeys(("nodefile", "kill-on-bad-exit", "label", "multi-prog", "overlap"), ""),
    **dict.fromkeys(("jobid", "relative", "task-prolog", "task-epilog", "pty"), ""),
    **dict.fromkeys(("time", "signal"), "time_limit_s of the matrix and slurm_time_margin_s"),
    **dict.fromkeys(("nodes", "ntasks", "ntasks-per-node"), "`nodes` of the matrix"),
    **dict.fromkeys(("gpus", "ntasks-per-gpu"), "slurm_gpus_per_node"),
    "no-requeue": "slurm_requeue",
}
# Those of srun's alone, which bind a task's processes: they stand in slurm_srun_args.
BINDING = (
    "distribution",
    "cpu-bind",
    "gpu-bind",
    "mem-bind",
    "accel-bind",
    "gpus-per-task",
    "threads-per-core",
)


def option_faults(
    key: str, options: Sequence[SlurmOption], keys: Mapping[str, str], bars: Sequence[str] = ()
) -> Iterator[str]:
    """Say which of the options that `key` lists are not for an inventory to give, or come twice.

    `keys` has the options that have a key of their own, with that; `bars` are those that belong
    into slurm_srun_args. Slurm takes the beginning of an option for all of it, so that is refused
    like the option.
    """
    owners = {**OURS, **keys, **dict.fromkeys(bars, "")}
    used: set[str] = set()
    for option in options:
        name = option.option
        if name in used:
            yield f"{key} has --{name} twice; leave one"
        used.add(name)
        full_name = name if name in owners else next((o for o in owners if o.startswith(name)), "")
        if name.startswith("container"):
            full_name = "container"
        if full_name in keys:
            yield f"{key} has --{name}, which has a key of its own: {keys[full_name]}"
        elif full_name in bars:
            yield f"{key} has --{name}, which is srun's; write it into slurm_srun_args"
        elif full_name:
            cure = f"it comes from {OURS[full_name]}" if OURS[full_name] else "take it out"
            yield f"{key} has --{name}, which bench sets itself; {cure}"


def device_faults(
    gres: str | None, gpus_per_node: str | None, device: str, devices: int
) -> Iterator[str]:
    """Say what is wrong with what a node's GPUs are asked by."""
    if gres and gpus_per_node:
        yield "slurm_gres and slurm_gpus_per_node are both set; they say the same, so leave one out"
    if device != "cuda":
        return
    if not (gres or gpus_per_node):
        # Not even an exclusive job's step has GPUs that it did not ask for (man srun, --gres).
        yield (
            "cluster_device is cuda, and a job that asks for no GPU has none; set"
            f" slurm_gpus_per_node: {devices} (slurm_gres: none where Slurm knows of no GPUs)"
        )
    key, gres_value = "slurm_gres", gres or ""
    if gpus_per_node:
        key = "slurm_gpus_per_node"
        gres_value = ",".join(f"gpu:{request}" for request in gpus_per_node.split(","))
    if any(request.rpartition(":")[2] == CELL for request in gres_value.split(",")):
        return
    if (count := _gpus_of(gres_value)) and count < devices:
        yield (
            f"{key} asks for {count} GPUs a node, and cluster_devices_per_node is {devices}; make"
            " them the same"
        )


def _gpus_of(gres: str) -> int:
    """Return how many GPUs `gpu:a100:4,nvme:1` has; 0 where it has none."""
    parts = [request.split(":") for request in re.sub(r"\(.*?\)", "", gres).split(",")]
    counts = [details[-1] if details else "1" for name, *details in parts if name == "gpu"]
    return sum(int(count) if count.isdecimal() else 1 for count in counts)
