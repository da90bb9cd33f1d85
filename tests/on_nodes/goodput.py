"""What runs with faults need on test nodes; the trainer is tests/resuming_trainer.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.system import base_python
from tests.conftest import ROOT

TRAINER = ROOT / "tests" / "resuming_trainer.py"
SAID: Mapping[str, Any] = {"capture_output": True, "text": True}


def variables(shared: Path) -> dict[str, Any]:
    """What an inventory of test nodes needs."""
    return {
        "cluster_root": str(shared / "root"),
        "cluster_root_shared": True,
        "cluster_scratch": "/var/tmp/scratch",  # on nodes of 200 MiB
        "cluster_devices_per_node": 1,
        "cluster_checkpoints": str(shared / "checkpoints"),
        "cluster_lost_contact_s": 6,
        "setup_privileged": False,
    }


def defaults(**more: Any) -> dict[str, Any]:
    """A cell of the trainer, a process a node."""
    env = {"STEPS": "60", "INTERVAL": "10", "STEP_S": "0.03"}
    env |= {"WRITES": "1", **more.pop("env", {})}
    return {
        "system": "command",
        "argv": [
            *(base_python(), str(TRAINER), "{node_rank}", "{nodes}"),
            *("{master_addr}", "{master_port}", "{checkpoints}"),
        ],
        "cwd": str(ROOT),
        "log": "torch_gpt",
        "samples_per_step": 8,
        "tokens_per_sample": 1,
        "train_iters": int(env["STEPS"]),
        "resumes": True,
        "checkpoint_interval": 10,
        "devices_per_node": 1,
        "nodes": 3,
        "env": env,
        **more,
    }


def bystanders(cluster: Cluster) -> dict[str, str]:
    """Start a process on each node that is nobody's; node to pid."""
    quiet = "stdin=n, stdout=n, stderr=n, start_new_session=True"
    line = f"import subprocess as s; n = s.DEVNULL; print(s.Popen(['sleep', '9999'], {quiet}).pid)"
    return {
        node.hostname: node.exec([base_python(), "-c", line], **SAID).stdout.strip()
        for node in cluster.nodes
    }


def alive(cluster: Cluster, pids: Mapping[str, str]) -> list[str]:
    """Return the nodes whose bystander is alive."""
    return [
        node.hostname
        for node in cluster.nodes
        if not node.exec(["test", "-d", f"/proc/{pids[node.hostname]}"]).returncode
    ]


def rows(printed: str) -> list[dict[str, Any]]:
    """Return the rows of a campaign's JSON."""
    table: list[dict[str, Any]] = json.loads(printed)["rows"]
    return table
