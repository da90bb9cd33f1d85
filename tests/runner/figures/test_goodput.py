"""Where the time of a run with failures went: worked examples, and what must always hold."""

import random
from dataclasses import replace

import pytest

from runner.figures.goodput import STALL, goodput, parts_of, recoveries_of, spent_in
from runner.terms.story import AttemptSeen, FaultSeen, SaveSeen, StepSeen, Story, TrainedSession


def steps(first: int, last: int, begin: float, each: float = 1.0) -> tuple[StepSeen, ...]:
    return tuple(
        StepSeen(n, 1, each, begin + each * (n - first + 1), loss=1 / n)
        for n in range(first, last + 1)
    )


def session(first: int, last: int, begin: float, **more: float) -> TrainedSession:
    return TrainedSession(first - 1, begin, steps=steps(first, last, begin), **more)  # type: ignore[arg-type]


# An attempt that starts for 5 s and does 7 iterations, of which 5 are saved; killed 0.5 s into the
# eighth; noticed after 2 s, ended after 1 s, launched again after 3 s; 4 s of start and 1 of load.
KILLED = AttemptSeen(
    began=100.0,
    noticed=114.5,
    ended=115.5,
    faults=(FaultSeen(0, "kill_rank", 1, 112.5),),
    sessions=(session(1, 7, 105.0, start_s=4.5),),
)
WENT_ON = AttemptSeen(
    began=118.5,
    noticed=140.0,
    ended=140.0,
    sessions=(session(6, 15, 123.5, start_s=4.5, load_s=1.0),),
)
STORY = Story((KILLED, WENT_ON))


def test_each_second_is_spent_on_one_thing() -> None:
    parts = parts_of(STORY)
    assert parts == pytest.approx(
        {
            "counted": 15.0,
            "stall": 0.0,
            "slowed": 0.0,
            "lost": 2.5,  # iterations 6 and 7, and half of the eighth
            "notice": 2.0,
            "end": 1.0,
            "restart": 3.0,
            "start": 9.0,
            "load": 1.0,
            "rest": 0.0,
        }
    )
    assert sum(parts.values()) == pytest.approx(33.5)  # from 100.0 to 133.5


def test_a_recovery_is_told_from_the_fault_on() -> None:
    (found,) = recoveries_of(STORY)
    # 2 s until it was noticed, 1 s to the end of all, 3 s to the launch, 4 s of start, 1 s of load.
    assert found == (2.0, 11.0, 2)


def test_the_figures_of_a_cell() -> None:
    found = goodput([STORY, STORY])
    assert found is not None
    assert found.percent == pytest.approx(100 * 15 / 33.5)
    assert found.half_percent == pytest.approx(0)
    assert found.faults == 2
    notice = found.costs["recovery_notice_s"]
    assert notice is not None
    assert (notice.value, notice.half, notice.count) == (2.0, 0.0, 2)


def test_a_checkpoint_s_stall_does_not_count() -> None:
    stalled = tuple(
        replace(step, at=step.at + 0.5, paused_s=0.5) if step.iteration == 15 else step
        for step in WENT_ON.sessions[0].steps
    )
    saves = (SaveSeen(0.5, 2.0, 1000),)
    last = replace(WENT_ON, sessions=(replace(WENT_ON.sessions[0], steps=stalled, saves=saves),))
    story = replace(STORY, attempts=(KILLED, last))
    assert parts_of(story)["stall"] == pytest.approx(0.5)
    assert parts_of(story)["counted"] == pytest.approx(15.0)
    found = goodput([story])
    assert found is not None
    assert found.costs[STALL] is not None
    assert found.bytes_per_s == pytest.approx(500)


def test_a_step_that_a_fault_held_up_counts_as_a_median_one() -> None:
    held = FaultSeen(0, "stop", 0, 110.2, undone_at=113.2)
    slow = (*steps(1, 5, 105.0), StepSeen(6, 1, 4.0, 114.0), *steps(7, 15, 114.0))
    attempt = AttemptSeen(100.0, 124.0, 124.0, (held,), (TrainedSession(0, 105.0, steps=slow),))
    parts = parts_of(Story((attempt,)))
    assert parts["slowed"] == pytest.approx(3.0)
    assert parts["counted"] == pytest.approx(15.0)


def test_torchrun_goes_on_within_one_attempt() -> None:
    later = session(6, 15, 123.5, start_s=4.5, load_s=1.0)
    whole = replace(KILLED, ended=134.0, sessions=(*KILLED.sessions, later))
    story = Story((whole,))
    parts = parts_of(story)
    assert sum(parts.values()) == pytest.approx(33.5)
    assert parts["restart"] == pytest.approx(119.0 - 112.5)
    assert parts["start"] == pytest.approx(5.0 + 3.5)
    (found,) = recoveries_of(story)
    assert found.running_s == pytest.approx(11.0)
    assert found.lost_steps == 2


def test_time_is_neither_lost_nor_made_up_whatever_happened() -> None:
    for seed in range(200):
        dice = random.Random(seed)
        at, done, attempts = 0.0, 0, []
        for number in range(1, dice.randint(2, 6)):
            began = at + dice.uniform(0, 3)
            first = began + dice.uniform(0, 5)
            last = done + dice.randint(0, 9)
            told = steps(done + 1, last, first, dice.uniform(0.1, 2))
            end = told[-1].at if told else first
            fault = end + dice.uniform(-1, 1)
            noticed = max(end, fault) + dice.uniform(0, 2)
            at = noticed + dice.uniform(0, 2)
            seen = (FaultSeen(number, "kill_rank", 0, fault),)
            one = TrainedSession(done, first, load_s=dice.uniform(0, 1), steps=told)
            attempts.append(AttemptSeen(began, noticed, at, seen, (one,)))
            done = max(0, last - dice.randint(0, 5))
        story = Story(tuple(attempts))
        spent = spent_in(story)
        assert all(each.seconds > 0 for each in spent)
        final = attempts[-1]
        until = final.sessions[0].steps[-1].at if final.sessions[0].steps else final.ended
        assert sum(each.seconds for each in spent) == pytest.approx(until - attempts[0].began)
