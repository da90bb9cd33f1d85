"""Why a run ends: each cause once, what it means, and what follows from it.

The supervisor, the launch plugin and bench say no other; runner/results judges by them. A cause is
its word, so that JSON holds the word alone.
"""

from __future__ import annotations

from enum import Enum

FINISHED, AGAIN = False, True  # whether the next bench makes such a run again


class Cause(str, Enum):
    """A cause: its word, the status of a run that trained, whether it is run again, what it means.

    A run that never trained a step is did_not_run, whatever else ended it. One that its own cell
    ended is finished; the next bench repeats the others.
    """

    status: str
    again: bool
    meaning: str

    def __new__(cls, word: str, status: str, again: bool, meaning: str) -> Cause:
        """Make the word, and keep what follows from it."""
        cause = str.__new__(cls, word)
        cause._value_ = word
        cause.status = status
        cause.again = again
        cause.meaning = meaning
        return cause

    def __str__(self) -> str:
        return str(self.value)

    # How the trainer ended.
    EXIT = ("exit", "failed", FINISHED, "a launcher ended with an exit code, or by a signal")
    NO_STEP = (
        *("no_step", "no_steps", FINISHED),
        "every launcher ended with exit code 0, and none logged a step",
    )
    STOPPED_EARLY = (
        *("stopped_early", "unfinished", FINISHED),
        "every launcher ended with exit code 0, before the last iteration",
    )
    NAN_LOSS = (
        *("nan_loss", "diverged", FINISHED),
        "the last iteration was reached, and the last loss is NaN or infinite",
    )
    # What ended it on purpose.
    TIME_LIMIT = ("time_limit", "timed_out", FINISHED, "the run reached time_limit_s")
    STALLED = ("stalled", "stalled", FINISHED, "no node printed anything for stall_limit_s")
    LOG_LIMIT = (
        *("log_limit", "failed", FINISHED),
        "a node's log exceeded 4 GiB, or half of its free disk",
    )
    INTERRUPTED = ("interrupted", "interrupted", AGAIN, "Ctrl-C or --stop-after ended the run")
    STOPPED = (
        *("stopped", "interrupted", AGAIN),
        "`trainbench stop`, playbooks/stop.yml or a signal to the supervisor ended it",
    )
    ENDED_EARLY = (
        *("ended_early", "ended_early", FINISHED),
        "`trainbench tune` ended the run: it was much slower than the fastest so far",
    )
    CONTROL_LOST = ("control_lost", "interrupted", AGAIN, "the bench process was gone")
    # What broke around it.
    NODE_LOST = (
        *("node_lost", "node_lost", AGAIN),
        "a node was out of contact for lost_contact_s, or down for Slurm",
    )
    SUPERVISOR_LOST = (
        *("supervisor_lost", "failed", AGAIN),
        "a node's supervisor was killed or failed, or the node restarted",
    )
    LAUNCH_ERROR = (
        *("launch_error", "failed", AGAIN),
        "the launch failed on the control node, or fetched files are incomplete",
    )
    BAD_ANSWER = (
        *("bad_answer", "failed", AGAIN),
        "a node sent an answer in an unknown format; docs/security.md",
    )
    UNREADABLE = (
        *("unreadable", "unreadable", FINISHED),
        "the run's files on the control node cannot be read",
    )
    # How its Slurm job ended, where its nodes did not say so themselves.
    CANCELLED = ("cancelled", "interrupted", AGAIN, "somebody cancelled the run's job (scancel)")
    PREEMPTED = (
        *("preempted", "interrupted", AGAIN),
        "Slurm gave the job's nodes to another job",
    )
    REQUEUED = (
        *("requeued", "interrupted", AGAIN),
        "Slurm requeued the job; its next start is another attempt",
    )
    JOB_TIME_LIMIT = (
        *("job_time_limit", "timed_out", AGAIN),
        "the job reached Slurm's time limit before the run did its own: slurm_time_margin_s",
    )
    DEADLINE = ("deadline", "timed_out", AGAIN, "the job's deadline (--deadline) passed")
    OUT_OF_MEMORY = (
        *("out_of_memory", "failed", FINISHED),
        "the job used more of a node's memory than Slurm gave it: slurm_mem",
    )
    BOOT_FAILED = ("boot_failed", "failed", AGAIN, "a node did not boot for the job")
    JOB_FAILED = (
        *("job_failed", "failed", AGAIN),
        "the job ended before the supervisor started: its script, a prolog or srun could not run",
    )
    NEVER_STARTS = (
        *("never_starts", "did_not_run", AGAIN),
        "the job could never start, and bench cancelled it",
    )
    JOB_LOST = (
        *("job_lost", "failed", AGAIN),
        "Slurm no longer knows the job, and its nodes left no record",
    )
    # Why a node refused to start it.
    UNREACHABLE = ("unreachable", "failed", AGAIN, "a node could not be reached")
    MISSING = ("missing", "failed", AGAIN, "a file, program, folder or variable is missing")
    SETUP_FAILED = ("setup_failed", "failed", AGAIN, "a line of slurm_setup failed on a node")
    CHANGED = ("changed", "failed", AGAIN, "a file's size differs from the recorded one")
    PORT_IN_USE = (
        *("port_in_use", "failed", AGAIN),
        "the run's port and two others are in use",
    )
    NODE_BUSY = ("node_busy", "failed", AGAIN, "another run holds a node")
    DEVICE_BUSY = ("device_busy", "failed", AGAIN, "a GPU of the run is in use")
    NO_DEVICE = ("no_device", "failed", AGAIN, "a GPU is missing, or nvidia-smi fails")
    EXISTS = ("exists", "failed", AGAIN, "the run's folder exists already")
    SHARED_ROOT = (
        "shared_root",
        "failed",
        AGAIN,
        "nodes share cluster_root without cluster_root_shared",
    )
    NOT_SHARED = (
        *("not_shared", "failed", AGAIN),
        "a node does not see the shared folder of runs",
    )
    DISK_FULL = (
        "disk_full",
        "failed",
        AGAIN,
        "a node's disk has less than 64 MiB, or it or /dev/shm is full",
    )
    IO_ERROR = ("io_error", "failed", AGAIN, "a node cannot write the run's folder")


