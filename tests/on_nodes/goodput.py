"""Goodput on four real test nodes: five runs of every kind of fault under each policy, a table.

    python -m tests.on_nodes.goodput

The trainer is tests/resuming_trainer.py; nodes, links, processes, supervisors are real. On each
node a process of nobody's campaign runs beside it, and must be there at the end.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.system import base_python
from tests.conftest import ROOT
from tests.on_nodes.campaign import Bench

TRAINER = ROOT / "tests" / "resuming_trainer.py"
SAID: Mapping[str, Any] = {"capture_output": True, "text": True}
POLICIES = ("restart", "spare", "shrink")
LENGTHS = {
    "kill_rank": "",
    "kill_node": "",
    "stop": "+1s",
    "slow": "+1s",
}
REPEATS, FAULT_AT, STEPS = 5, 25, 155  # the run lasts longer than any fault


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
    env = {"STEPS": str(more.pop("steps", STEPS)), "INTERVAL": "10", "STEP_S": "0.03"}
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


def faults_matrix() -> dict[str, Any]:
    """One fault of each kind under each policy, five runs of each; and runs without faults."""
    cells: list[dict[str, Any]] = [{"faults": "none", "axes": {"kind": "none", "policy": "-"}}]
    cells += [
        {
            "faults": f"{kind}:1@{FAULT_AT}{length}",
            "recovery": policy,
            "axes": {"kind": kind, "policy": policy},
        }
        for kind, length in LENGTHS.items()
        for policy in POLICIES
    ]
    return {
        "name": "faults",
        "defaults": defaults(),
        "include": cells,
        "repeats": REPEATS,
        "warmup_iters": 2,
        "time_limit_s": 300,
        "stall_limit_s": 60,
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


def collected(bench: Bench, *options: str) -> str:
    """Return what `collect` prints of the campaign."""
    argv = [*(sys.executable, "-m", "runner", "collect", "--runs", str(bench.runs)), *options]
    done = subprocess.run(argv, check=True, cwd=ROOT, capture_output=True, text=True)
    return done.stdout


def seen_in(bench: Bench) -> list[tuple[str, ...]]:
    """Return what the logs say of faults that failed: cell, line."""
    logs = bench.campaign.rglob("launcher.log")
    return [
        (log.parents[4].name, line)
        for log in logs
        for line in log.read_text(errors="replace").splitlines()
        if "[trainbench: fault" in line and "failed" in line
    ]


def main(*only: str) -> int:
    """Run it, print its table, and say what was left."""
    (ROOT / "build").mkdir(exist_ok=True)
    with (
        Cluster(4, upper_size_mib=200) as cluster,
        tempfile.TemporaryDirectory(dir=ROOT / "build") as folder,
    ):
        inventory = Path(folder) / "inventory"
        cluster.write_inventory(inventory, variables=variables(cluster.shared))
        pids = bystanders(cluster)
        bench = Bench(Path(folder), inventory, faults_matrix())
        done = bench.run("--format", "json", *only, timeout=7200)
        print(done.stderr[-3000:] if done.returncode else "", flush=True)
        print(collected(bench, "--format", "markdown"))
        for row in rows(collected(bench, "--format", "json")):
            settings = " ".join(str(value) for value in row["axes"].values())
            print(f"{settings}: {row['status']}, faults {row['faults']}, {row['verdict']}")
        for fault in sorted(seen_in(bench)):
            print(*fault)
        report = ROOT / "build" / "goodput.html"
        collected(bench, "--format", "html", "--output", str(report))
        print("bystanders alive:", alive(cluster, pids))
        for node in cluster.nodes:
            node.exec(["kill", pids[node.hostname]])
        processes = {name: found for name, found in cluster.heal().items() if found}
        print("processes left:", processes)
        print("checkpoints left:", list((cluster.shared / "checkpoints").rglob("step-*")))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
