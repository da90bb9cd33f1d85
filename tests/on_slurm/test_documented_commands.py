"""README's commands for Slurm, as an ordinary user types them on a real login node.

The inventory has the test cluster's own values, as a person would fill in those of a site; setup is
tests/on_slurm/test_whole.py's, and the stand-in trains here.
"""

import shutil

import pytest

from tests.cluster.slurm import SlurmCluster
from tests.conftest import ROOT
from tests.documented_commands import ON_SLURM, README, commands
from tests.on_slurm.campaign import chown, install_stand_in, user_folder

pytestmark = pytest.mark.cluster
SITE = "cp -r inventory/slurm inventory/mine"


@pytest.mark.nightly("slurm", by_day="test_bench runs in both modes, too")
def test_they_run_as_they_stand(slurm_cluster: SlurmCluster) -> None:
    install_stand_in(slurm_cluster)
    folder = user_folder(slurm_cluster, "readme")
    shutil.copytree(ROOT / "inventory" / "slurm", folder / "inventory" / "slurm")
    chown(folder)
    lines = [line for line in commands(README) if (README, line) in ON_SLURM]
    before = lines.index(SITE)
    for line in lines[before:]:
        ran = slurm_cluster.run(
            ["bash", "-c", f"cd {folder} && {line}"],
            env={"TRAINBENCH_FOLDER": str(folder), "PYTHONPATH": str(ROOT)},
            timeout=400,
        )
        assert ran.returncode == 0, f"{line}\n{ran.stdout}\n{ran.stderr}"
        if line == SITE:
            shutil.rmtree(folder / "inventory" / "mine")
            slurm_cluster.write_inventory(folder / "inventory" / "mine")
            chown(folder)
        elif "--dry-run" in line:
            assert "submitted.sh" in ran.stdout, ran.stdout
        elif " bench " in line:
            assert "4 ok, 0 not ok" in ran.stderr
            assert list((folder / "runs/quickstart-mine").glob("*/repeat1/attempt1/slurm.json"))
