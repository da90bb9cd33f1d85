"""NVIDIA's devices on a node, and its driver: what is installed, what is loaded.

    driver:look     answer it, and change nothing; the spec's `root` stands for / in tests

Reads /sys and /proc, so that it needs no lspci.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from typing import Any

from node.files import read_text

NVIDIA = "0x10de"
# PCI classes: VGA and 3D controllers are GPUs; other bridges of NVIDIA's are NVSwitches. Systems
# from Blackwell on show theirs as InfiniBand controllers of a firmware; fabric manager asks there.
GPUS = ("0x0300", "0x0302")
SWITCHES = ("0x0680",)


def read(path: str) -> str:
    """A small file's text without the end of its line; empty without one."""
    return read_text(path).strip()


def devices(root: str, classes: tuple[str, ...]) -> int:
    """How many of NVIDIA's PCI devices are of these classes."""
    folders = glob.glob(f"{root}/sys/bus/pci/devices/*")
    ours = [folder for folder in folders if read(f"{folder}/vendor") == NVIDIA]
    return sum(read(f"{folder}/class").startswith(classes) for folder in ours)


def command(argv: list[str]) -> str:
    """A command's output; empty when it fails or is not there."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    if shutil.which(argv[0], path=path) is None:
        return ""
    env = {**os.environ, "PATH": path, "LC_ALL": "C"}
    completed = subprocess.run(
        argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    return completed.stdout.decode("utf-8", "replace").strip() if completed.returncode == 0 else ""


def loaded(root: str) -> str:
    """The version of the module in the kernel; empty without one."""
    version = read(f"{root}/sys/module/nvidia/version")
    if version:
        return version
    # NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023
    match = re.search(r"Module.*?\s(\d+\.[\d.]+)\s", read(f"{root}/proc/driver/nvidia/version"))
    return match[1] if match else ""


def look(spec: dict[str, str]) -> dict[str, Any]:
    """What there is."""
    root = spec.get("root", "")
    kernel = os.uname().release
    return {
        "gpus": devices(root, GPUS),
        "switches": devices(root, SWITCHES),
        "loaded": loaded(root),
        # the module that the next boot will load
        "installed": command(["modinfo", "-F", "version", "nvidia"]),
        "nouveau": os.path.isdir(f"{root}/sys/module/nouveau"),
        "kernel": kernel,
        "modules": os.path.isdir(f"{root}/lib/modules/{kernel}"),
        "boot_id": read(f"{root}/proc/sys/kernel/random/boot_id"),
    }
