"""Where the time of a run with failures went, and what each failure cost. Pure.

Goodput is the time of steps that counted, of all time from the first launcher's start to the end of
the last step. A step counts where no later attempt did its iteration again, with what it took less
its part in a checkpoint's stall and, while a fault held it up, less what it took beyond the median
step. docs/how-to/goodput.md has the definitions of others beside this one.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import fmean, median, stdev
from typing import NamedTuple

from runner.figures.run_mean import quantile
from runner.terms.story import AttemptSeen, FaultSeen, StepSeen, Story, TrainedSession

# The parts of a run's time, in the order of the bar; they add up to all of it.
PARTS: Mapping[str, str] = {
    "counted": "steps that counted",
    "stall": "standing still for checkpoints",
    "slowed": "steps held up by a fault",
    "lost": "steps done again, or broken off",
    "notice": "until the failure was noticed",
    "end": "until all processes had ended",
    "restart": "until the next launcher began",
    "start": "processes, imports, set-up, first step",
    "load": "loading the checkpoint",
    "rest": "not accounted for",
}
# The columns of what a failure costs, in the order of Recovery; that of a checkpoint.
RECOVERY = ("recovery_notice_s", "recovery_running_s", "recovery_lost_steps")
STALL = "checkpoint_stall_s"


class Recovery(NamedTuple):
    """What one failure cost: seconds until it was noticed, and until the trainer's next first step
    began; steps that were done again.
    """

    notice_s: float
    running_s: float
    lost_steps: int


@dataclass(frozen=True)
class Mean:
    """A mean over repeated faults or checkpoints, with half of its 95 % interval; None of one."""

    value: float
    half: float | None
    count: int


@dataclass(frozen=True)
class Goodput:
    """A cell's figures, over its runs; None where nothing tells.

    `parts` has the seconds of one run on average, by PARTS; `costs` what a failure costs, and a
    checkpoint, by the key of its column.
    """

    percent: float
    half_percent: float | None
    total_s: float
    parts: Mapping[str, float]
    faults: int
    costs: Mapping[str, Mean | None]
    durable_s: Mean | None
    checkpoint_bytes: int | None
    load_s: Mean | None

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes a second that a checkpoint is written with, until it is on the disk."""
        if self.durable_s is None or not self.checkpoint_bytes or not self.durable_s.value:
            return None
        return self.checkpoint_bytes / self.durable_s.value


def mean(values: Sequence[float]) -> Mean | None:
    """Return the mean with its interval by Student's t."""
    if not values:
        return None
    if len(values) < 2:
        return Mean(values[0], None, 1)
    half = quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Mean(fmean(values), half, len(values))


def goodput(stories: Sequence[Story]) -> Goodput | None:
    """Return the figures of a cell, by the stories of its runs; None where none has a step."""
    measured = [story for story in stories if any(session.steps for session in story.sessions)]
    if not measured:
        return None
    runs = [parts_of(story) for story in measured]
    totals = [sum(parts.values()) for parts in runs]
    share = mean(
        [100 * parts["counted"] / total for parts, total in zip(runs, totals, strict=True)]
    )
    recoveries = [recovery for story in measured for recovery in recoveries_of(story)]
    sessions = [session for story in measured for session in story.sessions]
    saves = [save for session in sessions for save in session.saves]
    costs = {
        key: mean([recovery[at] for recovery in recoveries]) for at, key in enumerate(RECOVERY)
    }
    return Goodput(
        percent=100 * sum(parts["counted"] for parts in runs) / sum(totals),
        half_percent=share.half if share else None,
        total_s=fmean(totals),
        parts={name: fmean(parts[name] for parts in runs) for name in PARTS},
        faults=sum(len(story.faults) for story in measured),
        costs={**costs, STALL: mean([save.stall_s for save in saves])},
        durable_s=mean([save.durable_s for save in saves]),
        checkpoint_bytes=saves[-1].bytes if saves else None,
        load_s=mean([session.load_s for session in sessions if session.iteration]),
    )


def _first_began(session: TrainedSession) -> float:
    first = session.steps[0]
    return first.at - first.seconds - first.paused_s if session.began is None else session.began


def _first_excess(session: TrainedSession) -> float:
    first_step = session.steps[0]
    if len(session.steps) < 2:
        return 0.0
    return max(0.0, first_step.seconds - _median_step(session.steps[1:]) * first_step.iterations)


def _median_step(steps: Sequence[StepSeen]) -> float:
    return median(step.seconds / step.iterations for step in steps) if steps else 0.0


class Spent(NamedTuple):
    """Seconds of a run that one thing took, one after the other; `part` is of PARTS."""

    category: str
    seconds: float


