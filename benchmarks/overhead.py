"""What `bench` adds to a cell beyond the trainer's own time, beside the same launch by hand.

    python -m benchmarks.overhead [--cells 10] [--nodes 1 4]       (root on Linux: `make overhead`)

On real test nodes (tests/cluster) a trainer that sleeps runs in three ways, in one go because
machines are noisy:

    bench   python -m runner bench, one campaign of N cells and one of a single cell; the marginal
            cost is (time of N cells - time of 1) / (N - 1) - the trainer's own time
    cold    by hand: copy the script to every node, start it everywhere, wait, copy the logs back,
            with parallel ssh, every connection opened again
    warm    the same over ControlMaster connections that are open already

Start skew is the spread of the launchers' start times over the nodes, by the nodes' clocks (test
nodes share one), of all cells. Times in seconds; the ratio is bench over by-hand.
docs/performance.md says where the time goes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import yaml
from tabulate import tabulate

from runner.folder import names
from tests import stand_in
from tests.cluster import Cluster

PROJECT = Path(__file__).resolve().parents[1]
STEPS, STEP_S = 10, 0.1


def campaign(folder: Path, inventory: Path, nodes: int, cells: int) -> tuple[float, list[Path]]:
    """Run a campaign of `cells` cells; seconds it took, and its runs' folders."""
    matrix = folder / f"n{nodes}c{cells}.yaml"
    content = {
        "defaults": {
            "system": "torch_gpt",
            "nodes": nodes,
            "micro_batch_size": 1,
            "global_batch_size": nodes,  # a multiple of the nodes, however many
            "train_iters": STEPS,
            "env": {"STEP_S": str(STEP_S)},
        },
        "axes": {"seed": list(range(cells))},
    }
    matrix.write_text(yaml.safe_dump(content))
    runs = folder / f"runs-n{nodes}c{cells}"
    began = time.monotonic()
    subprocess.run(
        [
            *(sys.executable, "-m", "runner", "bench", "--matrix", str(matrix)),
            *("-i", str(inventory), "--runs", str(runs)),
        ],
        check=True,
        capture_output=True,
        cwd=PROJECT,
    )
    return time.monotonic() - began, [path.parent for path in runs.rglob(names.OUTCOME)]


def own_time(run: Path) -> tuple[float, float]:
    """The trainer's own time in a run (the slowest node's), and the spread of its starts."""
    done = [json.loads(path.read_text()) for path in run.rglob(names.DONE)]
    starts = [entry["started_at"] for entry in done]
    return max(entry["wall_s"] for entry in done), max(starts) - min(starts)


def by_hand(cluster: Cluster, nodes: int, root: Path, options: Sequence[str]) -> float:
    """Seconds that one launch by parallel ssh takes, from the copy to the logs."""
    ssh = ["ssh", "-F", str(cluster.directory / "ssh_config"), *options]
    script = (root / "systems/torch_gpt/torch-2.13/env/bin/python3").read_bytes()
    hosts = [node.hostname for node in cluster.nodes[:nodes]]
    trainer = f"--node_rank 0 --train-iters {STEPS}"
    env = f"STEP_S={STEP_S}"
    began = time.monotonic()
    for command in (
        "mkdir -p /root/by-hand && cat > /root/by-hand/train && chmod +x /root/by-hand/train",
        f"{env} /root/by-hand/train {trainer} > /root/by-hand/log 2>&1",
        "cat /root/by-hand/log",
    ):
        running = [
            subprocess.Popen([*ssh, host, command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for host in hosts
        ]
        for process in running:
            process.communicate(script)
            if process.returncode:
                raise RuntimeError(f"{command} ended with {process.returncode}")
    return time.monotonic() - began


def measure(cluster: Cluster, folder: Path, root: Path, nodes: int, cells: int) -> list[str]:
    """One row of the table."""
    inventory = folder / f"inventory-{nodes}"
    variables = {"cluster_root": str(root), "cluster_devices_per_node": 1}
    cluster.write_inventory(inventory, nodes=cluster.nodes[:nodes], variables=variables)
    one, _ = campaign(folder, inventory, nodes, 1)
    many, runs = campaign(folder, inventory, nodes, cells)
    own, skews = zip(*map(own_time, runs), strict=True)
    trainer = statistics.median(own)
    bench = (many - one) / (cells - 1) - trainer
    control = folder / "cm-%C"
    multiplexed = ["-o", "ControlMaster=auto", "-o", f"ControlPath={control}"]
    multiplexed += ["-o", "ControlPersist=30"]
    cold, warm = [], []
    by_hand(cluster, nodes, root, multiplexed)  # opens the connections
    for _ in range(5):
        cold.append(by_hand(cluster, nodes, root, []) - trainer)
        warm.append(by_hand(cluster, nodes, root, multiplexed) - trainer)
    hand_cold, hand_warm = statistics.median(cold), statistics.median(warm)
    return [
        str(nodes),
        f"{bench:.2f}",
        f"{hand_cold:.2f}",
        f"{hand_warm:.2f}",
        f"{bench / hand_cold:.1f}",
        f"{bench / hand_warm:.1f}",
        f"{one - trainer:.2f}",
        f"{statistics.median(skews):.3f}",
        f"{max(skews):.3f}",
    ]


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", type=int, default=10, help="cells of the long campaign")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 4], help="node counts")
    chosen = parser.parse_args()
    root = PROJECT / "build" / "overhead"
    stand_in.install(root, os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
    with tempfile.TemporaryDirectory() as name, Cluster(nodes=max(chosen.nodes)) as cluster:
        rows = []
        for nodes in chosen.nodes:
            rows.append(measure(cluster, Path(name), root, nodes, chosen.cells))
            load = f"load average {os.getloadavg()[0]:.1f}"
            print("\t".join(rows[-1]), load, time.strftime("%H:%M:%S"), file=sys.stderr)
    headers = (
        *("nodes", "bench s/cell", "by hand, cold", "by hand, warm", "ratio cold", "ratio warm"),
        *("first cell and start, s", "start skew, s: median", "most"),
    )
    print(f"{chosen.cells} cells of a trainer that sleeps {STEPS * STEP_S:.1f} s")
    print(tabulate(rows, headers=headers, disable_numparse=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
