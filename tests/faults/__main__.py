"""Let every fault happen and print the table of docs/reliability.md: ``make faults`` (root)."""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tabulate import tabulate

from tests import stand_in
from tests.cluster import Cluster
from tests.cluster.fixtures import Group
from tests.cluster.system import base_python
from tests.conftest import ROOT
from tests.faults.faults import FAULTS, Fault, S, folder_for, play
from tests.faults.stage import Row, Stage

HEADERS = (
    *("fault", "status", "cause", "ended in s", "processes left", "cells lost", "next cell"),
    "as it should be",
)


def variables() -> dict[str, object]:
    """Of an inventory for the stand-in."""
    return {"cluster_root": str(stand_in.FOLDER), "cluster_devices_per_node": 2}


def main() -> int:
    """Exit code 0: every fault ended as it should."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only faults with these words in their name")
    chosen = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    stand_in.install(stand_in.FOLDER, base_python())
    wanted = [fault for fault in FAULTS if chosen.only in fault.name]
    rows = []
    for disk_mib, memory_mib in sorted(
        {(fault.disk_mib, fault.memory_mib) for fault in wanted}, key=str
    ):
        with Cluster(nodes=4, upper_size_mib=disk_mib, memory_mib=memory_mib) as cluster:
            for fault in wanted:
                if (fault.disk_mib, fault.memory_mib) == (disk_mib, memory_mib):
                    rows.append(run(fault, cluster))
    return show(rows)


def show(rows: list[list[str]]) -> int:
    """Print the table; the exit code."""
    print(tabulate(rows, headers=HEADERS, tablefmt="github", disable_numparse=True))
    return 0 if all(row[-1] == "yes" for row in rows) else 1


def run(fault: Fault[Stage], cluster: Cluster) -> list[str]:
    """One fault's row of the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = folder_for(Path(name), fault)
        inventory = cluster.write_inventory(
            folder / "nodes", variables={**variables(), **fault.variables}
        )
        group = Group(cluster, cluster.nodes, inventory)
        stage = Stage(fault.name, folder, group, fault.act, fault.matrix)
        try:
            return played(fault, stage)
        finally:
            cluster.heal()


def played(fault: Fault[S], stage: S) -> list[str]:
    """Let a fault happen; its row of the table, which standard error shows, too."""
    try:
        wrong = play(fault, stage)
        row = stage.rows[-1]
    except Exception as error:  # what went wrong with one fault must not end the others
        wrong = [f"{type(error).__name__}: {error}", f"bench said: {stage.bench.said()[-2000:]}"]
        row = Row(fault.name, "error", "", None, len(stage.left()), 0, "")
    finally:
        if stage.bench.process is not None and stage.bench.process.poll() is None:
            os.killpg(stage.bench.process.pid, 9)
    took = "-" if row.took_s is None else f"{row.took_s:.1f}"
    words = [fault.name, row.status, row.cause, took, str(row.left), str(row.lost), row.after]
    print(" | ".join(words), *wrong, sep="\n    ", file=sys.stderr, flush=True)
    return [*words, f"no: {wrong[0]}" if wrong else "yes"]


if __name__ == "__main__":
    sys.exit(main())
