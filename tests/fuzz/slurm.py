"""What Slurm's programs print, made wrong: no job, or one whose words may be shown and kept.

Who reads it never raises: the queue would end with it, and all runs that are followed by it.
"""

import random
from dataclasses import asdict
from pathlib import Path

from runner.base.dataclass_schema import read
from runner.folder.queued import Queued
from runner.launch.slurm import answers
from runner.launch.slurm.answers import AccountedJob, JobRecord, QueuedJob
from runner.launch.slurm.queue import queued_of
from runner.launch.slurm.states import job_end, never_starts
from tests.fuzz.case import printable
from tests.fuzz.mutation import mutated
from tests.runner.launch.slurm import said

TEXTS = (
    *(said.SQUEUE, said.RUNNING, said.HOSTILE_COMMENT, said.NO_OUTPUT_FOLDER, said.ACCOUNTED),
    *(said.COMPLETED, said.REQUEUED, said.FULL, said.NO_PARTITION, said.MPI),
)
WORDS = (b"|", b"\n", b" JobState=", b"Reason=", b" Dependency=", b"trainbench:", b"CANCELLED by ")


class Slurm:
    """squeue's, scontrol's and sacct's, each read as any of them."""

    name = "slurm"
    share = 6

    def make(self, chance: random.Random) -> bytes:
        """One of the recorded answers, changed."""
        return mutated(chance.choice(TEXTS).encode(), chance, WORDS)

    def judge(self, data: bytes, folder: Path) -> None:
        """As the queue reads it."""
        text = data.decode("utf-8", "replace")
        queued, record = answers.queued(text), answers.recorded(text)
        answers.ahead(text, queued.values())
        accounted = answers.accounted(text)
        printable("a sentence", answers.sentence(text))
        jobs: list[QueuedJob | JobRecord | AccountedJob] = [*queued.values(), *accounted.values()]
        for job in [*jobs, record] if record else jobs:
            for value in asdict(job).values():
                printable("a job", str(value))
            end = job_end(job.id, job.state) or never_starts(job.id, job.state)
            printable("an end", end.words if end else "")
        for waiting in queued.values():
            place = queued_of(waiting, 3, 1e9)
            read(Queued, place.to_json())
            printable("a place", place.words())
