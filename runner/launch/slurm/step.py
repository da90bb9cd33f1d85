"""A run as a step of an allocation: an srun of the runner's, with a lease that it renews."""

import os
import select
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from node.files import open_to_append
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.lock import HeldFolder
from runner.launch.slurm import handover
from runner.launch.slurm.job_script import FORGET, kept_containers, srun_argv
from runner.launch.slurm.program import leave
from runner.launch.slurm.queue import Queue
from runner.launch.slurm.variables import clean_environment
from runner.terms.cluster import Cluster
from runner.terms.engines.slurm import Slurm
from runner.terms.orders import Orders, lease_s

LEASE = "lease"
RENEW_S = 1.0
LOST_S = 60.0  # a shared folder may show a renewed lease so late
ENDING_S = 15.0  # for a run that is told to end, beyond what its processes have for that
FORGET_S = 60.0  # for nodes to remove what they have unpacked
REASON_S = 5.0  # for Slurm to say that an allocation is over
WAIT_S = 0.5  # for the last files of a step that srun says has failed


def step_of(
    slurm: Slurm,
    cluster: Cluster,
    campaign: Path,
    run: Path,
    orders: Orders,
    mark: str,
    job_id: str,
    hosts: Sequence[str],
    *,
    gpus: int = 0,
) -> tuple[str, ...]:
    """Return what starts a run as a step of an allocation; `campaign` and `run` are folders.

    `gpus` are asked of each node, where what the job has there may be too few.
    """
    step_orders = {
        "mark": mark,
        "variables": slurm.variables,
        "lease": str(run / LEASE),
        "lease_s": max(LOST_S, lease_s(cluster.lost_contact_s)),
    }
    return srun_argv(
        slurm,
        len(orders.nodes),
        handover.task(campaign, run, orders, step_orders),
        orders=orders,
        job_id=job_id,
        nodelist=hosts,
        output=PurePosixPath(run / names.SUBMIT_OUTPUT),
        overlap=True,
        gpus=gpus,
    )


def start(
    step: Sequence[str], secrets: Mapping[str, str], said: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start a step of an allocation; srun adds its own words to the file `said`."""
    with ExitStack() as opened:
        output = opened.enter_context(open_to_append(said)) if said else subprocess.DEVNULL
        return subprocess.Popen(
            step,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=output,
            env=clean_environment(secrets),
            start_new_session=True,  # Ctrl-C is bench's, which ends the run by its own means
        )


@dataclass(frozen=True)
class Allocation:
    """Nodes that a campaign has for itself."""

    cluster: Cluster
    slurm: Slurm
    queue: Queue
    secrets: Mapping[str, str]
    job_id: int
    hosts: tuple[str, ...]
    gpus_in_all: bool = False  # of a job that asked for GPUs by --gpus
    containers: set[str] = field(default_factory=set)  # that pyxis has unpacked for further runs

    def run(
        self, folder: HeldFolder, run: RunFolder, orders: Orders, cancelled: Callable[[], bool]
    ) -> str:
        """Do as Engine's: start a step, and renew its lease until it is over."""
        hosts = self.hosts[: len(orders.nodes)]
        lease = run.path / LEASE
        lease.touch()
        submitted = handover.begun(run, self.job_id)
        campaign = folder.path.resolve()
        leave(handover.TASK, campaign)
        job = f"{self.job_id}"
        self.containers.update(kept_containers(orders, job))
        where = (self.slurm, self.cluster, campaign, run.path.resolve())
        step = step_of(*where, orders, submitted.mark, job, hosts, gpus=self.gpus_of_a_node(orders))
        with start(step, self.secrets, run.path / names.SUBMIT_OUTPUT) as process:
            self._follow(process, run, orders, lease, cancelled)
        handover.await_records(run, WAIT_S if process.returncode else handover.LATE_S)
        self._settle(run)
        return handover.last_words(run) or f"srun ended with exit code {process.returncode}"

    def gpus_of_a_node(self, orders: Orders) -> int:
        """Return how many GPUs a step has to ask of each node; 0: it has all of the job's.

        Where the job asked for a number on all its nodes together, srun would spread it unevenly.
        """
        first_node = orders.nodes[0]
        return len(first_node.device_ids) if self.gpus_in_all and first_node.device == "cuda" else 0

    def forget(self) -> None:
        """Have the nodes remove the containers that its runs had, as far as they can.

        A site's pyxis may do so with the job; there is nothing left to remove then.
        """
        if not self.containers:
            return
        count, command = len(self.hosts), (*FORGET, *sorted(self.containers))
        where: dict[str, Any] = {"job_id": self.job_id, "nodelist": self.hosts, "overlap": True}
        with start(srun_argv(self.slurm, count, command, **where), {}) as step:
            try:
                step.wait(FORGET_S)
            except BaseException as error:
                step.terminate()
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise

    def _settle(self, run: RunFolder) -> None:
        """Ask Slurm why a run ended, which may know a moment later that its allocation is over."""
        until = time.monotonic() + REASON_S
        while handover.needs_reason(run) and time.monotonic() < until:
            ended = self.queue.ended(self.job_id)
            if ended is not None:
                handover.settle(run, ended)
                return
            time.sleep(WAIT_S)

    def _follow(
        self,
        step: subprocess.Popen[bytes],
        run: RunFolder,
        orders: Orders,
        lease: Path,
        cancelled: Callable[[], bool],
    ) -> None:
        ending: float | None = None
        ended = os.pidfd_open(step.pid)  # tells at once; Popen.wait looks ever less often
        try:
            while step.poll() is None:
                if run.halt is None:
                    with suppress(OSError):  # as of a file server that is away for a while
                        os.utime(lease)
                else:
                    ending = ending or time.monotonic()
                    if cancelled():
                        step.kill()  # nobody waits for it; its lease ends the step
                    elif time.monotonic() - ending > orders.limits.grace_s + ENDING_S:
                        step.terminate()  # srun ends its step
                select.select([ended], [], [], RENEW_S if ending is None else 0.1)
        finally:
            os.close(ended)
