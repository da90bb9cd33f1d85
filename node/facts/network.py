"""The interfaces of the cluster and of training, and InfiniBand's ports."""

from __future__ import annotations

from typing import Any

from .machine import Machine
from .text_values import number


def network(machine: Machine, spec: dict[str, Any]) -> dict[str, Any]:
    """The interfaces that carry the cluster's addresses or are named for training."""
    there = machine.addresses()
    cluster_addresses: set[str] = set()
    for address in spec.get("addresses", []):
        cluster_addresses |= {address, *machine.resolve(address)}
    carriers = [name for name, owned in there.items() if cluster_addresses & set(owned)]
    interfaces = {}
    for name in sorted(there):
        chosen = any(chooses(name, value) for value in spec.get("interfaces", []))
        if name in carriers or chosen:
            speed = number(machine.text(f"/sys/class/net/{name}/speed"))
            interfaces[name] = {
                "mtu": machine.mtu(name),
                "speed_mbit_s": speed if speed and speed > 0 else None,
                "carries": "cluster" if name in carriers else "training",
                "addresses": there[name],
            }
    ports = {}
    for path in machine.glob("/sys/class/infiniband/*/ports/*"):
        parts = path.split("/")
        ports[f"{parts[-3]}/{parts[-1]}"] = {
            "state": (machine.text(f"{path}/state") or "").partition(": ")[2] or None,
            "rate": machine.text(f"{path}/rate"),
            "link_layer": machine.text(f"{path}/link_layer"),
            "firmware": machine.text(f"{'/'.join(parts[:-2])}/fw_ver"),
        }
    return {"interfaces": interfaces, "infiniband": ports}


def chooses(name: str, value: str) -> bool:
    """Whether NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME, as it stands, chooses an interface.

    NCCL's documentation: words are prefixes, `=` before them makes them exact, and `^` lists what
    is left out, which chooses none.
    """
    if value.startswith("^"):
        return False
    prefixes = [word.partition(":")[0] for word in value.lstrip("=").split(",") if word]
    return name in prefixes if value.startswith("=") else any(map(name.startswith, prefixes))
