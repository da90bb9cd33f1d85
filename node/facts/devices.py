"""NVIDIA's and Ascend's devices, by their drivers and tools."""

from __future__ import annotations

import re
from typing import Any

from node.program_output import last_line, pairs

from .machine import Machine
from .text_values import shared

# Fields that a driver does not know are left out: its own words name them.
GPU_FIELDS = (
    "index",
    "name",
    "driver_version",
    "memory.total",
    "clocks.max.sm",
    "clocks.max.memory",
    "clocks.applications.graphics",
    "clocks.applications.memory",
    "power.limit",
    "persistence_mode",
    "ecc.mode.current",
    "ecc.errors.uncorrected.volatile.total",
    "mig.mode.current",
    "compute_mode",
    "pcie.link.gen.max",
    "pcie.link.width.max",
    "pcie.link.width.current",
    "vbios_version",
)
NOT_THERE = {"", "N/A", "[N/A]", "[Not Supported]", "Not Supported", "[Unknown Error]"}


def gpus(machine: Machine) -> dict[str, Any]:
    """NVIDIA's driver and devices, by nvidia-smi's CSV."""
    fields = list(GPU_FIELDS)
    facts: dict[str, Any] = {"driver": kernel_driver(machine), "problem": None, "devices": []}
    while fields:
        query = "--query-gpu=" + ",".join(fields)
        answer = machine.run("nvidia-smi", query, "--format=csv,noheader,nounits")
        if answer is None:
            if facts["driver"]:
                facts["problem"] = "the NVIDIA driver is loaded, but nvidia-smi is not installed"
            return facts
        rc, text = answer
        unknown = re.search(r'Field "([^"]+)" is not a valid field', text)
        if rc == 0:
            facts["devices"] = rows(fields, text)
            break
        if not unknown or unknown[1] not in fields:
            facts["problem"] = f"nvidia-smi: {last_line(text)}"
            break
        fields.remove(unknown[1])
    versions = shared([device.get("driver_version") for device in facts["devices"]])
    if versions and facts["driver"] and versions != facts["driver"]:
        facts["problem"] = (
            f"the loaded NVIDIA kernel module is {facts['driver']}, but nvidia-smi reports"
            f" {versions}; restart the node"
        )
    facts["driver"] = facts["driver"] or versions
    return facts


def kernel_driver(machine: Machine) -> str | None:
    """The version of NVIDIA's kernel module that is loaded."""
    text = machine.text("/proc/driver/nvidia/version") or ""
    match = re.search(r"Kernel Module\s+(?:for \S+\s+)?(\d+(?:\.\d+)+)", text)
    return match[1] if match else None


def rows(fields: list[str], text: str) -> list[dict[str, str | None]]:
    """The rows of nvidia-smi's CSV; what a device does not have is None."""
    devices = []
    for line in text.splitlines():
        values = [value.strip() for value in line.split(", ")]
        if len(values) == len(fields):
            row = zip(fields, values)  # Python 3.8 has no strict
            devices.append({key: None if value in NOT_THERE else value for key, value in row})
    return devices


def npus(machine: Machine) -> dict[str, Any]:
    """Ascend's driver, firmware, toolkit and devices."""
    ascend = "/usr/local/Ascend"
    facts: dict[str, Any] = {"problem": None, "devices": []}
    for name, path in (
        ("driver", f"{ascend}/driver/version.info"),
        ("firmware", f"{ascend}/firmware/version.info"),
    ):
        facts[name] = pairs(machine.text(path), "=").get("Version")
    toolkit = machine.text(f"{ascend}/ascend-toolkit/latest/version.cfg") or ""
    version = re.search(r"\[([\d.A-Za-z]+):", toolkit)
    facts["toolkit"] = version[1] if version else None
    answer = machine.run("npu-smi", "info")
    if answer is None:
        return facts
    if answer[0] != 0:
        facts["problem"] = f"npu-smi: {last_line(answer[1])}"
        return facts
    version = re.search(r"Version:\s*(\S+)", answer[1])
    facts["driver"] = facts["driver"] or (version[1] if version else None)
    # | 0     910B1       | OK        | 97.5   ... one such row a device, its second row has the bus
    for line in answer[1].splitlines():
        if row := re.match(r"\|\s*(\d+)\s+(\w*\d+\w*)\s*\|\s*([A-Za-z]+)\s*\|", line):
            facts["devices"].append({"index": row[1], "name": row[2], "health": row[3]})
    return facts
