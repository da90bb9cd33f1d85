"""Arrivals that were brought: what a node wrote, and what nobody did."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.logs.measure import measure
from runner.logs.patterns import LinePattern, PatternLines
from runner.results.arrivals import (
    Arrival,
    Line,
    arrivals_of,
    by_arrivals,
    lines_of,
    moved,
    read_arrivals,
    timed_steps,
)
from runner.terms.record import Interval, Record

BURSTS = ((1, 1.0, 1), (2, 1.0, 1), (3, 2.0, 2), (4, 2.0, 2), (5, 3.0, 3), (6, 3.0, 3))
HEAD = b"began 1764427384.250 within_ms 5\n"


def test_entries_have_seconds_bytes_and_their_error() -> None:
    found = read_arrivals(HEAD + b"1000.0 10\n1000.0 20 50\n1500.5 30\n17", 30)
    assert (found.began, found.missing) == (1764427384.25, "")
    assert found.entries == (
        Arrival(1.0, 10, 0.005),
        Arrival(1.0, 20, 0.05),
        Arrival(1.5005, 30, 0.005),
    )


def test_while_a_run_goes_on_arrivals_may_be_ahead_of_its_log_and_lines_of_them() -> None:
    text = HEAD + b"100.0 9\n200.0 18\n300.0 40\n"
    found = read_arrivals(text, 27, over=False)
    assert [entry.size for entry in found.entries] == [9, 18]
    readers = {"own": lambda: PatternLines({"step": LinePattern(r"step (\d+)")})}
    places = measure(readers, {0: [b"step 1 a\nstep 2 b\nstep 3 c\n"]}).places[0]
    lines = lines_of(places, found.entries)
    steps = [Interval(n, 1) for n in (1, 2, 3)]
    assert [step.step_time_ms for step in timed_steps(steps, lines, 8)] == [
        *(None, pytest.approx(100.0), None),
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"100.0 10\n", "do not begin"),
        (HEAD.replace(b"1764427384.250", b"1e999"), "do not begin"),
        (HEAD + b"100.0 10\n90.0 20\n", "go back"),
        (HEAD + b"100.0 20\n110.0 20\n", "go back"),
        (HEAD + b"100.0 31\n", "beyond the log's end"),
        (HEAD + b"100.0 10\n-5 20\n", "no time and size"),
        (HEAD + b"100.0 10\n" + b"9" * 5000 + b".0 20\n", "no time and size"),
        (HEAD + b"\x00\xff\n", "no time and size"),
        (HEAD + b"1.0 1\n" * 2_000_000, "more than a node writes"),
    ],
)
def test_what_cannot_be_is_no_arrivals(text: bytes, why: str) -> None:
    found = read_arrivals(text, 30)
    assert found.entries == ()
    assert why in found.missing


def test_a_node_without_the_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "launcher.log").write_bytes(b"step\n")
    assert arrivals_of(tmp_path).missing == "its node noted no arrivals"
    (tmp_path / "arrivals").symlink_to("/dev/zero")
    assert arrivals_of(tmp_path).entries == ()


@given(
    st.lists(st.tuples(st.binary(max_size=5), st.binary(max_size=5)), max_size=8),
    st.sets(st.integers(1, 48)),
)
def test_arrivals_of_a_redacted_log_say_the_same_of_each_line(
    lines: list[tuple[bytes, bytes]], sizes: set[int]
) -> None:
    """Whichever line was whole after an entry is whole after it in the redacted log."""
    before, after = (
        b"".join(pair[side].replace(b"\n", b"_") + b"\n" for pair in lines) for side in (0, 1)
    )
    ordered = sorted(size for size in sizes if size <= len(before))
    text = HEAD + b"".join(b"%d.0 %d\n" % entry for entry in enumerate(ordered))
    new = [line.split() for line in moved(text, before, after).splitlines()[1:]]
    for size, entry in zip(ordered, new, strict=True):
        assert before[:size].count(b"\n") == after[: int(entry[1])].count(b"\n")


def step_lines(*iterations: int, every: float = 1.0) -> list[Line]:
    return [Line(n, every * at, at, False) for at, n in enumerate(iterations, 1)]


def test_a_step_has_the_time_between_two_lines() -> None:
    steps = [Interval(n, 1, step_time_ms=5.0, samples_per_s=1.0, loss=2.0) for n in (1, 2, 3)]
    first, *timed = timed_steps(steps, step_lines(1, 2, 3, every=0.1), 8)
    assert (first.step_time_ms, first.samples_per_s, first.loss) == (None, None, 2.0)
    assert [step.step_time_ms for step in timed] == pytest.approx([100, 100])
    assert [step.samples_per_s for step in timed] == pytest.approx([80, 80])
    assert [step.logged_samples_per_s for step in timed] == [1.0, 1.0]


def test_a_line_covers_all_iterations_since_the_one_before() -> None:
    """nanoGPT's has the time of one iteration, ten after the line before."""
    steps = [Interval(n, 1, step_time_ms=5.0) for n in (1, 11, 21)]
    _, *timed = timed_steps(steps, step_lines(1, 11, 21), 8)
    assert [(step.iterations, step.step_time_ms) for step in timed] == [(10, 100.0), (10, 100.0)]


