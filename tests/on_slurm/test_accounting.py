"""How a job ended, where the site has accounting: a database of Slurm's own (slurmdbd, mariadb)."""

import pytest

from tests.cluster.slurm import SlurmCluster
from tests.on_slurm.campaign import install_stand_in
from tests.on_slurm.faults import FAULTS, stage_of

pytestmark = [pytest.mark.cluster, pytest.mark.nightly("slurm", by_day="row"), pytest.mark.network]


def test_the_database_knows_a_job_that_all_others_forgot() -> None:
    """Without it such a run is job_lost: the same fault in test_faults.py."""
    fault = next(fault for fault in FAULTS if fault.name.endswith("forgotten, by sacct too"))
    with SlurmCluster(4, database=True) as slurm:
        install_stand_in(slurm)
        stage = stage_of(fault, slurm)
        row = fault.do(stage)
        stage.bench.kill()
    assert (row.status, row.cause) == ("did_not_run", "cancelled"), row
