"""Inventories made wrong, as `ansible-inventory --list` has them: bench's reader and setup's.

Nothing of one is executed and none of its secrets is printed; faults are printable sentences.
"""

import json
import random
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from plugins import inventory_check
from runner.base.paths import PROJECT
from tests.fuzz.case import FindingError, printable
from tests.fuzz.matrices import LISTED, dry_run
from tests.fuzz.mutation import mutated_json

SECRET = "hf_0123456789"
FULL: dict[str, Any] = {
    **LISTED["_meta"]["hostvars"]["n1"],
    "cluster_env": {"NCCL_DEBUG": "INFO", "HF_TOKEN": SECRET},
    "cluster_systems": ["torch_gpt"],
    "cluster_address": "10.1.0.1",
    "cluster_switch": "leaf1",
    "cluster_device_memory_mib": 32510,
    "cluster_lost_contact_s": 6,
    "cluster_container_engine": "podman",
    "cluster_container_ssh_port": 2222,
    "cluster_container_options": ["--device=/dev/infiniband"],
    "npu_cann_home": "/usr/local/Ascend",
    "cuda_versions": ["11.3"],
    "base_gcc_version": 12,
    "dataset_names": ["default"],
    "site_mirrors": {"pip": {"https://pypi.org/simple": "https://mirror/simple"}},
    "ansible_connection": "ssh",
}


class Inventories:
    """All hosts in one group, or in its children."""

    name = "inventories"
    share = 6

    @cached_property
    def known(self) -> inventory_check.Known:
        """What setup compares with."""
        return inventory_check.read(PROJECT)

    @cached_property
    def limits(self) -> dict[str, int]:
        """Compilers' limits."""
        text = (PROJECT / "roles/validate/vars/main.yml").read_text()
        limits: dict[str, int] = yaml.safe_load(text)["__validate_gcc_limits"]
        return limits

    def make(self, chance: random.Random) -> bytes:
        """What ansible-inventory lists."""
        hosts = {"n1": FULL, "n2": {**FULL, "ansible_host": "10.0.0.2"}}
        listed = {
            "nodes": {"hosts": ["n1"], "children": ["more"]},
            "more": {"hosts": ["n2"]},
            "_meta": {"hostvars": hosts},
        }
        return mutated_json(listed, chance)

    def judge(self, data: bytes, folder: Path) -> None:
        """As bench reads it, and as setup checks it."""
        path = folder / "m.yaml"
        path.write_text("defaults: {system: torch_gpt, nodes: 2}\n")
        answer = dry_run(path, data)
        named = f'"HF_TOKEN": "{SECRET}"'.encode()  # elsewhere it is no secret by its name
        if data.count(SECRET.encode()) == data.count(named) and SECRET in answer.out + answer.err:
            raise FindingError("bench --dry-run shows a secret")
        try:
            values = dict(json.loads(data)["_meta"]["hostvars"]["n1"])
        except (KeyError, TypeError, ValueError, RecursionError):
            return
        address = str(values.get("ansible_host"))
        faults = inventory_check.inventory_faults(
            "n1", address, False, values, values, self.known, self.limits
        )
        for fault in faults:
            printable("setup's fault", fault)
