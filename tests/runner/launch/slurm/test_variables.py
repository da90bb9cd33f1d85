"""Of a user's variables Slurm's programs obey none but those that say where the cluster is."""

import pytest

from runner.base.errors import UserError
from runner.launch.slurm.variables import clean_environment

USER = {
    "PATH": "/usr/bin",
    "LANG": "de_DE.UTF-8",
    "SLURM_CONF": "/opt/slurm.conf",
    "SLURM_JWT": "a.b.c",
    "SBATCH_PARTITION": "debug",
    "SRUN_CPU_BIND": "cores",
    "SLURM_JOB_ID": "12",
    "SLURM_NTASKS": "3",
    "SQUEUE_FORMAT": "%i",
    "SACCT_FORMAT": "JobID",
    "SALLOC_ACCOUNT": "x",
    "PMIX_RANK": "0",
    "SLURMED": "kept",
    "TRAINBENCH_SECRET_OLD": "left over",
}


def test_options_in_disguise_are_left_out_and_the_way_to_the_cluster_stays() -> None:
    assert clean_environment({}, USER) == {
        "PATH": "/usr/bin",
        "LANG": "de_DE.UTF-8",
        "SLURM_CONF": "/opt/slurm.conf",
        "SLURM_JWT": "a.b.c",
        "SLURMED": "kept",
        "LC_ALL": "C",
        "SLURM_TIME_FORMAT": "%s",
    }


def test_secrets_travel_under_names_of_their_own() -> None:
    assert clean_environment({"HF_TOKEN": "s"}, {})["TRAINBENCH_SECRET_HF_TOKEN"] == "s"


@pytest.mark.parametrize("clusters", ["a,b", "all"])
def test_several_clusters_at_once_are_refused(clusters: str) -> None:
    with pytest.raises(UserError, match="set it to the one"):
        clean_environment({}, {"SLURM_CLUSTERS": clusters})
    assert clean_environment({}, {"SLURM_CLUSTERS": "a"})["SLURM_CLUSTERS"] == "a"
