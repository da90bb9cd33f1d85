"""A run as a step of an allocation: an srun of the runner's, with a lease that it renews."""

import os
import select
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

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
from runner.terms.orders import Orders

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
) -> tuple[str, ...]:
    """Return what starts a run as a step of an allocation; `campaign` and `run` are folders."""
    told = {
        "mark": mark,
        "lease": str(run / LEASE),
        "lost_contact_s": max(LOST_S, cluster.lost_contact_s),
    }
    return srun_argv(
        slurm,
        len(orders.nodes),
        handover.task(campaign, run, orders, told),
        orders=orders,
        job_id=job_id,
        nodelist=hosts,
        output=PurePosixPath(run / names.SUBMIT_OUTPUT),
        overlap=True,
    )


def start(step: Sequence[str], secrets: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a step of an allocation, which says what it has to say in a file."""
    return subprocess.Popen(
        step,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
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
        step = start(step_of(*where, orders, submitted.mark, job, hosts), self.secrets)
        with step:
            self._follow(step, run, orders, lease, cancelled)
        handover.await_records(run, WAIT_S if step.returncode else handover.LATE_S)
        self._settle(run)
        return handover.last_words(run) or f"srun ended with exit code {step.returncode}"

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
