"""One node's env.json as a flat list of items to compare. Pure.

An item is a thing that should be the same on every node. Its severity says what a difference
means: `spoils` a comparison between runs (other numbers, or no run at all), or is a `note`.
docs/how-to/accept.md has the list, written from ITEM_RULES.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SPOILS, NOTE = "spoils", "note"


@dataclass(frozen=True)
class ItemRule:
    """An item's name, what a difference in it means, and why.

    `near` is the share by which two nodes' values may differ and still be the same. A value that
    matches `never` (a regular expression) is wrong on every node that has it.
    """

    name: str
    severity: str
    why: str
    near: float = 0.0
    never: str = ""


@dataclass(frozen=True)
class Item:
    """A rule's item on one node: `name` may say more than the rule's; `value` None is absent.

    An item of many `parts` (a lock's packages) is shown by those that differ. `mixed`: the
    devices of the node itself differ. `number` is compared within the rule's `near`.
    """

    name: str
    rule: ItemRule
    value: str | None
    number: float | None = None
    mixed: bool = False
    parts: Mapping[str, str] | None = None


def _rules(*rules: ItemRule) -> dict[str, ItemRule]:
    return {rule.name: rule for rule in rules}


ITEM_RULES = _rules(
    ItemRule("GPU driver", SPOILS, "kernels, clocks and NCCL's paths change with it"),
    ItemRule("GPU problem", SPOILS, "a tool that fails hides what the node is", never="."),
    ItemRule("GPU count", SPOILS, "fewer than the inventory says cannot run its cells"),
    ItemRule("GPU name", SPOILS, "other devices, other speed"),
    ItemRule("GPU memory MiB", SPOILS, "a cell fits on one node and not on another"),
    ItemRule("GPU clock limit MHz", SPOILS, "the highest clocks bound every kernel's speed"),
    ItemRule("GPU application clock MHz", SPOILS, "a clock set by hand holds back all other nodes"),
    ItemRule("GPU power limit W", SPOILS, "a lower limit lowers the clock under load"),
    ItemRule("GPU ECC", SPOILS, "it takes memory and bandwidth on most devices"),
    ItemRule("GPU memory errors", NOTE, "uncorrected ones: the device is failing", never="[1-9]"),
    ItemRule("GPU MIG", SPOILS, "a part of a device is another device"),
    ItemRule("GPU PCIe width", SPOILS, "a link that lost lanes halves copies to and from the host"),
    ItemRule("GPU PCIe generation", SPOILS, "it bounds copies to and from the host"),
    ItemRule("GPU compute mode", NOTE, "exclusive modes refuse a second process"),
    ItemRule("GPU persistence", NOTE, "without it the first call of each process takes seconds"),
    ItemRule("GPU firmware", NOTE, "the VBIOS seldom matters"),
    ItemRule("fabric manager runs", SPOILS, "without it NVSwitch devices cannot talk", never="no"),
    ItemRule("NPU problem", SPOILS, "a tool that fails hides what the node is", never="."),
    ItemRule("NPU count", SPOILS, "fewer than the inventory says cannot run its cells"),
    ItemRule("NPU name", SPOILS, "other devices, other speed"),
    ItemRule("NPU driver", SPOILS, "kernels and collectives change with it"),
    ItemRule("NPU firmware", SPOILS, "it belongs to the driver's version"),
    ItemRule("NPU toolkit", SPOILS, "CANN's kernels change with it"),
    ItemRule("CUDA toolkits", SPOILS, "extensions are built with them"),
    ItemRule("packages", SPOILS, "NCCL, cuDNN, driver and RDMA packages change speed"),
    ItemRule("libraries", SPOILS, "the one that the loader finds is the one that runs"),
    ItemRule("system", SPOILS, "another commit, patch, package or build of a trainer"),
    ItemRule("conda", NOTE, "the environments made with it are compared on their own"),
    ItemRule("dataset", SPOILS, "other tokens, other losses"),
    ItemRule("MTU", SPOILS, "small packets cost bandwidth, and mixed ones may be lost"),
    ItemRule("link speed Mbit/s", SPOILS, "the slowest link sets the pace of every all-reduce"),
    ItemRule("cluster interface", NOTE, "only its name differs"),
    ItemRule("InfiniBand state", SPOILS, "a port that is down sends traffic another way"),
    ItemRule("InfiniBand rate", SPOILS, "the slowest link sets the pace of every all-reduce"),
    ItemRule("InfiniBand firmware", NOTE, "it seldom matters"),
    ItemRule("CPU model", SPOILS, "it feeds the devices, and on CPU clusters it is the device"),
    ItemRule("CPU cores", SPOILS, "they feed the devices, and on CPU clusters they are the device"),
    ItemRule("CPU threads", SPOILS, "simultaneous threads on one node and not on another"),
    ItemRule("usable CPUs", SPOILS, "the training user may use fewer than there are"),
    ItemRule(
        "CPU quota", SPOILS, "a process that waits for its processors looks like a slow device"
    ),
    ItemRule("NUMA nodes", SPOILS, "a BIOS setting that moves memory away from devices"),
    ItemRule("CPU governor", SPOILS, "powersave slows whatever the CPU feeds"),
    ItemRule("memory MiB", SPOILS, "a missing module takes bandwidth with it", near=0.05),
    ItemRule("swap MiB", NOTE, "a run that swaps is slow and does not say why"),
    ItemRule("huge pages", NOTE, "they are taken from what a run may use"),
    ItemRule("transparent huge pages", NOTE, "a few percent for CPU-bound work"),
    ItemRule("operating system", NOTE, "what matters of it is compared on its own"),
    ItemRule("kernel", NOTE, "what matters of it is compared on its own"),
    ItemRule("architecture", SPOILS, "other machine code"),
    ItemRule("IOMMU", NOTE, "it slows copies between devices, and to and from them"),
    ItemRule("setting", NOTE, "kernel settings that move memory or bound sockets' buffers"),
    ItemRule("limit", NOTE, "what a process of the training user may have"),
    ItemRule("time synchronised", NOTE, "clocks that nothing sets drift apart", never="no"),
)


def items_of(env: Mapping[str, Any]) -> list[Item]:
    """Return the items of one node, in the order in which a table shows them."""
    return list(_items(env))


def _items(env: Mapping[str, Any]) -> Iterator[Item]:
    yield from _gpu(env.get("gpu") or {}, env.get("fabric_manager"))
    yield from _npu(env.get("npu") or {})
    folders = env.get("cuda_toolkits") or {}
    yield _item("CUDA toolkits", ", ".join(sorted(folders.values())) or None)
    yield _parts("packages", env.get("packages"))
    yield _parts("libraries", env.get("libraries"))
    for name, pin in sorted((env.get("systems") or {}).items()):
        yield _parts("system", leaves(pin.get("identity")), name)
        lock = pin.get("lock") or {"sha256": pin.get("lock_sha256") or ""}
        yield _parts("system", lock if any(lock.values()) else None, f"{name} lock")
    yield _item("conda", _word(env.get("conda")))
    for name, content in sorted((env.get("datasets") or {}).items()):
        yield _parts("dataset", content.get("sha256"), name)
    yield from _network(env.get("network") or {})
    yield from _host(env)
    yield _item("time synchronised", _word((env.get("time") or {}).get("synchronised")))


def _item(rule: str, value: Any, more: str = "", number: float | None = None) -> Item:
    text = None if value is None or value == "" else str(value)
    return Item(f"{rule} {more}".strip(), ITEM_RULES[rule], text, number)


def _parts(rule: str, parts: Mapping[str, Any] | None, more: str = "") -> Item:
    texts = {name: str(value) for name, value in (parts or {}).items()}
    value = f"{len(texts)} parts" if texts else None
    return Item(f"{rule} {more}".strip(), ITEM_RULES[rule], value, parts=texts or None)


def _word(value: bool | None) -> str | None:
    return None if value is None else "yes" if value else "no"


def _gpu(gpu: Mapping[str, Any], fabric: bool | None) -> Iterator[Item]:
    devices = gpu.get("devices") or []
    yield _item("GPU driver", gpu.get("driver"))
    yield _item("GPU problem", gpu.get("problem"))
    yield _item("GPU count", len(devices) or None)

    def item(rule: str, *fields: str) -> Item:
        values = [
            "/".join(str(device[key]) for key in fields if device.get(key)) for device in devices
        ]
        return Item(rule, ITEM_RULES[rule], devices_text(values), mixed=len(set(values)) > 1)

    yield item("GPU name", "name")
    yield item("GPU memory MiB", "memory.total")
    yield item("GPU clock limit MHz", "clocks.max.sm", "clocks.max.memory")
    application = ("clocks.applications.graphics", "clocks.applications.memory")
    yield item("GPU application clock MHz", *application)
    yield item("GPU power limit W", "power.limit")
    yield item("GPU ECC", "ecc.mode.current")
    yield item("GPU memory errors", "ecc.errors.uncorrected.volatile.total")
    yield item("GPU MIG", "mig.mode.current")
    yield item("GPU PCIe width", "pcie.link.width.current", "pcie.link.width.max")
    yield item("GPU PCIe generation", "pcie.link.gen.max")
    yield item("GPU compute mode", "compute_mode")
    yield item("GPU persistence", "persistence_mode")
    yield item("GPU firmware", "vbios_version")
    yield _item("fabric manager runs", _word(fabric))


def _npu(npu: Mapping[str, Any]) -> Iterator[Item]:
    devices = npu.get("devices") or []
    yield _item("NPU driver", npu.get("driver"))
    yield _item("NPU firmware", npu.get("firmware"))
    yield _item("NPU toolkit", npu.get("toolkit"))
    yield _item("NPU problem", npu.get("problem"))
    yield _item("NPU count", len(devices) or None)
    names = [str(device.get("name")) for device in devices]
    yield Item("NPU name", ITEM_RULES["NPU name"], devices_text(names), mixed=len(set(names)) > 1)


def devices_text(values: Sequence[str]) -> str | None:
    """Return one value for a node's devices: the one that all have, or which device has another.

    `700.00`, or `700.00 (5: 650.00)` where device 5 differs from most.
    """
    if not any(values):
        return None
    counts = Counter(values)
    usual = max(counts, key=lambda value: (counts[value], value))
    deviating = [
        f"{number}: {value or '–'}" for number, value in enumerate(values) if value != usual
    ]
    return f"{usual or '–'} ({', '.join(deviating)})" if deviating else usual


def leaves(value: Any, path: str = "") -> dict[str, str]:
    """Return a nested object's leaves by their path: `versions.torch`."""
    if isinstance(value, Mapping):
        texts: dict[str, str] = {}
        for key, inner in value.items():
            texts |= leaves(inner, f"{path}.{key}" if path else str(key))
        return texts
    if isinstance(value, list):
        return leaves({str(number): inner for number, inner in enumerate(value)}, path)
    return {path or "identity": str(value)}


def _network(network: Mapping[str, Any]) -> Iterator[Item]:
    interfaces = network.get("interfaces") or {}
    carriers = sorted(name for name, link in interfaces.items() if link["carries"] == "cluster")
    # The one that carries the cluster's address is the same item whatever it is called.
    yield _item("cluster interface", ", ".join(carriers) or None)
    for name, link in sorted(interfaces.items()):
        more = "" if [name] == carriers else name
        yield _item("MTU", link.get("mtu"), more)
        yield _item("link speed Mbit/s", link.get("speed_mbit_s"), more)
    for port, link in sorted((network.get("infiniband") or {}).items()):
        yield _item("InfiniBand state", link.get("state"), port)
        yield _item("InfiniBand rate", link.get("rate"), port)
        yield _item("InfiniBand firmware", link.get("firmware"), port)


def _host(env: Mapping[str, Any]) -> Iterator[Item]:
    cpu, memory, system = (env.get(key) or {} for key in ("cpu", "memory", "system"))
    yield _item("CPU model", cpu.get("model"))
    yield _item("CPU cores", cpu.get("cores"))
    yield _item("CPU threads", cpu.get("threads"))
    yield _item("usable CPUs", cpu.get("usable"))
    quota = cpu.get("quota_percent")
    yield _item("CPU quota", None if quota is None else f"{quota / 100:g} CPUs")
    yield _item("NUMA nodes", cpu.get("numa_nodes"))
    yield _item("CPU governor", cpu.get("governor"))
    total = memory.get("total_mib")
    yield _item("memory MiB", total, number=total)
    yield _item("swap MiB", memory.get("swap_mib"))
    pages = memory.get("hugepages")
    size = memory.get("hugepage_kib")
    yield _item("huge pages", None if pages is None else f"{pages} x {size} KiB")
    yield _item("transparent huge pages", system.get("transparent_hugepages"))
    yield _item("architecture", system.get("architecture"))
    yield _item("operating system", system.get("os"))
    yield _item("kernel", system.get("kernel"))
    yield _item("IOMMU", _word(system.get("iommu")))
    for name, value in sorted((system.get("settings") or {}).items()):
        yield _item("setting", value, name)
    for name, value in sorted((system.get("limits") or {}).items()):
        yield _item("limit", "unlimited" if value is None else value, name.replace("_", " "))