def test_of_lines_that_came_together_the_last_has_the_time_of_all() -> None:
    steps = [Interval(n, 1, loss=float(n)) for n in range(1, 7)]
    lines = [Line(n, at, burst, False) for n, at, burst in BURSTS]
    timed = timed_steps(steps, lines, 8)
    assert [step.iterations for step in timed] == [1, 1, 0, 2, 0, 2]
    assert [step.step_time_ms for step in timed] == [None, None, None, 500.0, None, 500.0]
    assert [step.loss for step in timed] == [1, 2, 3, 4, 5, 6]


def test_a_line_that_holds_a_pause_has_no_time() -> None:
    steps = [Interval(n, 1) for n in (1, 2, 3)]
    lines = step_lines(1, 2, 3)
    lines[1] = lines[1]._replace(paused=True)
    assert [(s.paused, s.step_time_ms) for s in timed_steps(steps, lines, 8)] == [
        *((False, None), (True, None), (False, 1000.0)),
    ]
    steps[2] = Interval(3, 1, paused_ms=7.0)
    assert timed_steps(steps, lines, 8)[2].paused


@pytest.mark.parametrize(
    ("steps", "lines", "batch"),
    [
        ([Interval(1, 1), Interval(2, 1)], [1, 3], 8),  # another log's
        ([Interval(1, 1), Interval(2, 1)], [2], 8),
        ([Interval(1, 1, samples_per_s=9.0), Interval(2, 1)], [1, 2], None),
    ],
)
def test_steps_keep_their_own_time(steps: list[Interval], lines: list[int], batch: int) -> None:
    assert timed_steps(steps, step_lines(*lines), batch) == ()


def test_lines_come_with_their_first_byte_and_hold_what_is_between_them() -> None:
    log = b"step 1 a\nstep 2 b\nsaved it\nstep 3 c\n\x1b[1mstep 4\x1b[0m d\n"
    readers = {"own": lambda: PatternLines({"step": LinePattern(r"step (\d+)")})}
    for text in (log, log.replace(b"\x1b[1m", b"").replace(b"\x1b[0m", b"")):
        sizes = [9, text.index(b"saved") + 3, text.index(b"step 3") + 2, len(text)]
        times = tuple(Arrival(float(n), size, 0.0) for n, size in enumerate(sizes, 1))
        blocks = [text[at : at + 7] for at in range(0, len(text), 7)]
        lines = lines_of(measure(readers, {0: blocks}).places[0], times)
        assert [(line.iteration, line.at_s, line.paused) for line in lines] == [
            *((1, 1.0, False), (2, 2.0, False), (3, 3.0, True), (4, 4.0, False)),
        ]


@pytest.mark.parametrize("block", [7, 1 << 16, 1 << 20])
def test_places_are_in_the_whole_log_of_the_run_that_is_read(block: int) -> None:
    """After a run that starts over, behind a line that is too long to be one."""
    log = b"step 1 a\nstep 2 b\n" + b"." * 150_000 + b"\n\x1b[1mstep 1\x1b[0m c\rstep 2 d\n"
    readers = {"own": lambda: PatternLines({"step": LinePattern(r"step (\d+)")})}
    blocks = (log[at : at + block] for at in range(0, len(log), block))
    first, second = measure(readers, {0: blocks}).places[0]
    assert log[first.begin : first.end] == b"\x1b[1mstep 1\x1b[0m c\r"
    assert log[second.begin : second.end] == b"step 2 d\n"


def test_a_run_says_by_how_much_its_counted_time_may_be_wrong(tmp_path: Path) -> None:
    """By the errors of the first and the last arrival, and of those about what is left out."""
    log = b"".join(b"step %d\n%s" % (n, b"val loss 3\n" * (n == 10)) for n in range(1, 21))
    sizes = [line.end() for line in re.finditer(rb"step \d+\n", log)]
    entries = (
        b"%d.0 %d%s\n" % (500 * n, n_bytes, b" 40" * (n in (9, 19)))
        for n, n_bytes in enumerate(sizes)
    )
    (tmp_path / "launcher.log").write_bytes(log)
    (tmp_path / "arrivals").write_bytes(HEAD + b"".join(entries))
    readers = {"own": lambda: PatternLines({"step": LinePattern(r"step (\d+)")})}
    run = Record(
        "",
        "",
        "",
        "command",
        "ok",
        "",
        global_batch_size=8,
        measurement=measure(readers, {0: [log]}),
    )
    found = by_arrivals(run, {0: tmp_path / "launcher.log"}).measurement
    assert (found.clock, found.clock_within_ms) == ("arrivals", 80.0)
    assert [step.iteration for step in found.intervals if step.paused] == [11]
