"""Every fault of docs/reliability.md on Slurm: what is done, and how the struck cell must end."""

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.cluster.fixtures import Group
from tests.cluster.slurm import SlurmCluster
from tests.faults.faults import Fault, kill_program, once
from tests.on_slurm import control, outside
from tests.on_slurm.campaign import user_folder
from tests.on_slurm.stage import SlurmStage


@dataclass(frozen=True)
class SlurmFault(Fault[SlurmStage]):
    """A fault on Slurm; `variables` are the inventory's, `shared_mib` limits the shared folder."""

    variables: Mapping[str, Any] = field(default_factory=dict)
    shared_mib: int | None = None


def _act(what: str, **more: str) -> dict[str, str]:
    return {"ACT": what, **more}


RANK_2 = {"ACT_RANK": "2"}
STALL = {"stall_limit_s": 4}
SLOW = {"STEP_S": "2"}
OK = (("ok", ""),)
FAILED = (("failed", "exit"),)
STALLED = (("stalled", "stalled"),)
CANCELLED = (("interrupted", "cancelled"),)
LOST = (("node_lost", "node_lost"),)
SUPERVISOR = (("failed", "supervisor_lost"),)
INTERRUPTED = (("interrupted", "interrupted"),)
ALLOCATION = {"slurm_mode": "allocation"}

FAULTS = (
    # the trainer's own
    SlurmFault("trainer killed on one rank", kill_program(2, "train.py"), FAILED, says="signal 9"),
    SlurmFault(
        "one rank hangs",
        once,
        STALLED,
        _act("hang_one", **RANK_2),
        STALL,
        says="no node printed anything for 4 s",
    ),
    SlurmFault("trainer forks a daemon (under linuxproc)", once, OK, _act("daemon")),
    SlurmFault("launcher dies, its child lives", once, FAILED, _act("orphan", **RANK_2)),
    SlurmFault(
        "time limit of the cell", once, (("timed_out", "time_limit"),), {}, {"time_limit_s": 3}
    ),
    SlurmFault(
        "out of memory, by the kernel",
        once,
        FAILED,
        _act("eat", **RANK_2),
        memory_mib=600,
        says="lack of memory",
    ),
    # the job, from outside
    SlurmFault("scancel while it runs", outside.scancelled, CANCELLED),
    SlurmFault(
        "scancel while it is queued", outside.scancelled_in_queue, (("did_not_run", "cancelled"),)
    ),
    SlurmFault(
        "Slurm's time limit", outside.slurm_time_limit, (("timed_out", "job_time_limit"),), SLOW
    ),
    SlurmFault(
        "preemption",
        outside.preempted,
        (("interrupted", "preempted"),),
        {},
        {"defaults": {"partition": "low"}},
    ),
    SlurmFault(
        "requeue (slurm_requeue)", outside.requeued, OK, {}, variables={"slurm_requeue": True}
    ),
    # nodes
    SlurmFault("node down", outside.node_down, LOST),
    SlurmFault("slurmd killed on a node", outside.slurmd_killed, OK),
    SlurmFault("supervisor killed", kill_program(1, "supervisor.task"), SUPERVISOR),
    SlurmFault(
        "supervisor stopped (SIGSTOP) on a node",
        kill_program(1, "supervisor.task", signal.SIGSTOP),
        (("timed_out", "time_limit"),),
        {},
        {"time_limit_s": 8},
    ),
    SlurmFault(
        "a line of slurm_setup fails",
        once,
        (("did_not_run", "setup_failed"),),
        variables={"slurm_setup": ['[ "$CELL" != struck ]']},
        says="slurm_setup",
    ),
    SlurmFault("slurmstepd killed on a node", kill_program(1, "slurmstepd"), SUPERVISOR),
    SlurmFault("link down for 2 s", outside.link_down_shortly, OK),
    SlurmFault("nodes drained while the job waits", outside.drained_while_pending, OK),
    SlurmFault(
        "shared folder not mounted on a node",
        outside.folder_not_mounted,
        (("did_not_run", "job_failed"),),
    ),
    SlurmFault(
        "shared memory of a node full",
        outside.shared_memory_full,
        (("did_not_run", "disk_full"),),
        says="nccl-aBc9 has 18 MiB, of root",
    ),
    SlurmFault("a node's clock is an hour ahead", outside.clock_ahead, OK),
    SlurmFault("shared folder shows files 5 s late", outside.files_late, OK),
    SlurmFault("shared folder full", outside.shared_full, (("none", ""),), shared_mib=256),
    # the controller and bench
    SlurmFault("controller down for a minute", control.controller_down, OK),
    SlurmFault("bench killed while the job waits", control.runner_killed_queued, OK),
    SlurmFault("bench killed while the job runs", control.runner_killed_running, OK),
    SlurmFault("bench killed, job ends meanwhile", control.runner_killed_ended, OK),
    SlurmFault("bench killed before it wrote the job's id", control.runner_killed_before_id, OK),
    SlurmFault("job forgotten by Slurm, its records there", control.forgotten, OK),
    SlurmFault(
        "job cancelled and forgotten, `sacct -c` has it",
        control.forgotten_without_record("controller"),
        (("did_not_run", "cancelled"),),
    ),
    SlurmFault(
        "job cancelled and forgotten, by sacct too",
        control.forgotten_without_record("both"),
        (("did_not_run", "job_lost"),),
    ),
    SlurmFault("login node rebooted after bench --submit", control.login_rebooted, OK),
    SlurmFault("Ctrl-C once", control.ctrl_c_once, INTERRUPTED),
    SlurmFault("Ctrl-C twice, then bench again", control.ctrl_c_twice, INTERRUPTED),
    SlurmFault("two benches at once", control.two_benches, OK),
    SlurmFault("the user's SBATCH_, SLURM_ and SQUEUE_ variables", control.user_variables, OK),
    # what Slurm can never give
    SlurmFault(
        "a partition that does not exist",
        control.refused_partition,
        (("refused", ""),),
        {},
        {"defaults": {"partition": "nowhere"}},
        says="nowhere",
    ),
    SlurmFault(
        "partition's limit below the job's time",
        control.never_starts,
        (("did_not_run", "never_starts"),),
    ),
    # mode allocation
    SlurmFault(
        "allocation: trainer killed", kill_program(2, "train.py"), FAILED, variables=ALLOCATION
    ),
    SlurmFault(
        "allocation: bench killed, then again",
        control.allocation_runner_killed,
        OK,
        variables=ALLOCATION,
    ),
    SlurmFault(
        "allocation: scancel of it", control.allocation_cancelled, CANCELLED, variables=ALLOCATION
    ),
    SlurmFault("allocation: node down", outside.node_down, LOST, variables=ALLOCATION),
)


def stage_of(fault: SlurmFault, slurm: SlurmCluster) -> SlurmStage:
    """The fault's campaign, of the cluster's user."""
    folder = user_folder(slurm, re.sub(r"\W+", "-", fault.name))
    group = Group(slurm.cluster, slurm.compute, slurm.inventory)
    return SlurmStage(
        fault.name, folder, group, fault.act, fault.matrix, slurm=slurm, variables=fault.variables
    )
