"""Carry out a bench's unfinished runs: follow those that still run, launch the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from runner.launch.launcher import Launcher, Planned, on_a_free_port
from runner.launch.recovery import RecoveryPlan, can_go_on
from runner.launch.side_by_side import each
from runner.results.decide import is_finished
from runner.terms.cell import Cell, Matrix
from runner.terms.outcome import Outcome

Repeat = tuple[Cell, int]  # a cell and the number of its repeat, from 1


class Begun(NamedTuple):
    """A repeat of a cell, its attempt, and whether an earlier bench started that attempt."""

    asked: Repeat
    planned: Planned
    followed: bool


@dataclass(frozen=True)
class Rounds:
    """Runs a campaign's repeats; adds each outcome to `ended`, retries failures `retry` times."""

    launcher: Launcher
    matrix: Matrix
    sizes: Mapping[str, Mapping[str, int]]
    retry: int
    ended: list[Outcome]

    def go(self, todo: Sequence[Repeat]) -> None:
        """Follow the runs that still run, then launch the others in order, `at_once` at a time."""
        engine = self.launcher.engine
        follow = {
            (cell.id, repeat): planned
            for cell, repeat in todo
            if (planned := self.launcher.going_on(cell.id, repeat)) is not None
        }

        def begin(asked: Repeat) -> Begun:
            cell, repeat = asked
            followed = follow.get((cell.id, repeat))
            return Begun(asked, followed or self.plan(asked), followed is not None)

        each(
            sorted(todo, key=lambda asked: (asked[0].id, asked[1]) not in follow),
            begin,
            self.finish,
            at_once=engine.at_once,
            handed_over=lambda begun: engine.goes_on(begun.planned.attempt),
            over=lambda: self.launcher.interrupts.over,
        )

    def hand_over(self, todo: Sequence[Repeat]) -> int:
        """Submit the runs of `todo` that are not queued yet, up to the queue's limit; do not wait.

        Return how many of `todo` are in the queue now. A refused run gets its outcome at once.
        """
        launcher, engine = self.launcher, self.launcher.engine
        in_queue = [run for run in todo if launcher.going_on(run[0].id, run[1]) is not None]
        count = len(in_queue)
        for cell, repeat in todo:
            if count >= engine.at_once or launcher.interrupts.over:
                break
            if (cell, repeat) in in_queue:
                continue
            planned = self.plan((cell, repeat))
            with launcher.interrupts.watching(planned.attempt):
                accepted = engine.hand_over(launcher.campaign, planned.attempt, planned.run.orders)
            if accepted:
                count += 1
            else:
                self.ended.append(launcher.refused(planned))
        return count

    def plan(
        self, asked: Repeat, port_try: int = 0, recovery: RecoveryPlan | None = None
    ) -> Planned:
        """Plan a repeat of a cell as a new attempt, or as one that resumes an earlier one."""
        return self.launcher.plan(self.matrix, *asked, self.sizes, port_try, recovery)

    def finish(self, begun: Begun) -> None:
        """Launch a run, and retry it while it fails, at most `retry` times.

        A run that an earlier bench started and that was cut short, for example by Ctrl-C, gets one
        new attempt that does not count as a retry.
        """
        asked, interrupts = begun.asked, self.launcher.interrupts
        try:
            ended = self.launch(asked, begun.planned)
            if begun.followed and not is_finished(ended) and not interrupts.over:
                ended = self.launch(asked, self.plan(asked))
            ended = self.recover(asked, begun.planned, ended)
            for _ in range(self.retry):
                if ended.status == "ok" or interrupts.over:
                    break
                planned = self.plan(asked)
                ended = self.recover(asked, planned, self.launch(asked, planned))
        except Exception as error:
            if self.launcher.engine.at_once > 1:
                self.launcher.view.broken(asked, error)
            raise
        self.ended.append(ended)

    def recover(self, repeat_of: Repeat, begun: Planned, ended: Outcome) -> Outcome:
        """Resume a run after failures, as its cell's `recovery` says; return the last outcome."""
        cell, repeat = repeat_of
        if not cell.recovery:
            return ended
        recovery = RecoveryPlan(cell, begun.attempt.number, self.launcher.cluster)
        for _ in range(recovery.most):
            if ended.status == "ok" or self.launcher.interrupts.over:
                break
            attempt = self.launcher.campaign.attempts(cell.id, repeat)[-1]
            if not can_go_on(ended, attempt):
                break
            recovery.failed(attempt)
            planned = self.plan(repeat_of, recovery=recovery)
            ended = self.launch(repeat_of, planned, recovery)
        return ended

    def launch(
        self, asked: Repeat, planned: Planned, recovery: RecoveryPlan | None = None
    ) -> Outcome:
        """Launch a run, on another port if its own is in use; follow restarts by the queue."""

        def with_port(port_try: int) -> Outcome:
            attempt = self.plan(asked, port_try, recovery) if port_try else planned
            return self.launcher.once(attempt)

        cell, repeat = asked
        ended = on_a_free_port(with_port, self.launcher.interrupts)
        # A queue that restarts a run does so as a new attempt.
        while not self.launcher.interrupts.twice():
            restarted = self.launcher.going_on(cell.id, repeat)
            if restarted is None:
                break
            ended = self.launcher.once(restarted)
        return ended
