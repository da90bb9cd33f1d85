"""What grows with the nodes of a run, on both engines: docs/performance.md, 4,096 computed.

    python -m benchmarks.scale [--engine ssh slurm] [--nodes 1 4 16 32]     (root: `make scale`)
    python -m benchmarks.scale --engine ssh --nodes 64 --busy 8 --step-s 2     (on a busy machine)

On test nodes of this one machine, whose cores all of them share: times beyond a few nodes are those
of the machine. A campaign of three runs of a trainer that sleeps; of the last two:

    start       from run.json, which bench writes, to the last node's trainer
    skew        the spread of the trainers' starts, by the nodes' clocks (test nodes share one)
    end         from the last trainer's end to the outcome
    memory      the most that bench and all processes that it started held together (PSS)
    files, kB   of the run's folder
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tabulate import tabulate

from runner.folder import names
from runner.terms.cluster import LOST_CONTACT_S
from tests import stand_in
from tests.cluster import Cluster
from tests.cluster.slurm import SlurmCluster
from tests.cluster.system import base_python
from tests.on_nodes.campaign import Bench
from tests.on_slurm.campaign import SlurmBench, install_stand_in, user_folder

PROJECT = Path(__file__).resolve().parents[1]
STEPS, STEP_S, CELLS = 10, 0.2, 3
WATCH_S = 0.25


class Memory:
    """The most that a process and all below it hold, in MiB: together, and the largest alone."""

    def __init__(self, root: int) -> None:
        self.root, self.together, self.largest = root, 0.0, 0.0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def end(self) -> None:
        """Watch no longer."""
        self.over.set()
        self.thread.join()

    def _watch(self) -> None:
        while not self.over.wait(WATCH_S):
            each = [held(pid) for pid in below(self.root)]
            self.together = max(self.together, sum(each))
            self.largest = max(self.largest, *each, 0.0)


def below(root: int) -> list[int]:
    """A process and all that descend from it."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(path.parent.name))
    found = [root]
    for pid in found:
        found += parents.get(pid, [])
    return found


def held(pid: int) -> float:
    """The memory of a process in MiB, what it shares counted by its part (PSS)."""
    try:
        words = Path(f"/proc/{pid}/smaps_rollup").read_text().split()
        return int(words[words.index("Pss:") + 1]) / 1024
    except (OSError, ValueError):
        return 0.0


def matrix(nodes: int, step_s: float) -> dict[str, Any]:
    """Three runs on all nodes."""
    return {
        "name": f"scale{nodes}",
        "defaults": {
            **{"system": "torch_gpt", "nodes": nodes, "devices_per_node": 1},
            **{"micro_batch_size": 1, "global_batch_size": nodes},
            **{"train_iters": STEPS, "env": {"STEP_S": str(step_s)}},
        },
        "axes": {"seed": list(range(CELLS))},
    }


def row(engine: str, nodes: int, bench: Bench) -> list[str]:
    """Run the campaign, and read what it left."""
    bench.start()
    assert bench.process is not None
    memory = Memory(bench.process.pid)
    code, said = bench.finish(timeout=600)
    memory.end()
    if code != 0:
        raise RuntimeError(said)
    runs = sorted(bench.runs.rglob(names.OUTCOME), key=lambda path: path.stat().st_mtime)
    figures = [run_of(path.parent) for path in runs[1:]]
    start, skew, end, files, size = map(statistics.mean, zip(*figures, strict=True))
    return [
        *(engine, str(nodes), f"{start:.2f}", f"{skew:.3f}", f"{end:.2f}"),
        *(f"{memory.together:.0f}", f"{memory.largest:.0f}"),
        *(f"{files:.0f}", f"{size / 1000:.0f}"),
    ]


def run_of(run: Path) -> tuple[float, ...]:
    """Of one run: start, skew, end; files, bytes."""
    done = [json.loads(path.read_text()) for path in run.rglob(names.DONE)]
    starts = [each["started_at"] for each in done]
    ends = [each["started_at"] + each["wall_s"] for each in done]
    files = [path for path in run.rglob("*") if path.is_file()]
    return (
        max(starts) - (run / names.RUN).stat().st_mtime,
        max(starts) - min(starts),
        (run / names.OUTCOME).stat().st_mtime - max(ends),
        len(files),
        sum(path.stat().st_size for path in files),
    )


def over_ssh(counts: list[int], step_s: float) -> Iterator[list[str]]:
    """A row for each number of nodes."""
    root = PROJECT / "build" / "overhead"
    stand_in.install(root, base_python())
    with tempfile.TemporaryDirectory() as name, Cluster(nodes=max(counts)) as cluster:
        for nodes in counts:
            folder = Path(name) / f"n{nodes}"
            folder.mkdir()
            variables = {
                **{"cluster_root": str(root), "cluster_devices_per_node": 1},
                "cluster_lost_contact_s": LOST_CONTACT_S,
            }
            inventory = folder / "rack"
            cluster.write_inventory(inventory, nodes=cluster.nodes[:nodes], variables=variables)
            yield row("ssh", nodes, Bench(folder, inventory, matrix(nodes, step_s)))


def on_slurm(counts: list[int], step_s: float) -> Iterator[list[str]]:
    """A row for each number of nodes and mode."""
    with SlurmCluster(max(counts)) as slurm:
        install_stand_in(slurm)
        for nodes in counts:
            for mode in ("job", "allocation"):
                variables = {"slurm_mode": mode, "slurm_nodes": nodes, "slurm_most_jobs": 1}
                folder = user_folder(slurm, f"{mode}{nodes}")
                bench = SlurmBench(slurm, folder, matrix(nodes, step_s), variables)
                yield row(f"Slurm, {mode}", nodes, bench)


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep so many processes of this machine spinning, each with a session's share of it."""
    spin = [sys.executable, "-ISc", "while True: pass"]
    spinning = [subprocess.Popen(spin, start_new_session=True) for _ in range(processes)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 4, 16, 32], help="node counts")
    ways = {"ssh": over_ssh, "slurm": on_slurm}
    parser.add_argument("--engine", nargs="+", default=list(ways), choices=ways, help="which")
    parser.add_argument("--busy", type=int, default=0, help="processes that spin meanwhile")
    parser.add_argument("--step-s", type=float, default=STEP_S, help="of the trainer, 10 of them")
    chosen = parser.parse_args()
    rows = []
    with busy(chosen.busy):
        for engine in chosen.engine:
            for found in ways[engine](chosen.nodes, chosen.step_s):
                rows.append(found)
                load = f"load average {os.getloadavg()[0]:.1f}"
                print("\t".join(found), load, time.strftime("%H:%M:%S"), file=sys.stderr)
    headers = ("engine", "nodes", "start, s", "skew, s", "end, s", "memory, MiB", "largest, MiB")
    print(
        tabulate(
            rows,
            headers=(*headers, "files", "kB"),
            disable_numparse=True,
            tablefmt="github",
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
