"""When the counted steps ran: polls, tied by what the log says of its steps' times."""

import random
from statistics import median

import pytest

from runner.logs.kind import Readers
from runner.logs.kinds import readers_of, readers_of_family
from runner.logs.measure import measure
from runner.results.window import ASKING_S, Seen, Window, steady_window, times_of_steps
from runner.terms.record import Place

LINE = (
    "torch_gpt step={n}/20 samples_per_s=10.0 step_time_ms=100.0 loss=5.0 grad_norm=1.0 lr=1e-3"
    " skipped=0 nan=0 memory_allocated_mib=- memory_used_mib=300.0\n"
)


def took(seconds: float | None, until: int = 100) -> dict[int, tuple[int, float | None]]:
    return dict.fromkeys(range(1, until), (1, seconds))


def seen(step_s: float, polls_s: float, phase: float, steps: int = 20) -> list[Seen]:
    """Lines that are written at 10 s + step x step_s, by polls of that phase."""
    written = [10.0 + n * step_s for n in range(1, steps + 1)]
    polls = [phase + n * polls_s for n in range(200)]
    found = []
    for n, at in enumerate(written, 1):
        by = next(poll for poll in polls if poll >= at)
        found.append(Seen(n, by - polls_s, by))
    return found


def places(readers: Readers, log: bytes) -> tuple[Place, ...]:
    return measure(readers, {0: [log]}).places[0]


def test_a_line_was_written_between_two_polls() -> None:
    log = LINE.format(n=1).encode() + LINE.format(n=2).encode()
    first = log.index(b"\n") + 1
    polls = [(1.0, first - 1), (2.0, first + 5), (3.0, len(log)), (4.0, len(log))]
    assert times_of_steps(places(readers_of("torch_gpt"), log), polls) == [
        Seen(1, 1.0 - ASKING_S, 2.0),
        Seen(2, 2.0 - ASKING_S, 3.0),
    ]


def test_a_poll_says_its_time_some_ms_after_it_looked() -> None:
    log = LINE.format(n=1).encode()
    (step,) = times_of_steps(places(readers_of("torch_gpt"), log), [(1.0, 0), (2.0, len(log))])
    assert step.after <= 0.99


def test_lines_that_come_together_may_have_waited_for_each_other() -> None:
    """A trainer whose output is buffered: llm.c's printf into a file, 4 KiB at a time."""
    text = "".join(f"iter {n}: loss 4.7797, time 500.00ms, mfu 0.00%\n" for n in range(13))
    log = text.encode()
    ends = [at + 1 for at, byte in enumerate(log) if byte == 10]
    polls = [(1.0, 0), (5.0, ends[5]), (6.0, ends[5]), (7.0, ends[5]), (8.0, len(log))]
    steps = times_of_steps(places(readers_of_family("nanogpt"), log), polls)
    assert {step.after for step in steps[:6]} == {1.0 - ASKING_S}
    assert {step.after for step in steps[6:]} == {5.0 - ASKING_S}


def test_the_logs_own_times_tie_its_lines_so_that_all_polls_tell_when_they_were_written() -> None:
    """Issue 30, point 10: each line was as late as the poll that saw it, by up to 8 s."""
    draw, known = random.Random(30), []
    for _ in range(50):
        step_s, polls_s = draw.uniform(0.3, 0.7), draw.choice((1.0, 2.0))
        lines = seen(step_s, polls_s, draw.uniform(0, polls_s), 40)
        window = steady_window(lines, (6, 40), took(step_s))
        assert window is not None
        assert window.tied
        assert window.end - window.begin == pytest.approx(35 * step_s)
        assert abs(window.begin - (10 + 5 * step_s)) <= window.begin_within + 1e-9
        known.append(window.begin_within)
    assert median(known) < 0.05


def test_a_clock_that_stands_still_is_found_out_and_each_edge_known_by_the_lines_about_it() -> None:
    """torch_gpt's stopped while it reported: 4.5 % of a step of gpt2-small on an H100."""
    lines = seen(0.1, 1.0, 0.4, 400)
    window = steady_window(lines, (6, 400), took(0.0955, 500))
    assert window is not None
    assert not window.tied
    assert abs(window.begin - 10.5) <= window.begin_within <= 0.1
    assert abs(window.end - 50.0) <= window.end_within <= 0.1


@pytest.mark.parametrize("seconds", [None, 0.01, 30.0])
def test_without_times_that_fit_an_edge_is_known_to_its_poll(seconds: float | None) -> None:
    window = steady_window(seen(1.5, 1.0, 0.25), (6, 20), took(seconds))
    assert window == Window(17.75, 39.75, 15, 0.5, 0.5)


def test_a_pause_of_unknown_length_leaves_each_edge_to_the_lines_on_its_side() -> None:
    """nanoGPT's line of an evaluation says no time."""
    lines = seen(0.1, 1.0, 0.4, 100)
    late = [line._replace(after=line.after + 7, by=line.by + 7) for line in lines[50:]]
    window = steady_window([*lines[:50], *late], (6, 100), took(0.1, 200) | {51: (1, None)})
    assert window is not None
    assert window.begin == pytest.approx(10.5, abs=0.1)
    assert window.end == pytest.approx(27.0, abs=0.1)


def test_a_window_begins_with_the_line_before_it_and_needs_two() -> None:
    lines = [Seen(1, 1.0, 2.0), Seen(2, 2.0, 3.0), Seen(3, 4.0, 5.0)]
    assert steady_window(lines, (2, 3), {}) == Window(1.5, 4.5, 2, 0.5, 0.5)
    assert steady_window(lines[1:], (2, 3), {}) == Window(2.5, 4.5, 1, 0.5, 0.5)
    assert steady_window(lines[:1], (2, 3), {}) is None
    assert steady_window(lines[:1], (1, 1), {}) is None


def test_where_a_window_may_lie() -> None:
    loose = Window(10.0, 20.0, 5, 0.5, 1.0)
    assert loose.possible([10.2]) == [(9.5, 21.0), (10.5, 19.0)]
    assert loose.sure == (10.5, 19.0)
    tied = Window(10.0, 20.0, 5, 0.5, 0.5, tied=True)
    assert set(tied.possible([10.25, 19.75, 15.0])) == {
        *((9.5, 19.5), (9.75, 19.75), (10.25, 20.25), (10.5, 20.5))
    }
    assert Window(0.0, 2.0, 5, 0.9, 0.9).sure == (0.0, 2.0)


def test_a_pause_that_the_log_does_not_state_leaves_each_edge_to_the_lines_close_to_it() -> None:
    lines = seen(0.1, 1.0, 0.4, 400)
    late = [line._replace(after=line.after + 4, by=line.by + 4) for line in lines[200:]]
    window = steady_window([*lines[:200], *late], (6, 400), took(0.1, 500))
    assert window is not None
    assert (window.tied, window.begin_within <= 0.1, window.end_within <= 0.1) == (
        False,
        True,
        True,
    )
    assert abs(window.begin - 10.5) <= window.begin_within + 1e-9
    assert abs(window.end - 54.0) <= window.end_within + 1e-9


def test_a_time_of_one_iteration_ties_no_lines_that_stand_ten_apart() -> None:
    """nanoGPT with log_interval 10: a line's time is that of its last iteration."""
    lines = [line._replace(iteration=10 * line.iteration) for line in seen(1.0, 0.9, 0.25)]
    window = steady_window(lines, (51, 200), took(1.0, 201))
    assert window is not None
    assert not window.tied
    assert window.begin_within == pytest.approx(0.45)
