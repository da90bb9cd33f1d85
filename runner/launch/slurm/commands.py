"""Slurm's programs: the only place that starts them, except a run's own srun.

Each has a clean environment and a limit of time, and what it prints is read as text from outside
(answers.py). A controller that does not answer is a `ControllerError`, after which one asks again.
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.base.errors import UserError
from runner.launch.slurm import answers
from runner.launch.slurm.answers import (
    DOWN_FORMAT,
    MARK,
    SACCT_FORMAT,
    SQUEUE_FORMAT,
    AccountedJob,
    JobRecord,
    QueuedJob,
    sentence,
)
from runner.launch.slurm.states import never_starts
from runner.launch.slurm.variables import clean_environment
from runner.terms.engines.slurm import COMMENTED

LIMIT_S = 60.0  # for a program; without a controller it gives up after 9 s, or a site's 100 s
SUBMIT_S = 180.0  # for sbatch, which tries again for minutes where the controller is too busy
MOST_BYTES = 16 << 20  # of what one prints: the queue of 100,000 jobs

_CURE = "`scontrol ping` says when it is up"
_UNREACHABLE = re.compile(
    r"[Uu]nable to contact|Connection (refused|timed out|reset)|[Cc]ommunication connection|timed"
    r" out|backup controller|Zero Bytes|not connected|temporarily|try again|No route to host|"
    r"[Mm]unge|Protocol authentication|configuration source|fetch_config|Unexpected message"
)
# AssocMaxSubmitJobLimit, QOSMaxSubmitJobPerUserLimit, QOSGrpSubmitJobsLimit
_FULL = re.compile(r"\b(?:QOS|Assoc)(?:Max|Grp)Submit[A-Za-z]{0,40}")
_UNKNOWN = re.compile(r"Invalid job id|already (completing|completed)|Invalid job/step")


class SlurmError(UserError):
    """A program of Slurm's failed: its sentence, with the cure."""


class ControllerError(SlurmError):
    """The controller cannot be reached, or is too busy: ask again later."""


class QueueFullError(ControllerError):
    """This user has as many jobs in the queue as a site allows: ask again when some have ended."""


@dataclass(frozen=True)
class Said:
    """How a program of Slurm's ended, and what it printed."""

    code: int
    stdout: str
    stderr: str


def submit(script: Path, secrets: Mapping[str, str]) -> int:
    """Hand job.sh to the queue and return the job's id.

    `secrets` are variables of the job beside the user's own. A ControllerError leaves open whether
    there is a job now: `find_by_comment` knows. Raises SlurmError with Slurm's words.
    """
    result = _run("sbatch", "--parsable", str(script), secrets=secrets, limit_s=SUBMIT_S)
    if result.code != 0 and (full := _FULL.search(result.stderr)):
        raise QueueFullError(f"the queue takes no more jobs of this user's ({full[0]})")
    if result.code != 0:
        raise SlurmError(f"sbatch refused {script}: {sentence(result.stderr)}")
    # Of `id;cluster`; a site's own words may come before it.
    number = result.stdout.strip().rpartition("\n")[2].partition(";")[0]
    if not number.isdecimal():
        raise ControllerError(f"sbatch took {script} and said no job id: {number[:60]!a}")
    return int(number)


def test_only(script: Path) -> str | None:
    """Return why Slurm would not take job.sh, in one line; None where it would.

    It would where jobs of this user's must end first.
    """
    result = _run("sbatch", "--test-only", str(script), limit_s=SUBMIT_S)
    if result.code == 0 or _FULL.search(result.stderr):
        return None
    return sentence(result.stderr) or "sbatch gave no reason"


def refused(script: Path) -> str:
    """Return why Slurm would never start job.sh, in words; empty where it may wait.

    It is submitted, looked at and cancelled: so it should do nothing, and have no output.
    """
    try:
        number = submit(script, {})
    except QueueFullError:
        return ""
    except ControllerError:
        raise
    except SlurmError as error:
        return str(error).partition(": ")[2]
    try:
        job = jobs([number]).get(number)
    finally:
        cancel([number])
    never = never_starts(number, job.reason) if job is not None else None
    return never.words if never else ""


def jobs(ids: Iterable[int]) -> dict[int, QueuedJob]:
    """Return what squeue knows of these jobs, in one question; of those that ended lately, too.

    One that is missing has ended some minutes ago, or never was.
    """
    numbers = sorted(set(ids))
    if not numbers:
        return {}
    listed = ",".join(map(str, numbers))
    queued = answers.queued(
        _squeue("--states=all", f"--jobs={listed}", f"--format={SQUEUE_FORMAT}")
    )
    return {number: queued[number] for number in numbers if number in queued}


def ours() -> dict[str, QueuedJob]:
    """Return this user's jobs whose comment is MARK and a mark, by that mark; the newest of each.

    The mark, not the id, says whose a job is: another cluster has the same ids.
    """
    whose = f"--user={os.getuid()}"
    queued = answers.queued(_squeue("--states=all", whose, f"--format={SQUEUE_FORMAT}"))
    return {
        queued[number].comment.removeprefix(MARK).partition(COMMENTED)[0]: queued[number]
        for number in sorted(queued)
        if queued[number].comment.startswith(MARK)
    }


def find_by_comment(mark: str) -> tuple[QueuedJob, ...]:
    """Return this user's job whose comment is MARK and `mark`, if there is one."""
    job = ours().get(mark)
    return () if job is None else (job,)