# What may come while a run ends by itself, and then changes nothing of it.
LATE = frozenset((Cause.INTERRUPTED, Cause.CONTROL_LOST, Cause.STALLED, Cause.ENDED_EARLY))
# Endings that the trainer's own logs may explain; of the others the ending itself is the cause.
EXPLAINED = frozenset((Cause.EXIT, Cause.NO_STEP, Cause.STOPPED_EARLY, Cause.TIME_LIMIT))


class EndedBy(str, Enum):
    """What ended a launcher, as its node's done.json says it, and the cause that is."""

    cause: Cause

    def __new__(cls, word: str, cause: Cause) -> EndedBy:
        """Make the word, and keep its cause."""
        ended = str.__new__(cls, word)
        ended._value_ = word
        ended.cause = cause
        return ended

    def __str__(self) -> str:
        return str(self.value)

    # On the node.
    EXIT = ("exit", Cause.EXIT)
    LEASE = ("lease", Cause.NODE_LOST)
    STOP = ("stop", Cause.STOPPED)
    TIME_LIMIT = ("time_limit", Cause.TIME_LIMIT)
    LOG_LIMIT = ("log_limit", Cause.LOG_LIMIT)
    SUPERVISOR_LOST = ("supervisor_lost", Cause.SUPERVISOR_LOST)
    ERROR = ("error", Cause.SUPERVISOR_LOST)  # the supervisor's; the launch plugin adds its own
    # On the control node, which adds the cause.
    REFUSED = ("refused", Cause.SUPERVISOR_LOST)
    LOST = ("lost", Cause.NODE_LOST)


def cause_named(word: str) -> Cause | None:
    """Return the cause of that word; None where this version knows none."""
    return next((cause for cause in Cause if cause == word), None)
