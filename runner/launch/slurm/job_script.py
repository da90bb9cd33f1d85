"""What Slurm is given: a job's script, and the command line of srun. Pure: text out.

A value in a line `#SBATCH` is one word, checked where it comes from (runner/terms/engines/); the
words of a command are quoted for the shell.
"""

import math
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from node.schema import UnfitError
from node.supervisor.slurm_environment import SECRETS
from runner.base.errors import UserError
from runner.plan.containers import JOB_ID
from runner.terms.engines.engine_settings import OptionWord, Placement
from runner.terms.engines.slurm import Slurm
from runner.terms.orders import Orders

MOST_MINUTES = 2**31 - 1
USERS_OWN = ("HOME", "USER", "LOGNAME")  # that a task in a container gets, for enroot
FORGET = ("enroot", "remove", "--force")  # containers by their names
# By which enroot gives a container the driver, whatever its image says: without them an image that
# is not NVIDIA's own would see no GPU. A value here cannot have a comma.
ENROOTS_GPUS = ("NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=all")


def job_script(
    orders: Orders, slurm: Slurm, *, output: PurePosixPath, comment: str, command: Sequence[str]
) -> str:
    """Write the job of one run: `command` runs once on each of its nodes.

    What srun and the tasks themselves say goes to `output`.
    """
    return _script(
        slurm,
        orders.placement,
        name=job_name(orders.run_id),
        nodes=len(orders.nodes),
        tasks=orders.tasks,
        devices=devices_of(orders),
        time_s=orders.limits.time_limit_s,
        output=output,
        comment=comment,
        command=srun_argv(slurm, len(orders.nodes), command, orders=orders),
        requeue=slurm.requeue,
    )


def devices_of(orders: Orders) -> int:
    """Return how many devices a run uses on each node."""
    return max(len(node.device_ids) for node in orders.nodes)


def allocation_script(
    slurm: Slurm,
    *,
    name: str,
    nodes: int,
    devices: int,
    time_s: float,
    output: PurePosixPath,
    comment: str,
    command: Sequence[str],
) -> str:
    """Write the job that holds nodes for a campaign: `command` runs on the first of them alone."""
    return _script(
        slurm,
        {},
        name=job_name(name),
        nodes=nodes,
        devices=devices,
        time_s=time_s,
        output=output,
        comment=comment,
        command=command,
    )


def trial_script(
    slurm: Slurm, placement: Placement, *, nodes: int, devices: int, time_s: float
) -> str:
    """Write a job that asks for what a run asks for, and does nothing: for sbatch --test-only."""
    return _script(
        slurm,
        placement,
        name="trial",
        nodes=nodes,
        devices=devices,
        time_s=time_s,
        output=PurePosixPath("/dev/null"),
        comment="trial",
        command=("true",),
    )


def srun_argv(
    slurm: Slurm,
    nodes: int,
    command: Sequence[str],
    *,
    orders: Orders | None = None,
    job_id: int | str = "",
    nodelist: Sequence[str] = (),
    output: PurePosixPath | None = None,
    overlap: bool = False,
    gpus: int = 0,
) -> tuple[str, ...]:
    """Return what starts `command` on each of so many nodes, and ends it on all with one: once, or
    as often as `orders` have tasks.

    `orders` may have it start in a container. Within a job that is all; from outside of it,
    `job_id` names it, and `nodelist` which of its nodes. `overlap`: what another step has is no
    reason to wait; `gpus` are asked of each node.
    """
    tasks = orders.tasks if orders else 1
    placement = orders.placement if orders else {}
    cpus = slurm.cpus_of_a_task(placement, tasks)
    placing = tuple(slurm.asked_as("srun_args", placement)) if orders else ()
    bound = any(option.startswith("--cpu-bind") for option in placing)
    return (
        "srun",
        *([f"--jobid={job_id}"] if job_id else []),
        f"--nodes={nodes}",
        f"--ntasks={nodes * tasks}",
        f"--ntasks-per-node={tasks}",
        *([f"--nodelist={','.join(nodelist)}"] if nodelist else []),
        *(["--overlap"] if overlap else []),
        *([f"--cpus-per-task={cpus}"] if cpus else []),
        *([f"--gpus-per-node={gpus}"] if gpus else []),
        *([] if bound else ["--cpu-bind=none"]),
        *placing,
        f"--mpi={slurm.mpi or 'none'}",
        "--kill-on-bad-exit=1",
        "--wait=0",  # a site may end the others half a minute after the first
        *_container(orders, job_id),
        "--input=none",
        "--label",
        # srun's own words stand there, too
        *([f"--output={_path(output)}", "--open-mode=append"] if output else []),
        *command,
    )


