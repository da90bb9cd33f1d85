"""Short cells in a row on 4 nodes, every fifth with a fault.

Nothing may be lost (every cell has an outcome, every cell without a fault is ok), nothing left on
a node, and the runner's memory and open files must not grow.
"""

import json
import os
import random
import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from runner.folder import names
from tests.cluster.fixtures import Group, RealNodes
from tests.cluster.node import Node
from tests.faults.stage import OURS, VARIABLES
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


@pytest.mark.cluster
@pytest.mark.nightly("soak")
@pytest.mark.timeout(2700)
@pytest.mark.parametrize("count", [5, 200])
@pytest.mark.usefixtures("stand_in_root")
def test_nothing_is_lost_left_or_grows(
    count: int,
    seed: int,
    real_nodes: RealNodes,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    chance = random.Random(seed)
    wanted = cells(count, chance)
    matrix = {
        "name": "soak",
        "defaults": {"system": "torch_gpt", "devices_per_node": 1, "nodes": 4, "train_iters": 20},
        "axes": {"env": wanted},
        "stall_limit_s": 4,
        "time_limit_s": 60,
    }
    group = real_nodes(variables=VARIABLES)
    bench = Bench(tmp_path, group.inventory, matrix)
    sizes, blows = strike_all(bench, group, chance, count)
    print(bench.finish()[1][-2000:])
    bench.run(timeout=1200)  # what something outside ended is run again by the same command
    last = {cell.name: bench_outcome(cell) for cell in bench.campaign.glob("env=*")}
    ends = Counter(end or "none" for end in last.values())
    record_property("cells", len(last))
    record_property("hit from outside", blows)
    record_property("ended", ", ".join(f"{n} {status}" for status, n in ends.items()))
    assert len(last) == count
    assert blows == sum("HIT" in env for env in wanted)
    assert "none" not in ends
    whole = {cell: end for cell, end in last.items() if "+ACT_" not in cell and "+HIT_" not in cell}
    assert set(whole.values()) == {"ok"}, whole
    left = [
        f"{node.hostname}: {' '.join(argv)}"
        for node in group.nodes
        for _, argv in node.processes()
        if any(word in " ".join(argv) for word in OURS) or argv[:1] == ["sleep"]
    ]
    assert left == []
    if count > 100:  # before, it is still starting
        tenth = len(sizes) // 10
        parts = [sizes[at * tenth : (at + 1) * tenth] for at in range(1, 10)]
        memory = [statistics.median(size for size, _ in part) for part in parts]
        files = [max(open_files for _, open_files in part) for part in (parts[0], parts[-1])]
        sizes_mib = " ".join(f"{size:.0f}" for size in memory)
        record_property("runner's memory, MiB, in each tenth but the first", sizes_mib)
        record_property("its open files, early and late", f"{files[0]} {files[1]}")
        # The largest rise is a library that a first fault loads; what leaks rises in each tenth.
        rises = sorted(late - early for early, late in pairwise(memory))
        assert sum(rises[:-1]) < memory[0] * 0.2 + 5
        assert files[1] <= files[0] + 3


def strike_all(
    bench: Bench, group: Group, chance: random.Random, count: int
) -> tuple[list[tuple[float, int]], int]:
    """Run the campaign, hit what is to be hit; the runner's sizes while cells run, how many blows.

    Not while it makes the table at the end, for which it loads as much again.
    """
    bench.start()
    assert bench.process is not None
    sizes: list[tuple[float, int]] = []
    hit: set[Path] = set()
    while bench.process.poll() is None:
        try:
            size = size_of(bench.process.pid)
        except (OSError, IndexError):
            break
        if sum(1 for _ in bench.campaign.glob(f"*/repeat1/attempt1/{names.OUTCOME}")) < count:
            sizes.append(size)
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


def bench_outcome(cell: Path) -> str | None:
    """The status of a cell's last attempt."""
    ended = sorted(
        cell.glob(f"repeat1/attempt*/{names.OUTCOME}"), key=lambda path: int(path.parts[-2][7:])
    )
    return str(json.loads(ended[-1].read_text())["status"]) if ended else None
