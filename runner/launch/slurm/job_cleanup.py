"""Jobs whose runs are over: each leaves its nodes soon, or is cancelled."""

import time
from collections.abc import Callable
from contextlib import suppress

from runner.launch.slurm import commands
from runner.launch.slurm.commands import SlurmError

LEAVES_S = 15.0  # for srun and the job's script to end, once every node has
LOOK_S = 0.2
RUNNING = "RUNNING"


class LeavingJobs:
    """Jobs of a campaign that are to leave; threads add to them.

    One stays where a node's slurmstepd is gone: srun waits for it to the job's time limit.
    """

    def __init__(self) -> None:
        self._since: dict[int, float] = {}

    def add(self, number: int) -> None:
        """Note that the run of a job is over, and cancel those that should have left before."""
        self.look()
        self._since[number] = time.monotonic()

    def look(self) -> None:
        """Forget the jobs that have left, and cancel those that should have, if there are any."""
        late = [n for n, at in list(self._since.items()) if time.monotonic() - at > LEAVES_S]
        if late:
            self._cancel(self._still(late))

    def see_off(self, cancelled: Callable[[], bool]) -> None:
        """Wait until all have left, or have been cancelled."""
        while self._since and not cancelled():
            self._still(list(self._since))
            self.look()
            if self._since:
                time.sleep(LOOK_S)

    def _still(self, numbers: list[int]) -> list[int]:
        """Return those that are still there; nobody, where nobody can say: limits end them."""
        there: list[int] = []
        with suppress(SlurmError):
            queued = commands.jobs(numbers)
            there = [n for n in numbers if n in queued and queued[n].state == RUNNING]
        for number in set(numbers) - set(there):
            self._since.pop(number, None)
        return there

    def _cancel(self, numbers: list[int]) -> None:
        with suppress(SlurmError):
            commands.cancel(numbers)
        for number in numbers:
            self._since.pop(number, None)