def parts_of(story: Story) -> dict[str, float]:
    """Return where the time of one run went, in seconds, by PARTS."""
    parts = dict.fromkeys(PARTS, 0.0)
    for spent in spent_in(story):
        parts[spent.category] += spent.seconds
    return parts


def spent_in(story: Story) -> list[Spent]:
    """Return what the time of one run was spent on, in its order."""
    steps = [step for session in story.sessions for step in session.steps]
    counts, median_s = {step.iteration: step for step in steps}, _median_step(steps)
    result: list[Spent] = []
    at = story.attempts[0].began
    for number, attempt in enumerate(story.attempts):
        if number:
            result.append(Spent("restart", attempt.began - at))
        at = max(at, attempt.began)
        for position, session in enumerate(attempt.sessions):
            if not session.steps:
                continue
            result += _starts(session, attempt, at, first_step=position == 0)
            excess = _first_excess(session)
            result.append(Spent("start", excess))
            for step in session.steps:
                counted = counts.get(step.iteration) is step
                result += _step(step, attempt.faults, median_s, excess, counted=counted)
                excess = 0.0
            at = session.steps[-1].at
        if attempt is story.attempts[-1] and any(session.steps for session in attempt.sessions):
            break
        fault = attempt.faults[-1].at if attempt.faults else at
        for category, until in (
            ("lost", fault),
            ("notice", attempt.noticed),
            ("end", attempt.ended),
        ):
            result.append(Spent(category, until - at))
            at = max(at, until)
    result = [spent for spent in result if spent.seconds > 0]
    remainder = at - story.attempts[0].began - sum(spent.seconds for spent in result)
    return [*result, Spent("rest", remainder)] if remainder > 0 else result


def _starts(
    session: TrainedSession, attempt: AttemptSeen, at: float, *, first_step: bool
) -> Iterator[Spent]:
    """Yield what a session took until its first step began."""
    began = _first_began(session)
    if not first_step and session.began is not None:
        # The launcher went on: what came before the new processes was noticing and ending.
        fault = max([at, *(item.at for item in attempt.faults if at - 1 <= item.at <= began)])
        yield Spent("lost", fault - at)
        at = max(fault, began - session.start_s)
        yield Spent("restart", at - fault)
    load = min(session.load_s, max(0.0, began - at))
    yield Spent("start", began - at - load)
    yield Spent("load", load)


def _step(
    step: StepSeen,
    faults: Sequence[FaultSeen],
    median_s: float,
    first_excess: float,
    *,
    counted: bool,
) -> Iterator[Spent]:
    """Yield what a step's time was; `first_excess` of it is told already."""
    seconds, begin = step.seconds - first_excess, step.at - step.seconds - step.paused_s
    delayed = any(
        fault.undone_at is not None and fault.at < step.at and fault.undone_at > begin
        for fault in faults
    )
    excess = max(0.0, seconds - median_s * step.iterations) if delayed and counted else 0.0
    yield Spent("counted" if counted else "lost", seconds - excess)
    yield Spent("slowed", excess)
    yield Spent("stall", step.paused_s)


def recoveries_of(story: Story) -> Iterator[Recovery]:
    """Yield what each failure cost that another attempt, or session, went on after."""
    reached = 0
    for attempt, after in zip_longest(story.attempts, story.attempts[1:]):
        for session, later in zip_longest(attempt.sessions, attempt.sessions[1:]):
            reached = max([reached, session.iteration, *(step.iteration for step in session.steps)])
            if later and later.steps and attempt.faults:  # the launcher itself went on (torchrun)
                began = _first_began(later)
                before = (fault.at for fault in reversed(attempt.faults) if fault.at <= began)
                at = next(before, attempt.faults[0].at)
                born = began if later.began is None else max(at, began - later.start_s)
                yield _recovery((at, at, at, born), later, reached)
        if after and after.sessions and after.sessions[0].steps and attempt.faults:
            times = attempt.faults[-1].at, attempt.noticed, attempt.ended, after.began
            yield _recovery(times, after.sessions[0], reached)


def _recovery(
    times: tuple[float, float, float, float], session: TrainedSession, reached: int
) -> Recovery:
    """Return what a failure cost, by when it came, was noticed, all processes had ended, and new
    ones were born; `session` went on after it.
    """
    fault, noticed, ended, born = times
    return Recovery(
        notice_s=max(0.0, noticed - fault),
        running_s=max(0.0, noticed - fault)
        + max(0.0, ended - noticed)
        + max(0.0, born - ended)
        + max(0.0, _first_began(session) - born - session.load_s)
        + session.load_s,
        lost_steps=max(0, reached - session.iteration),
    )
