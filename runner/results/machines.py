"""What a reader needs to compare runs: machines, versions, datasets; what a pin set is, as setup
installed it. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from node.facts.kinds import ENVIRONMENT
from node.schema import UnfitError
from runner.terms.inspected import ENV, Inspected, InspectedDevice
from runner.terms.record import Measurement
from runner.terms.settings import Settings

SHORT = 12  # digits of a commit or an image
ABSENT = "absent"
Facts = dict[str, str]


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


def installed_facts(nodes: Mapping[str, Inspected], system: str, pin: str) -> Facts:
    """Return what a pin set is on the first node that says so: Python, the source's commit, each
    package's version; empty where none does.
    """
    for inspected in nodes.values():
        manifest = inspected.files.get(f"system {system}/{pin}")
        if isinstance(manifest, dict):
            return facts_of(manifest)
    return {}


def facts_of(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return what an installed.json says. Pure."""
    identity = manifest.get("identity")
    identity = identity if isinstance(identity, dict) else {}
    source = identity.get("source")
    facts = {"python": str(identity.get("python") or "")}
    if isinstance(source, dict):
        facts["source"] = str(source.get("commit") or "")[:SHORT]
    if identity.get("image"):
        facts["image"] = str(identity["image"])[:SHORT]
        facts["base"] = str(identity.get("base") or "")
    packages = manifest.get("packages")
    packages = packages if isinstance(packages, dict) else {}
    pinned = identity.get("versions") if isinstance(identity.get("versions"), dict) else {}
    facts |= {str(name): str(version) for name, version in {**(pinned or {}), **packages}.items()}
    return {key: value for key, value in facts.items() if value}


def pin_differences(
    nodes: Mapping[str, Inspected], pin_sets: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], Facts]:
    """Return of each pin set (system, pin) what not all pin sets of its system share."""
    every = {pin_set: installed_facts(nodes, *pin_set) for pin_set in pin_sets}
    apart: dict[tuple[str, str], Facts] = {}
    for pin_set, facts in every.items():
        same_system = [
            theirs for theirs_of, theirs in every.items() if theirs_of[0] == pin_set[0] and theirs
        ]
        keys = dict.fromkeys(key for theirs in same_system for key in theirs)
        apart[pin_set] = {
            key: facts.get(key, ABSENT)
            for key in keys
            if facts and len({theirs.get(key) for theirs in same_system}) > 1
        }
    return apart


def differing(a: Mapping[str, str], b: Mapping[str, str]) -> list[str]:
    """Return `torch 2.12.1, then 2.13.0` for each fact that differs."""
    return [
        f"{key} {a.get(key, ABSENT)}, then {b.get(key, ABSENT)}"
        for key in dict.fromkeys((*a, *b))
        if a.get(key) != b.get(key)
    ]
