"""Which lines come after warm-up, by the one rule of `parse` and `collect`."""

from collections.abc import Sequence

from runner.figures.counted_steps import late_intervals
from runner.terms.record import Interval

Line = tuple[int, int]  # iteration, iterations that it covers


def after(lines: Sequence[Line], iterations: int) -> list[int]:
    """Return the iterations after warm-up."""
    intervals = [Interval(iteration, covers, None, None) for iteration, covers in lines]
    return [line.iteration for line in late_intervals(intervals, iterations)]


def each(first: int, last: int) -> list[Line]:
    return [(iteration, 1) for iteration in range(first, last + 1)]


def test_warmup_is_counted_from_where_a_run_begins() -> None:
    """A run that went on from iteration 5,000 left nothing out of its first 10."""
    assert after(each(1, 12), 10) == [11, 12]
    assert after(each(5001, 5012), 10) == [5011, 5012]
    assert after(each(5001, 5012), 0) == list(range(5001, 5013))
    by_ten = [(n, 10) for n in range(5010, 5130, 10)]
    assert after(by_ten, 15) == list(range(5030, 5130, 10))


def test_a_first_line_that_does_not_say_what_it_covers_covers_as_much_as_the_next() -> None:
    assert after([(5001, 5001), *each(5002, 5012)], 10) == [5011, 5012]
    assert after([(5001, 5001), *each(5002, 5012)], 0)[0] == 5001
    assert after([(10, 10), (20, 10), (30, 10)], 10) == [20, 30]


def test_a_run_that_goes_back_in_its_log_warms_up_again() -> None:
    assert after([*each(1, 6), *each(4, 9)], 2) == [3, 4, 5, 6, 6, 7, 8, 9]
    twice = [line for line in each(1, 4) for _ in range(2)]  # each step printed by two ranks
    assert after(twice, 2) == [3, 3, 4, 4]
