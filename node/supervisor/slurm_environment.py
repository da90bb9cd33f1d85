"""What a job of Slurm gives a node's part of a run: its name and address, devices, secrets."""

from __future__ import annotations

import os
import socket

from node.causes import Cause

from .answers import RefusedError

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any, Iterator

SECRETS = "TRAINBENCH_SECRET_"  # begins the names of variables that stand in no file
# What Slurm says of the devices that the job has on this node.
DEVICES = (
    *("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    *("ASCEND_RT_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK"),
)


def take_devices(job: dict[str, Any]) -> None:
    """Keep what Slurm says of this job's devices, and sample those alone.

    Raises RefusedError where they are fewer than the run needs.
    """
    given = {name: os.environ[name] for name in DEVICES if os.environ.get(name)}
    job["env"] = dict(job["env"], **given)
    if job["device"] != "cuda" or "CUDA_VISIBLE_DEVICES" not in given:
        return
    visible = given["CUDA_VISIBLE_DEVICES"].split(",")
    wanted = len(job["device_ids"])
    if len(visible) < wanted and len(visible) * (job.get("tasks") or 1) >= wanted:
        return  # srun binds each task to devices of its own
    if len(visible) < wanted:
        raise RefusedError(
            Cause.NO_DEVICE,
            "Slurm gave the job %d GPUs of this node and the cell needs %d; see slurm_gpus_per_node"
            " of the inventory" % (len(visible), wanted),
        )
    job["env"]["CUDA_VISIBLE_DEVICES"] = ",".join(visible[:wanted])
    if all(each.isdigit() for each in visible):
        job["device_ids"] = [int(each) for each in visible[:wanted]]


def taken_secrets() -> dict[str, str]:
    """Remove the variables that must not be in a file from this process's environment."""
    names = [name for name in os.environ if name.startswith(SECRETS)]
    return {name[len(SECRETS) :]: os.environ.pop(name) for name in names}


def host_name() -> str:
    """Return what Slurm calls this node."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def address_of(host: str) -> str:
    """Return how the other nodes reach this one: its name, except where that is a loopback address.

    Else the address that faces the node that the step was launched from.
    """
    known = set(addresses(host))
    if known and not any(each.startswith("127.") or each == "::1" for each in known):
        return host
    launcher = os.environ.get("SLURM_LAUNCH_NODE_IPADDR", "")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((launcher, 9))  # no packet is sent
            own = str(probe.getsockname()[0])
    except OSError:
        return host
    return host if own.startswith("127.") else own


def addresses(host: str) -> Iterator[str]:
    """Yield the addresses of a name."""
    try:
        found = socket.getaddrinfo(host, None)
    except OSError:
        return
    for entry in found:
        yield str(entry[4][0])
