"""The disk space that setup needs below a node's root, for roles/validate. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from node.program_output import human
from plugins.filter.pins import has_compile
from plugins.inventory_check import Known

MIB = 1 << 20


@dataclass(frozen=True)
class Item:
    """What setup brings: its name, the file below the root that says it is there, its size.

    `mib` is None where nobody has measured it.
    """

    name: str
    manifest: str
    mib: int | None


def items(values: Mapping[str, Any], project: Known, sizes: Mapping[str, int]) -> list[Item]:
    """List what an inventory has setup bring; `sizes` are those of roles/validate/vars."""
    item_list = []
    torch = sizes["torch_cuda" if values.get("cluster_device") == "cuda" else "torch_cpu"]
    for system in values.get("cluster_systems", ()):
        if values.get(f"{system}_existing_python") or system not in project.trainers:
            continue
        there = project.pins(system, values)
        for pin in project.pin_sets(system, values):
            holds_torch = "image" not in there[pin] and has_compile(there[pin])  # of today
            manifest = f"systems/{system}/{pin}/installed.json"
            item_list.append(Item(f"{system}/{pin}", manifest, torch if holds_torch else None))
    if not values.get("dataset_existing_python"):
        item_list.append(Item("the datasets' tools", "datasets/.tools/env", sizes["dataset_tools"]))
    default = (project.spec("dataset_names") or {}).get("default", ())
    for name in values.get("dataset_names", default):
        item_list.append(Item(f"dataset {name}", dataset(name), sizes.get(f"dataset_{name}")))
    return item_list


def dataset(name: str) -> str:
    """The file that says that a dataset is there."""
    return f"datasets/{name}/dataset.json"


def room_fault(
    host: str, root: str, free_kib: str, needed: Iterable[Item], there: Collection[str]
) -> str:
    """Say that a disk is too small for what is not there yet, item by item; empty where it is not.

    `free_kib` is what df said, which may be nothing.
    """
    lacking = [item for item in needed if item.manifest not in there]
    need = sum(item.mib or 0 for item in lacking) * MIB
    if not free_kib.isdecimal() or need <= (free := int(free_kib) << 10):
        return ""
    summed = [f"{item.name} {human(item.mib * MIB)}" for item in lacking if item.mib]
    if unknown := [item.name for item in lacking if item.mib is None]:
        summed.append(f"and of a size that is not known, {', '.join(unknown)}")
    return (
        f"{host} has {human(free)} free on the disk of {root}, and setup brings {human(need)} at"
        f" least: {', '.join(summed)}; make room there, or name another cluster_root"
    )