def ahead(waiting: Iterable[QueuedJob]) -> dict[int, int]:
    """Return how many jobs go before each of these that wait, as far as one may see them."""
    waiting_jobs = list(waiting)
    partitions = ",".join(sorted({job.partition for job in waiting_jobs}))
    if not waiting_jobs:
        return {}
    output = _squeue(
        "--states=PENDING", f"--partition={partitions}", f"--format={answers.PLACE_FORMAT}"
    )
    return answers.ahead(output, waiting_jobs)


def job(number: int) -> JobRecord | None:
    """Return a job's record; None where the controller has none any more."""
    result = _run("scontrol", "--oneliner", "show", "job", str(number))
    record = answers.recorded(result.stdout) if _knows(result) else None
    return record if record is not None and record.id == number else None


def accounted(ids: Iterable[int]) -> dict[int, AccountedJob]:
    """Return what sacct knows of these jobs; nothing where a site keeps no accounts."""
    numbers = sorted(set(ids))
    if not numbers:
        return {}
    listed = ",".join(map(str, numbers))
    argv = ("--noheader", "--parsable2", f"--jobs={listed}", f"--format={SACCT_FORMAT}")
    for source in (("--allocations", "--duplicates"), ("--completion",)):
        try:
            result = _run("sacct", *source, *argv)
        except SlurmError:  # no sacct, or no database for now
            continue
        rows = answers.accounted(result.stdout) if result.code == 0 else {}
        if rows:
            return {number: rows[number] for number in numbers if number in rows}
    return {}


def cancel(ids: Iterable[int]) -> None:
    """End these jobs, by their ids; jobs that have ended are unaffected."""
    if numbers := sorted(set(ids)):
        _knows(_run("scancel", *map(str, numbers)))


def hosts(nodes: str) -> tuple[str, ...]:
    """Return the hosts of a node list such as node[1-4], in its order."""
    result = _run("scontrol", "show", "hostnames", nodes)
    _knows(result)
    return tuple(result.stdout.split())


def down_nodes(hosts: Iterable[str]) -> dict[str, str]:
    """Return those of these nodes that Slurm takes for down, each with the reason that it has."""
    listed = ",".join(sorted(set(hosts)))
    argv = ("--noheader", "--Node", "--states=down,fail,no_respond", f"--format={DOWN_FORMAT}")
    result = _run("sinfo", *argv, f"--nodes={listed}")
    return answers.down_nodes(result.stdout) if result.code == 0 else {}


def switches() -> list[list[str]]:
    """Return the hosts of each leaf switch, in the topology's order; none where Slurm has none."""
    result = _run("scontrol", "--oneliner", "show", "topology")
    leaves = answers.leaf_switches(result.stdout) if result.code == 0 else []
    return [list(hosts(nodes)) for nodes in leaves]


def configuration() -> dict[str, str]:
    """Return what slurm.conf says, as the controller has it: ClusterName, MinJobAge and so on."""
    result = _run("scontrol", "show", "config")
    _knows(result)
    lines = (line.partition("=") for line in result.stdout.split("\n"))
    return {key.strip(): value.strip() for key, parts, value in lines if parts}


def partition_limit_s(name: str | None) -> float | None:
    """Return the longest that a job of a partition (None: the default one) may take, in seconds.

    None where there is no limit, or several partitions are meant.
    """
    if name is not None and "," in name:
        return None
    result = _run("scontrol", "--oneliner", "show", "partition", *([name] if name else []))
    return answers.longest_s(result.stdout, name) if _knows(result) else None


def mpi_types() -> tuple[str, ...]:
    """Return what --mpi of srun may be here."""
    result = _run("srun", "--mpi=list")
    lines = (result.stdout + result.stderr).split("\n")
    listed = [line.strip() for line in lines if line.startswith("\t")]
    versions = [line.partition(" available: ")[2].split(",") for line in lines]
    return (
        *listed,
        *(version_line.strip() for version in versions for version_line in version if version_line),
    )


def _squeue(*argv: str) -> str:
    result = _run("squeue", "--noheader", *argv)
    return result.stdout if _knows(result) else ""


def _knows(said: Said) -> bool:
    """Whether a program did what it was asked for; not where it knows no such job."""
    if said.code == 0:
        return True
    if _UNKNOWN.search(said.stderr):
        return False
    raise SlurmError(f"Slurm refused: {sentence(said.stderr) or f'exit code {said.code}'}")


def _run(
    program: str, *argv: str, secrets: Mapping[str, str] | None = None, limit_s: float = LIMIT_S
) -> Said:
    """Run a program to its end. Raises SlurmError where it is missing, ControllerError."""
    try:
        process = subprocess.Popen(
            [program, *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environment(secrets or {}),
            start_new_session=True,  # Ctrl-C is bench's: a half-done sbatch would leave no id
        )
    except OSError as error:
        raise SlurmError(
            f"{program} cannot be run: {error.strerror}; run this on a login node of the cluster"
            " (or `module load slurm` first)"
        ) from None
    with process:
        try:
            stdout, stderr = process.communicate(timeout=limit_s)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise ControllerError(f"{program} said nothing for {limit_s:.0f} s; {_CURE}") from None
    result = Said(process.returncode, _text(stdout), _text(stderr))
    if result.code != 0 and (_UNREACHABLE.search(result.stderr) or result.code < 0):
        problem = sentence(result.stderr) or f"{program} ended by signal {-result.code}"
        raise ControllerError(f"Slurm's controller cannot be reached: {problem}; {_CURE}")
    return result


def _text(output: bytes) -> str:
    """Return what a program printed, up to the last whole line of MOST_BYTES."""
    if len(output) > MOST_BYTES:
        output = output[: output.rfind(b"\n", 0, MOST_BYTES) + 1]
    return output.decode("utf-8", "replace")
