"""Setup on real Slurm where what it builds needs a compute node: it says how, and works so.

test_whole.py runs all of setup on the login node.
"""

import re
import shlex

import pytest

from tests.cluster.slurm import SlurmCluster
from tests.on_slurm.campaign import chown, user_folder

pytestmark = [pytest.mark.cluster, pytest.mark.nightly("slurm", by_day="row")]


def test_setup_in_a_job_is_a_command_to_type(slurm_cluster: SlurmCluster) -> None:
    folder = user_folder(slurm_cluster, "setup")
    variables = {
        **{"slurm_setup_in_job": True, "cluster_systems": [], "dataset_names": []},
        "verify_out_dir": str(folder / "verified"),
    }
    inventory = slurm_cluster.write_inventory(folder / "slurm", variables)
    chown(folder)
    playbook = ["ansible-playbook", "playbooks/setup.yml", "-i", str(inventory)]
    refused = slurm_cluster.run(playbook)
    assert refused.returncode != 0
    (typed,) = set(re.findall(r"slurm_setup_in_job is true.*; run `([^`]+)`", refused.stdout))
    argv = shlex.split(typed)
    assert argv[:3] == ["srun", "--nodes=1", "--ntasks=1"]
    assert argv[-4:] == playbook
    done = slurm_cluster.run(argv, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
