"""What runs need together, and which cannot end within the time limit."""

import pytest

from node.time_words import lasts
from runner.plan.needs import Need, in_words, too_long


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.3, "0.3 s"),
        (2.04, "2 s"),
        (45, "45 s"),
        (119.6, "2 min"),
        (9000, "2.5 h"),
        (3 * 86400, "3 days"),
    ],
)
def test_a_time_is_said_in_its_unit(seconds: float, words: str) -> None:
    assert lasts(seconds) == words


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        ([Need("a", 1, 30.0)], "total: 1 run; about 30 s"),
        ([Need("a", 3)], "total: 3 runs; time unknown, at most 3 days by time_limit_s"),
        (
            [Need("a", 3, 3600.0, memory_mib=10.0), Need("b", 2, memory_mib=20.4)],
            "total: 5 runs; about 3 h, one after the other; time unknown of 2 of them, at most"
            " 2 days by time_limit_s; largest memory of a device 20 MiB, estimated (b)",
        ),
    ],
)
def test_a_total_says_what_is_unknown_and_never_nothing(needs: list[Need], words: str) -> None:
    assert in_words(needs, 86_400, side_by_side=False) == words
    beside = in_words(needs, 86_400, side_by_side=True)
    assert ("side by side" in beside) == ("after the other" in words)


def test_a_total_has_no_more_than_the_time_limit_of_a_run() -> None:
    assert in_words([Need("a", 3, 7200.0)], 60, side_by_side=False).startswith(
        "total: 3 runs; about 3 min"
    )


def test_a_cell_that_cannot_end_in_time_is_named_with_the_cure() -> None:
    need = Need("a", 1, 7200.0, "the estimate", train_iters=9000)
    assert list(too_long([need, Need("b", 1), Need("c", 1, 60.0)], 3600.0)) == [
        "warning: cell a: train_iters 9000 takes about 2 h by the estimate, and time_limit_s 3600"
        " ends it before; raise time_limit_s, or lower train_iters"
    ]
