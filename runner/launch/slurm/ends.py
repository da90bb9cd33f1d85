"""How a job ended: scontrol knows for some minutes, sacct for good; squeue says least."""

import pwd
from collections.abc import Iterable
from typing import Protocol

from runner.launch.slurm.answers import AccountedJob, JobRecord, QueuedJob
from runner.launch.slurm.states import Ended, job_end


class AnswersForSlurm(Protocol):
    """What answers for Slurm: runner.launch.slurm.commands."""

    def jobs(self, ids: Iterable[int]) -> dict[int, QueuedJob]:
        """Return what squeue knows."""

    def job(self, number: int) -> JobRecord | None:
        """Return what scontrol knows."""

    def accounted(self, ids: Iterable[int]) -> dict[int, AccountedJob]:
        """Return what sacct knows."""

    def ahead(self, waiting: Iterable[QueuedJob]) -> dict[int, int]:
        """Return how many jobs go before each."""

    def configuration(self) -> dict[str, str]:
        """Return what slurm.conf says."""


def end_of(
    asked: AnswersForSlurm, number: int, job: QueuedJob | None = None
) -> tuple[Ended | None, bool]:
    """Ask scontrol, then sacct, how a job ended, and whether anybody has heard of it.

    squeue says no exit code, and scontrol not who cancelled a job.
    """
    record = asked.job(number)
    if record is not None and job_end(number, record.state) is None:
        return None, True
    account = None
    if record is None or record.state == "CANCELLED":
        account = asked.accounted([number]).get(number)
    if record is not None:
        by = account.by if account is not None else None
        code, signal = record.exit_code, record.exit_signal
        return job_end(number, record.state, record.reason, code, signal, _name(by)), True
    if account is not None:
        code, signal, by = account.exit_code, account.exit_signal, account.by
        end = job_end(number, account.state, "", code, signal, _name(by))
    else:
        end = job_end(number, job.state, job.reason) if job is not None else None
    return end, end is not None


def _name(user: int | None) -> str:
    if user is None:
        return ""
    try:
        return pwd.getpwuid(user).pw_name
    except (KeyError, OverflowError):
        return f"user {user}"
