"""What a setup costs where nothing is left to do: seconds, tasks a node, and the growth a node.

    python -m benchmarks.setup [--nodes 1 2 4 8]       (root on Linux: `make setting-up`)

Real test nodes (tests/cluster) get the roles of inventory/vs once: base, driver, CUDA, Docker,
torch_gpt with this checkout's torch (which would else be unpacked once a node, on one machine's
disk), ssh between all nodes, a dataset, verify. Then, in one go because machines
are noisy, the same playbook runs again, beside what one would otherwise do: Ansible without
pipelining, and a loop over the nodes that asks dpkg, pip and sha256sum by hand over ssh, one cold
connection a question. NVIDIA's repositories are the tests' own (tests/roles/apt_repository.py).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from tabulate import tabulate

from runner.systems.common.pins import pins
from tests.cluster import Cluster
from tests.cluster.fixtures import Group
from tests.conftest import ROOT
from tests.roles import vs
from tests.roles.apt_repository import repositories
from tests.roles.play import Ran, play

TORCH = ROOT / ".trainbench/systems/torch_gpt" / next(iter(pins("torch_gpt"))) / "env/bin/python3"
QUESTIONS = (
    "dpkg-query -W -f '${binary:Package} ${db:Status-Abbrev} ${Version}\\n'",
    "apt-mark showhold",
    "service --status-all",
    f"{TORCH} -m pip freeze",
    f"{TORCH} -c 'import torch'",
    f"sha256sum {vs.ROOT_FOLDER}/datasets/default/*.bin",
    "cat /etc/security/limits.d/*.conf",
)


def timed(inventory: Path, **environment: str) -> tuple[float, Ran]:
    """Seconds of one setup.yml, and how it ended; it must not change anything."""
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    began = time.monotonic()
    try:
        ran = play(inventory, timeout=900)
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    if ran.rc != 0 or any(ran.changed().values()):
        raise RuntimeError(f"not a no-change run: {ran.out[-3000:]}")
    return time.monotonic() - began, ran


def parts(inventory: Path, folder: Path) -> dict[str, float]:
    """Where a run's time goes: each play to seconds until its last node had done each task.

    Ansible's own start, and what lies between two tasks, are what is lacking to the whole.
    """
    reports = {
        "ANSIBLE_CALLBACKS_ENABLED": "ansible.builtin.junit",
        "JUNIT_OUTPUT_DIR": str(folder),
    }
    timed(inventory, **reports)
    tasks: dict[tuple[str, str, int], float] = {}
    seen: Counter[tuple[str, str]] = Counter()
    for case in ElementTree.parse(next(folder.glob("*.xml"))).iter("testcase"):
        host, _, words = case.attrib["name"].partition("] ")
        line = case.attrib["classname"]
        seen[host, line] += 1  # one task of a shared role is run for several
        key = (words.partition(": ")[0], line, seen[host, line])
        tasks[key] = max(tasks.get(key, 0.0), float(case.attrib["time"]))
    plays: dict[str, float] = {}
    for (name, _, _), took_s in tasks.items():
        plays[name] = plays.get(name, 0.0) + took_s
    return plays


def by_hand(cluster: Cluster, nodes: int) -> float:
    """Seconds that the same questions take over ssh, node after node."""
    ssh = ["ssh", "-F", str(cluster.directory / "ssh_config")]
    began = time.monotonic()
    for node in cluster.nodes[:nodes]:
        for question in QUESTIONS:
            subprocess.run([*ssh, node.hostname, question], check=False, capture_output=True)
    return time.monotonic() - began


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 4, 8], help="node counts")
    parser.add_argument("--no-pipelining", action="store_true", help="measure that, too (slow)")
    chosen = parser.parse_args()
    most = max(chosen.nodes)
    rows = []
    where: dict[str, float] = {}
    with (
        tempfile.TemporaryDirectory() as name,
        repositories(Path(name)) as vendor,
        Cluster(nodes=most) as cluster,
        vendor.served(Group(cluster, cluster.nodes, cluster.inventory)) as served,
    ):
        wanted = {**vs.variables(served), "torch_gpt_existing_python": str(TORCH)}
        inventories = {
            count: cluster.write_inventory(
                Path(name) / f"nodes{count}", nodes=count, variables=wanted
            )
            for count in chosen.nodes
        }
        began = time.monotonic()
        first = play(inventories[most], timeout=3000)
        if first.rc != 0:
            raise RuntimeError(first.out[-3000:])
        print(f"first setup of {most} nodes: {time.monotonic() - began:.0f} s", file=sys.stderr)
        for count in chosen.nodes:
            play(inventories[count], timeout=900)  # the mesh is of other nodes now
            rows.append(row(cluster, inventories[count], count, chosen.no_pipelining))
            if count == most:
                where = parts(inventories[count], Path(name) / "reports")
            print(json.dumps(rows[-1]), f"load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
    headers = ["nodes", "no-change run, s", "tasks a node", "s a further node", "by hand, s"]
    headers += ["without pipelining, s"] if chosen.no_pipelining else []
    base = rows[0]
    for entry in rows[1:]:
        further = (float(entry[1]) - float(base[1])) / (int(entry[0]) - int(base[0]))
        entry[3] = f"{further:.2f}"
    print(tabulate(rows, headers=headers, disable_numparse=True, tablefmt="github"))
    spent = [(name, f"{took_s:.1f}") for name, took_s in where.items()]
    headers = [f"part of a run on {most} nodes", "s"]
    print("\n" + tabulate(spent, headers=headers, disable_numparse=True, tablefmt="github"))
    return 0


def row(cluster: Cluster, inventory: Path, count: int, slow: bool) -> list[str]:
    """One row of the table: the better of two runs."""
    runs = [timed(inventory) for _ in range(2)]
    took_s, ran = min(runs, key=lambda run: run[0])
    tasks = max(counts["ok"] for counts in ran.recap.values())
    found = [str(count), f"{took_s:.1f}", str(tasks), "-", f"{by_hand(cluster, count):.1f}"]
    if slow:
        found.append(f"{timed(inventory, ANSIBLE_PIPELINING='False')[0]:.1f}")
    return found


if __name__ == "__main__":
    sys.exit(main())
