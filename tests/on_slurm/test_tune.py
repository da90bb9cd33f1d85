"""tune on real Slurm: killed in the middle of a search, the same command goes on. Both modes.

The trainer is the stand-in (tests/stand_in.py): the search, jobs, logs and answer are real.
"""

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.slurm import SlurmCluster
from tests.on_slurm.campaign import SlurmBench, install_stand_in, user_folder

pytestmark = pytest.mark.cluster

MATRIX: dict[str, Any] = {
    "defaults": {
        **{"system": "torch_gpt", "model": "gpt2-tiny", "global_batch_size": 16},
        **{"train_iters": 20, "devices_per_node": 1, "nodes": 2, "env": {"STEP_S": "0.05"}},
    },
    "tune": {
        "knobs": {"micro_batch_size": [2, 8], "zero_stage": [0, 1]},
        **{"objective": "memory", "memory_loss_percent": 50},  # the race is short
    },
}


class SlurmTune(SlurmBench):
    """One `python -m runner tune` on the login node."""

    @property
    def words(self) -> list[str]:
        return [
            *(sys.executable, "-m", "runner", "tune", str(self.matrix), "-i", str(self.inventory)),
            *("--runs", str(self.runs), "--no-measure", "--format", "json"),
        ]

    def argv(self, *more: str) -> list[str]:
        return self.slurm.login.enter(self.slurm.argv([*self.words, *more], self.env))

    def kill(self) -> None:
        """Kill the runner itself."""
        for pid, argv in self.slurm.login.processes():
            if "tune" in argv and str(self.runs) in argv:
                self.slurm.login.signal(pid, signal.SIGKILL)

    @property
    def over(self) -> set[str]:
        """The runs that have ended."""
        return {str(path.parent) for path in self.campaign.rglob("outcome.json")}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "mode", ["job", pytest.param("allocation", marks=pytest.mark.nightly("slurm"))]
)
def test_killed_in_the_middle_it_goes_on(slurm_cluster: SlurmCluster, mode: str) -> None:
    install_stand_in(slurm_cluster)
    name = f"tune-{mode}"
    folder = user_folder(slurm_cluster, name)
    matrix = {"name": name, **MATRIX}
    tune = SlurmTune(slurm_cluster, folder, matrix, {"slurm_nodes": 4, "slurm_mode": mode})
    tune.start()
    until = time.monotonic() + 200
    while len(tune.over) < 2 and time.monotonic() < until:
        time.sleep(0.1)
    tune.kill()
    before = {path: Path(path, "outcome.json").read_bytes() for path in tune.over}
    assert len(before) >= 2
    ran = slurm_cluster.run(tune.words, timeout=400)
    assert ran.returncode in (0, 3), ran.stdout + ran.stderr
    answer = json.loads(ran.stdout)
    assert answer["detail"]["winner"]
    assert all(Path(path, "outcome.json").read_bytes() == held for path, held in before.items())
    statuses = {
        json.loads(path.read_text())["status"] for path in tune.campaign.rglob("outcome.json")
    }
    assert statuses <= {"ok", "ended_early"}
