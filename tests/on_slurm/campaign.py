"""Start a real `bench` of an ordinary user on a Slurm cluster's login node, and read what it left.

Folders lie on the shared folder, so that this machine and every node have them at the same path.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import stand_in
from tests.cluster.slurm import SlurmCluster
from tests.cluster.slurm_files import UID
from tests.cluster.system import base_python
from tests.on_nodes.campaign import Bench

SETUP_S = 900.0


class SlurmBench(Bench):
    """One `python -m runner bench` on the login node."""

    def __init__(
        self,
        slurm: SlurmCluster,
        folder: Path,
        matrix: dict[str, Any],
        variables: Mapping[str, Any] | None = None,
    ) -> None:
        inventory = slurm.write_inventory(folder / "slurm", variables)
        super().__init__(folder, inventory, matrix)
        self.slurm = slurm
        self.env: dict[str, str] = {}
        chown(folder)

    def argv(self, *more: str) -> list[str]:
        return self.slurm.login.enter(self.slurm.argv(super().argv(*more), self.env))

    def run(
        self, *more: str, timeout: float = 400, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        argv = super().argv(*more)
        return self.slurm.run(argv, env={**self.env, **(env or {})}, timeout=timeout)

    def signal(self, number: int) -> None:
        """Send a signal to the runner itself: what enters the node for us would take it amiss."""
        for pid, argv in self.slurm.login.processes():
            if "bench" in argv and str(self.runs) in argv:
                self.slurm.login.signal(pid, number)
                return
        raise ProcessLookupError(f"no bench of {self.runs} runs on the login node")


@contextmanager
def with_torch_gpt(nodes: int, **variables: Any) -> Iterator[SlurmCluster]:
    """Bring up a cluster on which the login node's user has run setup.yml; pip takes minutes."""
    with SlurmCluster(nodes, variables={"cluster_systems": ["torch_gpt"], **variables}) as slurm:
        setup = ["ansible-playbook", "playbooks/setup.yml", "-i", str(slurm.inventory)]
        # The checkout belongs to root here, and so does its runs/.
        elsewhere = f"verify_out_dir={user_folder(slurm, 'verify')}"
        ran = slurm.run([*setup, "-e", elsewhere], timeout=SETUP_S)
        assert ran.returncode == 0, ran.stdout[-3000:]
        yield slurm


def user_folder(slurm: SlurmCluster, name: str) -> Path:
    """A new folder of the user's on the shared folder."""
    folder = slurm.shared / "home" / name
    folder.mkdir()
    chown(folder)
    return folder


def install_stand_in(slurm: SlurmCluster) -> None:
    """Put the stand-in trainer where the inventory's cluster_root is."""
    root = slurm.shared / "root"
    if not root.exists():
        stand_in.install(root, base_python())
        chown(root)


def chown(folder: Path) -> None:
    """Make a folder with all that is in it the user's."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, UID, UID)