def _container(orders: Orders | None, job_id: int | str) -> Iterator[str]:
    """Yield srun's options for tasks in a container, and the variables that they get.

    The user's own variables would override the image's, as a module's LD_LIBRARY_PATH does.
    """
    step = orders.nodes[0].step if orders else ()
    if not orders or not step:
        yield "--export=ALL"
        return
    secrets = (SECRETS + name for name in orders.secrets)
    gpus = ENROOTS_GPUS if orders.nodes[0].device == "cuda" else ()
    yield f"--export={','.join((*USERS_OWN, *gpus, *secrets))}"
    yield from (word.replace(JOB_ID, str(job_id)) for word in step)


def kept_containers(orders: Orders, job_id: int | str) -> set[str]:
    """Return what enroot calls the containers that outlive a run's step."""
    step = orders.nodes[0].step
    names = [word.partition("=")[2] for word in step if word.startswith("--container-name=")]
    return {f"pyxis_{name.replace(JOB_ID, str(job_id))}" for name in names}


def job_name(run_id: str) -> str:
    """Name a job after its run, in signs that Slurm's lists and patterns leave as they are."""
    return re.sub(r"[^A-Za-z0-9._=+,-]+", ".", run_id)[:200]


def by_hand_head(slurm: Slurm, orders: Orders) -> list[str]:
    """Return sbatch's options for a run that a person starts; Slurm names the output."""
    head = _head(
        slurm,
        orders.placement,
        name=job_name(orders.run_id),
        nodes=len(orders.nodes),
        tasks=orders.tasks,
        devices=devices_of(orders),
        time_s=orders.limits.time_limit_s,
    )
    return _checked([*head, "--no-requeue", *slurm.further(orders.placement)])


def _script(
    slurm: Slurm,
    placement: Placement,
    *,
    name: str,
    nodes: int,
    devices: int,
    time_s: float,
    output: PurePosixPath,
    comment: str,
    command: Sequence[str],
    tasks: int = 1,
    requeue: bool = False,
) -> str:
    named, *asked = _head(
        slurm, placement, name=name, nodes=nodes, tasks=tasks, devices=devices, time_s=time_s
    )
    lines = [
        named,
        f"--comment={slurm.commented(comment, placement)}",
        *asked,
        "--requeue" if requeue else "--no-requeue",
        f"--output={_path(output)}",
        "--open-mode=append",
        "--export=ALL",
        *slurm.further(placement),
    ]
    head = "".join(f"#SBATCH {word}\n" for word in _checked(lines))
    return f"#!/bin/bash\n{head}exec {shlex.join(command)}\n"


def _head(
    slurm: Slurm,
    placement: Placement,
    *,
    name: str,
    nodes: int,
    tasks: int,
    devices: int,
    time_s: float,
) -> Iterator[str]:
    """Yield what a job is called, and what it asks for."""
    yield f"--job-name={name}"
    yield f"--nodes={nodes}"
    yield f"--ntasks={nodes * tasks}"
    yield f"--ntasks-per-node={tasks}"
    yield f"--time={min(math.ceil((time_s + slurm.time_margin_s) / 60), MOST_MINUTES)}"
    yield from slurm.asked(placement, tasks, devices)


def _checked(lines: Sequence[str]) -> list[str]:
    """Return lines for `#SBATCH`. Raises UserError for what is more than a word."""
    try:
        return [OptionWord(line, "a line of job.sh") for line in lines]
    except UnfitError as error:
        raise UserError(str(error)) from None


def _path(path: PurePosixPath) -> str:
    """Return a path as Slurm takes it for an output. Raises UserError: % and \\ mean something."""
    if re.search(r"[\s'\"\\#%]|[^\x20-\x7e]", str(path)):
        raise UserError(
            f"{path} has a character that Slurm does not allow in paths (a space, a quote, '\\',"
            " '#', '%' or non-ASCII); name another folder with --runs"
        )
    return str(path)
