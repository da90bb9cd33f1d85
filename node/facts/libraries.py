"""What the node has for its devices: toolkits, packages, libraries, services."""

from __future__ import annotations

import os
import re

from .machine import Machine
from .text_values import load

PACKAGES = (
    *("libnccl*", "libcudnn*", "cudnn*", "cuda-toolkit-*"),
    *("nvidia-driver-*", "libnvidia-compute-*", "nvidia-fabricmanager*"),
    *("nvidia-container-toolkit", "rdma-core", "libibverbs1"),
)
LIBRARIES = ("libnccl.so", "libcudnn.so", "libcuda.so")


def toolkits(machine: Machine) -> dict[str, str]:
    """CUDA toolkits: folder to version."""
    versions = {}
    for folder in machine.glob("/usr/local/cuda-[0-9]*"):
        content = load(machine, f"{folder}/version.json") or {}
        version = (content.get("cuda") or {}).get("version")
        old = re.search(r"CUDA Version ([\d.]+)", machine.text(f"{folder}/version.txt") or "")
        versions[folder] = version or (old[1] if old else folder.rsplit("-", 1)[1])
    return versions


def packages(machine: Machine) -> dict[str, str]:
    """Debian packages that training depends on: name to version."""
    form = "${Package}\t${Version}\t${db:Status-Status}\n"
    answer = machine.run("dpkg-query", "-W", "-f", form, *PACKAGES)
    versions = {}
    for line in (answer[1] if answer else "").splitlines():
        if line.count("\t") == 2:
            name, version, state = line.split("\t")
            if state == "installed":
                versions[name] = version
    return versions


def libraries(machine: Machine) -> dict[str, str]:
    """Libraries that the loader finds: name to the file behind its links."""
    answer = machine.run("/sbin/ldconfig", "-p") or machine.run("ldconfig", "-p")
    files: dict[str, str] = {}
    for line in (answer[1] if answer and answer[0] == 0 else "").splitlines():
        name, arrow, path = line.strip().partition(" => ")
        name = name.split(" ")[0]
        if arrow and name.startswith(LIBRARIES):
            files.setdefault(name, os.path.basename(machine.real(path)))
    return files


def fabric_manager(machine: Machine) -> bool | None:
    """Whether it runs; None where no device needs it."""
    if not machine.glob("/dev/nvidia-nvswitch[0-9]*"):
        return None
    names = (machine.text(path) for path in machine.glob("/proc/[0-9]*/comm"))
    return any(name == "nv-fabricmanage" for name in names)  # the kernel keeps 15 letters
