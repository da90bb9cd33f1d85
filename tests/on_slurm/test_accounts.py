"""Slurm with accounts in a database (slurmdbd, MariaDB): what it says of a job that is forgotten.

`make slurm`: apt brings the database into the login node.
"""

import json
import sys
from collections.abc import Iterator

import pytest

from tests.cluster.slurm import SlurmCluster
from tests.cluster.system import wait_for

pytestmark = [pytest.mark.slurm, pytest.mark.cluster, pytest.mark.network]
FORGET_S = 30  # the controller looks for records to forget now and then
ASK = """
import json, sys
from runner.launch.slurm import commands, ends
number = int(sys.argv[1])
end, heard_of = ends.end_of(commands, number)
record = commands.job(number)
print(json.dumps({
    "record": record and record.state,
    "accounts": [each.state for each in commands.accounted([number]).values()],
    "end": end and [end.cause, end.words],
}))
"""


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    """One compute node, and a controller that forgets a job after two seconds."""
    with SlurmCluster(1, database=True, settings={"MinJobAge": 2}) as cluster:
        yield cluster


def asked(slurm: SlurmCluster, number: str) -> dict[str, object]:
    """What our own code says of a job, run by the user on the login node."""
    ran = slurm.run([sys.executable, "-c", ASK, number], timeout=60)
    assert ran.returncode == 0, ran.stderr
    said: dict[str, object] = json.loads(ran.stdout)
    return said


@pytest.mark.parametrize(
    ("script", "state", "cause"),
    [
        ("exit 3", "FAILED", "job_failed"),
        ("scancel $SLURM_JOB_ID; sleep 9", "CANCELLED", "cancelled"),
    ],
)
def test_a_forgotten_jobs_end_is_in_the_accounts(
    slurm: SlurmCluster, script: str, state: str, cause: str
) -> None:
    submitted = slurm.run(["sbatch", "--parsable", "--output=/dev/null", "--wrap", script])
    number = submitted.stdout.strip()
    assert number.isdecimal(), submitted.stderr
    assert wait_for(lambda: asked(slurm, number)["record"] is None, 6 * FORGET_S, 2.0)
    said = asked(slurm, number)
    assert said["accounts"] == [state]
    assert isinstance(said["end"], list)
    assert said["end"][0] == cause
