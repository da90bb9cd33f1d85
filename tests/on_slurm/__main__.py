"""Let every fault happen on real Slurm, and print the table: ``make slurm-faults`` (root)."""

import argparse
import sys

from tests.cluster.fixtures import Group
from tests.cluster.slurm import SlurmCluster
from tests.faults.__main__ import played, show
from tests.faults.faults import folder_for
from tests.on_slurm.campaign import chown, install_stand_in
from tests.on_slurm.faults import FAULTS, SlurmFault
from tests.on_slurm.stage import SlurmStage


def main() -> int:
    """Exit code 0: every fault ended as it should."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only faults with these words in their name")
    chosen = parser.parse_args()
    wanted = [fault for fault in FAULTS if chosen.only in fault.name]
    rows = []
    for memory_mib, shared_mib in sorted({options(fault) for fault in wanted}, key=str):
        with SlurmCluster(4, memory_mib=memory_mib, shared_size_mib=shared_mib) as slurm:
            install_stand_in(slurm)
            for fault in wanted:
                if options(fault) == (memory_mib, shared_mib):
                    rows.append(run(fault, slurm))
    return show(rows)


def options(fault: SlurmFault) -> tuple[int | None, int | None]:
    """What a fault wants of its cluster."""
    return fault.memory_mib, fault.shared_mib


def run(fault: SlurmFault, slurm: SlurmCluster) -> list[str]:
    """One fault's row of the table."""
    folder = folder_for(slurm.shared / "home", fault)
    chown(folder)
    group = Group(slurm.cluster, slurm.compute, slurm.inventory)
    stage = SlurmStage(
        fault.name, folder, group, fault.act, fault.matrix, slurm=slurm, variables=fault.variables
    )
    try:
        return played(fault, stage)
    finally:
        for line in slurm.heal():
            print(f"    left: {line}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
