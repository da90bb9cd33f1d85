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
    devices = {name: os.environ[name] for name in DEVICES if os.environ.get(name)}
    job["env"] = dict(job["env"], **devices)
    if job["device"] != "cuda" or "CUDA_VISIBLE_DEVICES" not in devices:
        return
    visible = devices["CUDA_VISIBLE_DEVICES"].split(",")
    count = len(job["device_ids"])
    if len(visible) < count and len(visible) * (job.get("tasks") or 1) >= count:
        return  # srun binds each task to devices of its own
    if len(visible) < count:
        raise RefusedError(
            Cause.NO_DEVICE,
            "Slurm gave the job %d GPUs of this node and the cell needs %d; see slurm_gpus_per_node"
            " of the inventory" % (len(visible), count),
        )
    job["env"]["CUDA_VISIBLE_DEVICES"] = ",".join(visible[:count])
    if all(device.isdigit() for device in visible):
        job["device_ids"] = [int(device) for device in visible[:count]]


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
    host_addresses = set(addresses(host))
    if host_addresses and not any(
        address.startswith("127.") or address == "::1" for address in host_addresses
    ):
        return host
    launcher = os.environ.get("SLURM_LAUNCH_NODE_IPADDR", "")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((launcher, 9))  # no packet is sent
            own_address = str(probe.getsockname()[0])
    except OSError:
        return host
    return host if own_address.startswith("127.") else own_address


def addresses(host: str) -> Iterator[str]:
    """Yield the addresses of a name."""
    try:
        records = socket.getaddrinfo(host, None)
    except OSError:
        return
    for entry in records:
        yield str(entry[4][0])
