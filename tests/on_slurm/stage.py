"""One fault on real Slurm: a campaign of three cells, of which the second meets it.

As on nodes with ssh (tests/faults/stage.py), with what Slurm adds: jobs, their states, the queue.
"""

import json
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runner.folder import names
from tests.cluster.slurm import SlurmCluster
from tests.faults.stage import PATIENCE_S, Row, Stage
from tests.on_nodes.campaign import wait
from tests.on_slurm.campaign import SlurmBench

STRUCK = ("--only", "env=CELL:struck*")
ENDS_S = 40.0  # for the last of a job to leave: node rank 0 waits 30 s for one that is dead


@dataclass
class SlurmStage(Stage):
    """The Slurm cluster and the campaign of one fault; `variables` are the inventory's own."""

    slurm: SlurmCluster = field(kw_only=True)
    variables: Mapping[str, Any] = field(default_factory=dict)

    def make_bench(self, cells: dict[str, Any]) -> SlurmBench:
        self.runner = SlurmBench(self.slurm, self.folder, cells, self.variables)
        return self.runner

    # -- jobs ----------------------------------------------------------------------------------

    def job(self, cell: str = "struck") -> int | None:
        """The id of a cell's newest job, once it is written down."""
        try:
            said = json.loads((self.folder_of(cell) / names.SUBMITTED).read_text())
        except (OSError, ValueError):
            return None
        number: int | None = said["job_id"]
        return number

    def until_submitted(self, cell: str = "struck") -> int:
        """Wait until a cell's job has its id written down."""
        wait(lambda: self.job(cell) is not None, PATIENCE_S, f"the job of {cell}")
        number = self.job(cell)
        assert number is not None
        return number

    def record(self, number: int) -> dict[str, str]:
        """What the controller knows of a job; {} of one that it has forgotten."""
        done = self.slurm.login.exec(["scontrol", "-o", "show", "job", str(number)])
        return dict(word.partition("=")[::2] for word in done.stdout.split())

    def until_state(self, number: int, *states: str) -> None:
        """Wait until a job is in one of these states."""
        wait(
            lambda: self.record(number).get("JobState") in states,
            PATIENCE_S,
            f"job {number} in {' or '.join(states)}",
        )

    def until_job_over(self, number: int) -> None:
        """Wait until a job has left the queue."""
        wait(
            lambda: not any(line.split()[0] == str(number) for line in self.slurm.jobs()),
            PATIENCE_S,
            f"the end of job {number}",
        )

    def block(self) -> None:
        """Give every node to a job of somebody else's: what is submitted now waits."""
        home = f"--chdir={self.slurm.shared}/home"
        words = ["-p", "high", f"-N{len(self.slurm.compute)}", "--gpus-per-node=2", home]
        done = self.slurm.run(["sbatch", "--parsable", *words, "--wrap", "sleep 1000"], check=True)
        self.blocking = int(done.stdout)
        self.until_state(self.blocking, "RUNNING")

    def unblock(self) -> None:
        """End that job."""
        self.slurm.run(["scancel", str(self.blocking)], check=True)

    def drain(self, state: str = "drain") -> None:
        """Take compute nodes from the queue, or (`resume`) give them back."""
        hosts = ",".join(node.hostname for node in self.slurm.compute)
        self.slurm.slurm("scontrol", "update", f"nodename={hosts}", f"state={state}", "reason=test")

    def kill_runner(self) -> None:
        """kill -9 of bench."""
        self.runner.signal(signal.SIGKILL)
        self.bench.finish()

    # -- the end -------------------------------------------------------------------------------

    def row(self, took_s: float | None, attempt: int = 1) -> Row:
        """As Stage's; once the last job should be gone, any process and any job is left."""
        row = super().row(took_s, attempt)
        until = time.monotonic() + ENDS_S
        while (left := self.remains()) and time.monotonic() < until:
            time.sleep(0.1)
        return Row(**{**vars(row), "left": len(left)})

    def remains(self) -> list[str]:
        """Jobs, and processes of compute nodes that are none of their services."""
        found = [f"job {line}" for line in self.slurm.jobs()]
        for node in self.slurm.compute:
            found += [f"{node.hostname}: {' '.join(argv)}" for _, argv in node.processes()]
        return found
