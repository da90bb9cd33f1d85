"""200 short cells in a row on 4 nodes, every fifth with a fault: ``make soak`` (root, ten minutes).

    python -m tests.faults.soak [--cells 200] [--seed 1]

Nothing may be lost (every cell has an outcome, every cell without a fault is ok), nothing left on
a node, and the runner's memory and open files must not grow.
"""

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tabulate import tabulate

from runner.folder import names
from tests import stand_in
from tests.cluster import Cluster
from tests.cluster.fixtures import Group
from tests.cluster.node import Node
from tests.cluster.system import base_python
from tests.conftest import ROOT
from tests.faults.__main__ import variables
from tests.faults.stage import OURS
from tests.on_nodes.campaign import Bench

EVERY = 5
ACTS = ("segfault", "exit_3", "orphan", "no_step", "hang", "daemon", "rubbish", "fail_first")


def kill_trainer(node: Node) -> None:
    """The node's trainer is gone."""
    for pid, argv in node.processes():
        if "train.py" in " ".join(argv):
            node.signal(pid, signal.SIGKILL)


def cut_link(node: Node) -> None:
    """The node's link is down for 9 s, which is longer than lost_contact_s."""
    node.link(False)
    time.sleep(9)
    node.link(True)


def lose_sshd(node: Node) -> None:
    """The node's sshd and its sessions are gone for 2 s."""
    node.kill_sshd()
    time.sleep(2)
    node.start_sshd()


def reboot(node: Node) -> None:
    """The node's power goes for a second."""
    node.reboot(down_s=1.0)


BLOWS: tuple[Callable[[Node], None], ...] = (kill_trainer, cut_link, lose_sshd, reboot)


def cells(count: int, chance: random.Random) -> list[dict[str, Any]]:
    """The cells, as env: every fifth misbehaves by itself (ACT) or is long enough to be HIT."""
    found = []
    for number in range(count):
        env = {"CELL": f"c{number:03d}", "STEP_S": "0.005"}
        if number % EVERY == EVERY - 1:
            if chance.random() < 0.5:
                env |= {"ACT": chance.choice(ACTS), "ACT_RANK": str(chance.randrange(4))}
            else:
                env |= {"STEP_S": "0.4", "HIT": chance.choice(BLOWS).__name__}
        found.append(env)
    return found


def size_of(pid: int) -> tuple[float, int]:
    """(resident MiB, open files) of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len(os.listdir(f"/proc/{pid}/fd"))


def main() -> int:
    """Exit code 0: nothing lost, nothing left, nothing grown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    chance = random.Random(chosen.seed)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    stand_in.install(stand_in.FOLDER, base_python())
    wanted = cells(chosen.cells, chance)
    matrix = {
        "name": "soak",
        "defaults": {"system": "torch_gpt", "devices_per_node": 1, "nodes": 4, "train_iters": 20},
        "axes": {"env": wanted},
        "stall_limit_s": 4,
        "time_limit_s": 60,
    }
    with tempfile.TemporaryDirectory() as name, Cluster(nodes=4) as cluster:
        folder = Path(name)
        inventory = cluster.write_inventory(folder / "nodes", variables=variables())
        group = Group(cluster, cluster.nodes, inventory)
        bench = Bench(folder, inventory, matrix)
        began = time.monotonic()
        sizes, blows = strike_all(bench, group, chance)
        took_s = time.monotonic() - began
        code, said = bench.finish()
        print(f"first bench: exit code {code}, {took_s:.0f} s", file=sys.stderr)
        # What something outside ended is run again by the same command.
        again = bench.run(timeout=1200)
        print(f"second bench: exit code {again.returncode}", file=sys.stderr)
        return report(bench, group, wanted, sizes, blows, said)


def strike_all(
    bench: Bench, group: Group, chance: random.Random
) -> tuple[list[tuple[float, int]], int]:
    """Run the campaign, hit what is to be hit; the runner's sizes meanwhile, how many blows."""
    bench.start()
    assert bench.process is not None
    sizes: list[tuple[float, int]] = []
    hit: set[Path] = set()
    while bench.process.poll() is None:
        try:
            sizes.append(size_of(bench.process.pid))
        except (OSError, IndexError):
            break
        for run in bench.campaign.glob("*+HIT_*/repeat1/attempt1"):
            if run in hit or (run / names.OUTCOME).exists():
                continue
            logs = run.rglob(names.LOG)
            if sum(log.read_bytes().count(b"torch_gpt step=") for log in logs) >= 2:
                hit.add(run)
                blow = next(item for item in BLOWS if f"HIT_{item.__name__}" in run.parts[-3])
                blow(chance.choice(group.nodes))
        time.sleep(0.1)
    return sizes, len(hit)


def report(
    bench: Bench,
    group: Group,
    wanted: list[dict[str, Any]],
    sizes: list[tuple[float, int]],
    blows: int,
    said: str,
) -> int:
    """Print the figures; the exit code."""
    found = {path.parts[-3] for path in bench.campaign.glob("*/repeat1/attempt1")}
    last = {
        cell: bench_outcome(bench.campaign / cell)
        for cell in (path.name for path in bench.campaign.iterdir())
        if cell.startswith("env=")
    }
    ends = Counter(end or "none" for end in last.values())
    whole = [cell for cell in found if "+ACT_" not in cell and "+HIT_" not in cell]
    lost = [cell for cell in whole if last.get(cell) != "ok"]
    left = [
        f"{node.hostname}: {' '.join(argv)}"
        for node in group.nodes
        for _, argv in node.processes()
        if any(word in " ".join(argv) for word in OURS) or argv[:1] == ["sleep"]
    ]
    tenth = max(1, len(sizes) // 10)
    early, late = sizes[tenth : 2 * tenth], sizes[-tenth:]
    memory = [statistics.median(size for size, _ in part) for part in (early, late)]
    files = [max(count for _, count in part) for part in (early, late)]
    rows = [
        ("cells", f"{len(found)} of {len(wanted)} ran"),
        ("hit from outside", f"{blows} of {sum('HIT' in env for env in wanted)}"),
        ("how they ended at last", ", ".join(f"{n} {status}" for status, n in ends.items())),
        ("cells without a fault that are not ok", str(len(lost))),
        ("processes left on the nodes", str(len(left))),
        ("runner's memory, MiB, early and late", f"{memory[0]:.0f} {memory[1]:.0f}"),
        ("runner's open files, early and late", f"{files[0]} {files[1]}"),
    ]
    print(tabulate(rows, tablefmt="github", headers=("200 cells, a fault in every fifth", "")))
    fine = len(found) == len(wanted) and blows > 0 and not lost and not left and "none" not in ends
    flat = memory[1] < memory[0] * 1.2 + 5 and files[1] <= files[0] + 3
    if not fine or not flat:
        print(*lost, *left, said[-2000:], sep="\n", file=sys.stderr)
    subprocess.run(["sync"], check=False)
    return 0 if fine and flat else 1


def bench_outcome(cell: Path) -> str | None:
    """The status of a cell's last attempt."""
    import json

    ended = sorted(
        cell.glob(f"repeat1/attempt*/{names.OUTCOME}"), key=lambda path: int(path.parts[-2][7:])
    )
    return str(json.loads(ended[-1].read_text())["status"]) if ended else None


if __name__ == "__main__":
    sys.exit(main())
