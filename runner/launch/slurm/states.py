"""What Slurm's states and pending reasons mean for a run. Pure.

Our own records say more and go first (docs/runs.md): these words are for a run whose nodes left
none.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from node.causes import Cause


@dataclass(frozen=True)
class Ended:
    """Why a job has ended: the cause of its run, and a sentence."""

    cause: Cause
    words: str


ENDS: Mapping[str, tuple[Cause, str]] = MappingProxyType(
    {
        "COMPLETED": (Cause.JOB_FAILED, "ended with exit code 0 and left no record"),
        "CANCELLED": (Cause.CANCELLED, "was cancelled"),
        "PREEMPTED": (Cause.PREEMPTED, "gave its nodes to a job that goes first"),
        "TIMEOUT": (
            *(Cause.JOB_TIME_LIMIT,),
            "reached Slurm's time limit before time_limit_s; raise slurm_time_margin_s",
        ),
        "DEADLINE": (Cause.DEADLINE, "cannot end before its deadline; give it a later --deadline"),
        "OUT_OF_MEMORY": (
            *(Cause.OUT_OF_MEMORY,),
            "used more of a node's memory than Slurm gave it; raise slurm_mem",
        ),
        "NODE_FAIL": (Cause.NODE_LOST, "lost a node, which Slurm takes for down"),
        "BOOT_FAIL": (Cause.BOOT_FAILED, "waited for a node that did not boot"),
        "FAILED": (Cause.JOB_FAILED, "failed"),
        "LAUNCH_FAILED": (Cause.JOB_FAILED, "could not be started on its nodes"),
        "RECONFIG_FAIL": (Cause.BOOT_FAILED, "waited for a node that could not be configured"),
        "REVOKED": (Cause.JOB_FAILED, "was given to another cluster of the federation"),
    }
)
# States of a job that has no nodes yet, or none any more and starts again.
WAITING = frozenset(
    (
        *("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"),
        "CONFIGURING",
    )
)
FORGOTTEN = "is not known to Slurm any more, and its nodes left no record of its end"

# Why a job failed, beside its exit code.
_FAILURES: Mapping[str, str] = MappingProxyType(
    {
        "JobLaunchFailure": (
            "could not be started; see that the run's folder is there on the compute nodes, as it"
            " is here, and that the site's prolog runs"
        ),
        "BadConstraints": "asked for what no node has",
        "InvalidAccount": "has an account that Slurm does not know; see slurm_account",
        "InvalidQOS": "has a QOS that Slurm does not know; see slurm_qos",
        "PartitionDown": "lost its partition",
    }
)
# What an administrator, other jobs or time may change passes; this does not.
_OF_A_JOB = "(Cpu|CPU|GRES|Nodes?|Mem(ory)?|Energy|BB|Billing|License)"
_NEVER = (
    (
        rf"PartitionTimeLimit|(QOS|Assoc)Max(Wall|{_OF_A_JOB}Minutes)\w*",
        "its time limit is above that of the partition, QOS or account; lower time_limit_s or"
        " slurm_time_margin_s, or name another slurm_partition or slurm_qos",
    ),
    (
        r"PartitionNodeLimit",
        "a job of this partition may not have so many nodes; name another slurm_partition",
    ),
    (
        r"PartitionConfig",
        "the partition allows no such job: see its limits (`scontrol show partition`), or name"
        " another slurm_partition",
    ),
    (
        rf"(QOS|Assoc)Max{_OF_A_JOB}Per(Job|Node)\w*|(QOS|Assoc)Min\w+|MaxMemPerLimit",
        "a job of this QOS or account may not ask for so much, or so little; see slurm_qos,"
        " slurm_account and what is asked of a node",
    ),
    (
        r"InvalidAccount|AccountNotAllowed|Job's account .*",
        "this account may not run here; see slurm_account and slurm_partition",
    ),
    (
        r"InvalidQOS|QOSNotAllowed|Job's QOS .*",
        "this QOS may not run here; see slurm_qos and slurm_partition",
    ),
    (
        r"BadConstraints|Constraints",
        "no node has what it asks for; see slurm_constraint, slurm_nodelist, slurm_exclude and what"
        " is asked of a node",
    ),
    (
        r"DependencyNeverSatisfied",
        "the job that it depends on ended otherwise; see slurm_dependency",
    ),
    (
        r"ReservationDeleted|ReservationInvalid",
        "its reservation is gone; see slurm_reservation",
    ),
    (
        r"JobHoldMaxRequeue|MaxRequeue",
        "Slurm started it again as often as it may; see why its nodes fail",
    ),
)
_NEVER_PATTERNS = tuple((re.compile(pattern), sentence) for pattern, sentence in _NEVER)


def job_end(
    number: int, state: str, reason: str = "", exit_code: int = 0, signal: int = 0, by: str = ""
) -> Ended | None:
    """Return why a job has ended; None where it has not, or the state is unknown to us.

    `by` is who cancelled it, where that is known.
    """
    if state not in ENDS:
        return None
    cause, sentence = ENDS[state]
    if state == "CANCELLED" and by:
        sentence = f"{sentence} by {by}"
    if state == "FAILED":
        how = f"by signal {signal}" if signal else f"with exit code {exit_code}"
        sentence = _FAILURES.get(reason) or f"ended {how} and left no record; see its log"
    return Ended(cause, f"job {number} {sentence}")


def forgotten(number: int) -> Ended:
    """Return the end of a job of which neither squeue, scontrol nor sacct knows."""
    return Ended(Cause.JOB_LOST, f"job {number} {FORGOTTEN}")


def never_starts(number: int, reason: str) -> Ended | None:
    """Return why a job that waits for this reason will never start; None where it may."""
    for pattern, sentence in _NEVER_PATTERNS:
        if pattern.fullmatch(reason):
            return Ended(Cause.NEVER_STARTS, f"job {number} never starts ({reason}): {sentence}")
    return None


def is_held(reason: str) -> bool:
    """Say whether a job waits for a person to release it."""
    return reason.startswith("JobHeld") or (" requeue" in f" {reason}" and "held" in reason)
