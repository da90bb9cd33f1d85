"""All that is known, as env.json holds it."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any

from node.files import write_text

from .devices import gpus, npus
from .host import clock, cpu, memory, system
from .installed import datasets, pins
from .libraries import fabric_manager, libraries, packages, toolkits
from .machine import Machine
from .network import network

SCHEMA = 1


def read(spec: dict[str, Any]) -> dict[str, Any]:
    """Everything, as env.json holds it, which is left on the node where the spec says so."""
    facts = read_from(Machine(), spec)
    if spec.get("write"):
        name = "env-%s.json" % facts["hostname"] if spec.get("shared") else "env.json"
        leave(facts, spec["root"], name)
    return facts


def read_from(machine: Machine, spec: dict[str, Any]) -> dict[str, Any]:
    """Everything that a machine says of itself."""
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


def leave(facts: dict[str, Any], root: str, name: str) -> None:
    """Write <root>/env.json, whole or not at all; a root that is not there yet is not made.

    Nodes that share the root have a file each.
    """
    if not os.path.isdir(root):
        return
    try:
        write_text(os.path.join(root, name), json.dumps(facts, indent=1) + "\n")
    except OSError as error:
        facts["disk"]["problem"] = f"{root}/{name} cannot be written: {error.strerror}"
