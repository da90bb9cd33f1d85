"""What a setup costs where nothing is left to do: seconds, processor time, tasks, growth a node.

    python -m benchmarks.setup [--nodes 1 2 4 8]       (root on Linux: `make setting-up`)

Real test nodes (tests/cluster) get the roles of inventory/vs once: base, driver, CUDA, Docker,
torch_gpt with this checkout's torch (which would else be unpacked once a node, on one machine's
disk), ssh between all nodes, a dataset, verify. Then, in one go because machines
are noisy, the same playbook runs again, beside what one would otherwise do: Ansible without
pipelining, and a loop over the nodes that asks dpkg, pip and sha256sum by hand over ssh, one cold
connection a question. NVIDIA's repositories are the tests' own (tests/roles/apt_repository.py).

Control node and test nodes share one machine's processors: what both spend, shared out among all of
these, is the least that a run can take there, and is printed beside what it took.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from tabulate import tabulate

from runner.systems.common.pins import pins
from tests.cluster import Cluster
from tests.cluster.fixtures import Group
from tests.cluster.processes import table
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


class Spent(NamedTuple):
    """What one run took: seconds by the clock, and of processors on either side."""

    wall_s: float
    control_s: float
    nodes_s: float
    ran: Ran

    @property
    def least_s(self) -> float:
        """Seconds that it takes where no processor of this machine ever waits."""
        return (self.control_s + self.nodes_s) / (os.cpu_count() or 1)


def nodes_cpu_s(cluster: Cluster) -> float:
    """Processor seconds of all that lives on the nodes, and of all that ended there."""
    ticks = 0
    for process in (each for node in cluster.nodes for each in table(node.pid)):
        with suppress(OSError):  # gone while we look
            stat = Path(f"/proc/{process.host_pid}/stat").read_text(encoding="ascii")
            ticks += sum(map(int, stat.rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def control_cpu_s() -> float:
    """Processor seconds of the programs that this one has started and that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def timed(cluster: Cluster, inventory: Path, **environment: str) -> Spent:
    """What one setup.yml spends; it must not change anything."""
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    nodes_s, control_s, began = nodes_cpu_s(cluster), control_cpu_s(), time.monotonic()
    try:
        ran = play(inventory, timeout=900)
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    if ran.rc != 0 or any(ran.changed().values()):
        raise RuntimeError(f"not a no-change run: {ran.out[-3000:]}")
    wall_s, control_s = time.monotonic() - began, control_cpu_s() - control_s
    return Spent(wall_s, control_s, nodes_cpu_s(cluster) - nodes_s, ran)


def parts(cluster: Cluster, inventory: Path, folder: Path) -> dict[str, float]:
    """Where a run's time goes: each play to seconds until its last node had done each task.

    Ansible's own start, and the time between two tasks, are the difference to the whole.
    """
    reports = {
        "ANSIBLE_CALLBACKS_ENABLED": "ansible.builtin.junit",
        "JUNIT_OUTPUT_DIR": str(folder),
    }
    timed(cluster, inventory, **reports)
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
                where = parts(cluster, inventories[count], Path(name) / "reports")
            print(json.dumps(rows[-1]), f"load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
    cores = os.cpu_count() or 1
    headers = ["nodes", "no-change run, s", "of one node's", f"at least on {cores} processors, s"]
    headers += ["processor s of control", "of nodes", "tasks a node", "by hand, s"]
    headers += ["without pipelining, s"] if chosen.no_pipelining else []
    for entry in rows:
        entry[2] = f"{float(entry[1]) / float(rows[0][1]):.1f}"
    print(tabulate(rows, headers=headers, disable_numparse=True, tablefmt="github"))
    spent = [(name, f"{took_s:.1f}") for name, took_s in where.items()]
    headers = [f"part of a run on {most} nodes", "s"]
    print("\n" + tabulate(spent, headers=headers, disable_numparse=True, tablefmt="github"))
    return 0


def row(cluster: Cluster, inventory: Path, count: int, slow: bool) -> list[str]:
    """One row of the table: the better of two runs."""
    best = min((timed(cluster, inventory) for _ in range(2)), key=lambda run: run.wall_s)
    tasks = max(counts["ok"] for counts in best.ran.recap.values())
    seconds = [f"{each:.1f}" for each in (best.least_s, best.control_s, best.nodes_s)]
    found = [str(count), f"{best.wall_s:.1f}", "-", *seconds, str(tasks)]
    found.append(f"{by_hand(cluster, count):.1f}")
    if slow:
        found.append(f"{timed(cluster, inventory, ANSIBLE_PIPELINING='False').wall_s:.1f}")
    return found


if __name__ == "__main__":
    sys.exit(main())
