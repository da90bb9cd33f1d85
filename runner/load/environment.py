"""What a reader needs to compare runs: machines, versions, datasets. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from node.facts.kinds import ENVIRONMENT
from node.schema import UnfitError
from runner.terms.inspected import ENV, Inspected, InspectedDevice
from runner.terms.record import Measurement
from runner.terms.settings import Settings


def device_name(nodes: Mapping[str, Inspected]) -> str:
    """Return the devices' name; empty where the nodes have none, or different ones."""
    names = {device.name for inspected in nodes.values() for device in inspected.devices or ()}
    return names.pop() if len(names) == 1 else ""


def trainer_versions(measured: Measurement) -> dict[str, str]:
    """Return what the trainer itself said it ran with."""
    keys = ("torch", "backend", "device")
    return {key: measured.facts[key] for key in keys if key in measured.facts}


def _devices(devices: Sequence[InspectedDevice]) -> str:
    """Write `8 x Tesla V100-SXM2-32GB, 32510 MiB`, each kind once."""
    kinds = Counter(f"{item.name}, {item.memory_mib} MiB" for item in devices)
    return "; ".join(f"{count} x {kind}" for kind, count in kinds.items()) or "none"


def environment_of(
    campaign: str, settings: Settings, nodes: Mapping[str, Inspected]
) -> dict[str, Any]:
    """Return what a reader needs to compare: machines, versions, datasets."""
    return {
        "campaign": campaign,
        "inventory": settings.inventory,
        "trainbench": settings.trainbench,
        "fingerprints": settings.environment or {},
        "nodes": {
            host: _node(inspected)
            for host, inspected in nodes.items()
            if inspected.hostname is not None or inspected.problem
        },
    }


def _node(inspected: Inspected) -> dict[str, Any]:
    """Return what an inspection says of a node, or why that cannot be read."""
    if inspected.problem:
        return {"unreadable": inspected.problem}
    devices = inspected.devices or ()
    return {
        "devices": _devices(devices),
        "driver": ", ".join(sorted({item.driver for item in devices})) or "none",
        "cpu": inspected.cpu,
        "cpu_count": inspected.cpu_count,
        "memory_mib": inspected.memory_mib,
        "system": inspected.system,
        "kernel": inspected.kernel,
        **_more(inspected.files.get(ENV)),
    }


def _more(content: Any) -> dict[str, Any]:
    """Return what env.json, which playbooks/verify.yml leaves on a node, knows beside an
    inspection.
    """
    try:
        env = ENVIRONMENT.check({} if content is None else content, "env.json:")
    except UnfitError as error:
        return {"unreadable": str(error)}
    gpu = env.get("gpu") or {}
    interfaces = (env.get("network") or {}).get("interfaces") or {}
    return {
        "driver problem": gpu.get("problem"),
        "power limit, W": _per_device(gpu.get("devices") or [], "power.limit"),
        "ECC": _per_device(gpu.get("devices") or [], "ecc.mode.current"),
        "CUDA toolkits": ", ".join(sorted((env.get("cuda_toolkits") or {}).values())),
        "packages": env.get("packages"),
        "libraries": env.get("libraries"),
        "systems": {
            name: {"torch": pin.get("torch"), "packages": (pin.get("lock_sha256") or "")[:12]}
            for name, pin in (env.get("systems") or {}).items()
        },
        "network": {
            name: f"MTU {pin.get('mtu')}, {pin.get('speed_mbit_s') or '–'} Mbit/s"
            for name, pin in interfaces.items()
        },
    }


def _per_device(devices: Sequence[Mapping[str, Any]], key: str) -> str:
    """Return a quantity of a node's devices: one value, or each where they differ."""
    values = [str(device[key]) for device in devices if device.get(key)]
    return values[0] if len(set(values)) == 1 else ", ".join(values)
