"""What this node is."""

from __future__ import annotations

import os
import time

from node.files import read_json, read_text
from node.fingerprint import fingerprints
from node.program_output import pairs

from .gpus import nvidia_smi
from .names import HOSTNAME
from .state import boot_id, host_name

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any


def inspect(spec: dict[str, Any]) -> dict[str, Any]:
    """What this node is, for the campaign's record: hardware, system, and the JSON files named.

    `spec`: paths, name to path of a JSON file (installed.json, dataset.json); a missing one is
    null, and HOSTNAME in one is this node's name. folders and pythons, name to path likewise, of
    trainers that setup did not bring; apart, checksums of files that do not count there.
    """
    files: dict[str, dict[str, str]] = {}
    relied = fingerprints(
        spec.get("folders", {}), spec.get("pythons", {}), spec.get("apart", ()), files
    )
    memory = pairs(read_text("/proc/meminfo"), ":")
    return {
        "now": time.time(),
        "boot_id": boot_id(),
        "hostname": host_name(),
        "kernel": " ".join(os.uname()[i] for i in (0, 2, 4)),
        "system": pairs(read_text("/etc/os-release"), "=").get("PRETTY_NAME", ""),
        "cpu": pairs(read_text("/proc/cpuinfo"), ":").get("model name", ""),
        "cpu_count": len(os.sched_getaffinity(0)),
        "memory_mib": int(memory.get("MemTotal", "0 kB").split()[0]) // 1024,
        "devices": nvidia_smi(),
        "files": {name: read_json(here(path)) for name, path in spec["paths"].items()},
        "relied": relied,
        "relied_files": files,
    }


def here(path: str) -> str:
    """Return a path with this node's name in it."""
    return path.replace(HOSTNAME, host_name())
