"""All that is known, as env.json holds it."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any

from .devices import gpus, npus
from .host import clock, cpu, memory, system
from .installed import datasets, pins
from .libraries import fabric_manager, libraries, packages, toolkits
from .machine import Machine
from .network import network

SCHEMA = 1


def read(machine: Machine, spec: dict[str, Any]) -> dict[str, Any]:
    """Everything, as env.json holds it."""
    root = spec["root"]
    free, total = machine.disk(root)
    return {
        "schema": SCHEMA,
        "read_at": time.time(),
        "hostname": socket.gethostname(),
        "system": system(machine),
        "cpu": cpu(machine),
        "memory": memory(machine),
        "gpu": gpus(machine),
        "npu": npus(machine),
        "cuda_toolkits": toolkits(machine),
        "packages": packages(machine),
        "libraries": libraries(machine),
        "fabric_manager": fabric_manager(machine),
        "conda": bool(machine.glob(f"{root}/conda/bin/conda")),
        "systems": pins(machine, root),
        "datasets": datasets(machine, root),
        "network": network(machine, spec),
        "disk": {"path": root, "free_mib": free, "total_mib": total},
        "time": clock(machine, spec.get("time", {})),
    }


def leave(facts: dict[str, Any], root: str) -> None:
    """Write <root>/env.json, whole or not at all; a root that is not there yet is not made."""
    if not os.path.isdir(root):
        return
    fresh = os.path.join(root, ".env.json.tmp")
    try:
        with open(fresh, "w", encoding="utf-8") as stream:
            json.dump(facts, stream, indent=1)
            stream.write("\n")
        os.replace(fresh, os.path.join(root, "env.json"))
    except OSError as error:
        facts["disk"]["problem"] = f"{root}/env.json cannot be written: {error.strerror}"
