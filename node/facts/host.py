"""The machine without its devices: system, processors, memory, clock."""

from __future__ import annotations

import platform
import re
from typing import Any

from node.program_output import pairs

from .machine import Machine
from .text_values import number, shared


def system(machine: Machine) -> dict[str, Any]:
    """Operating system, kernel, and settings of the kernel that training meets."""
    settings = {}
    for name in ("kernel/numa_balancing", "net/core/rmem_max", "net/core/wmem_max"):
        settings[name.replace("/", ".")] = number(machine.text("/proc/sys/" + name))
    pages = machine.text("/sys/kernel/mm/transparent_hugepage/enabled") or ""
    chosen = re.search(r"\[(\w+)\]", pages)
    return {
        "os": pairs(machine.text("/etc/os-release"), "=").get("PRETTY_NAME"),
        "kernel": machine.text("/proc/sys/kernel/osrelease"),
        "architecture": platform.machine(),
        "boot_id": machine.text("/proc/sys/kernel/random/boot_id"),
        "transparent_hugepages": chosen[1] if chosen else None,
        "iommu": bool(machine.glob("/sys/kernel/iommu_groups/*")),
        "settings": settings,
        "limits": machine.limits(),
    }


def cpu(machine: Machine) -> dict[str, Any]:
    """Model, counts, and how the kernel drives them."""
    text = machine.text("/proc/cpuinfo") or ""
    blocks = [pairs(block, ":") for block in text.split("\n\n")]
    blocks = [block for block in blocks if "processor" in block]
    cores = {(block.get("physical id"), block.get("core id")) for block in blocks}
    all_known = all(None not in core for core in cores)
    first_block = blocks[0] if blocks else {}
    governors = machine.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
    return {
        "model": first_block.get("model name") or first_block.get("CPU part"),
        "sockets": len({core[0] for core in cores}) if all_known and cores else None,
        "cores": len(cores) if all_known and cores else None,
        "threads": len(blocks) or None,
        "usable": machine.processors(),
        "quota_percent": machine.cpu_quota_percent(),
        "numa_nodes": len(machine.glob("/sys/devices/system/node/node[0-9]*")) or None,
        "governor": shared([machine.text(path) for path in governors]),
    }


def memory(machine: Machine) -> dict[str, Any]:
    """Main memory, swap and huge pages."""
    fields = pairs(machine.text("/proc/meminfo"), ":")

    def mib(key: str) -> int | None:
        kib = number(fields.get(key))
        return None if kib is None else kib // 1024

    return {
        "total_mib": mib("MemTotal"),
        "swap_mib": mib("SwapTotal"),
        "hugepages": number(fields.get("HugePages_Total")),
        "hugepage_kib": number(fields.get("Hugepagesize")),
    }


def clock(machine: Machine, measured: dict[str, Any]) -> dict[str, Any]:
    """The control node's measurement, and what chrony or systemd says of the clock."""
    chrony = None
    answer = machine.run("chronyc", "-n", "-c", "tracking")
    columns = (answer[1] if answer and answer[0] == 0 else "").strip().split(",")
    if len(columns) > 12:
        try:
            chrony = float(columns[4])
        except ValueError:
            chrony = None
    synchronised = None
    if chrony is not None:
        synchronised = columns[-1].strip() == "Normal"
    else:
        answer = machine.run("timedatectl", "show", "-p", "NTPSynchronized", "--value")
        word = answer[1].strip() if answer and answer[0] == 0 else ""
        synchronised = {"yes": True, "no": False}.get(word)
    return {**measured, "chrony_offset_s": chrony, "synchronised": synchronised}
