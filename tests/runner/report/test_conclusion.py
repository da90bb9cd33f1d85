"""What a campaign says in sentences: nothing that its numbers do not."""

from dataclasses import replace

from runner.report.conclusion import MOST, conclusion, ran
from runner.tables.build import rows
from runner.terms.record import Interval, Measurement
from tests.runner.report.test_report import CAMPAIGN, failed, record


def test_each_cell_against_its_baseline_by_what_tells_it_from_others() -> None:
    assert conclusion(rows(CAMPAIGN, "zero_stage=0")) == [
        "zero_stage 1 is 5.0 % (± 0.0) slower than zero_stage 0 with nodes 1;"
        " it uses 11 % less memory.",
        "zero_stage 1 is 5.0 % (± 0.0) slower than zero_stage 0 with nodes 2;"
        " it uses 11 % less memory.",
    ]


def test_a_difference_within_the_noise_is_none() -> None:
    steps = [Interval(n, 1, None, 230.0 + n % 7 - 3, 9.0, 1.0) for n in range(1, 41)]
    noisy = replace(record("b", zero=1), measurement=Measurement(tuple(steps), 9000.0, 10000.0))
    base = replace(record("a"), measurement=Measurement(tuple(steps[::-1]), 9000.0, 10000.0))
    (said,) = conclusion(rows([base, noisy], "zero_stage=0"))
    assert said.startswith("zero_stage 1 is not to be told apart in speed from zero_stage 0 (")
    assert "memory" not in said


def test_without_a_baseline_the_fastest_and_the_slowest_and_what_has_no_result() -> None:
    table = rows([*CAMPAIGN, failed(record("n4-zero0", nodes=4))], None)
    assert conclusion(table) == [
        "n2-zero0 is the fastest with 461 samples/s, 2.10 times n1-zero1, the slowest.",
        "1 of 5 cells have no result: 1 did_not_run.",
    ]
    assert conclusion([]) == []


def test_many_cells_have_one_sentence_a_setting() -> None:
    many = [record(f"{n}-{z}", nodes=n, zero=z) for n in range(1, MOST + 2) for z in (0, 1, 2)]
    first, second = conclusion(rows(many, "zero_stage=0"))
    assert first.startswith("zero_stage 1 is ")
    assert first.endswith(" % slower than zero_stage 0 in 7 of 7 cells.")
    assert second.startswith("zero_stage 2 is ")


def test_when_how_long_and_on_what() -> None:
    begun = [
        replace(run, began=86400 * 10 + 60.0 * n, wall_s=1200.0, hosts=("a", "b"), device="H200")
        for n, run in enumerate(CAMPAIGN)
    ]
    words = ran(rows(begun, None))
    assert words.endswith("4 runs, 1.3 hours of running; 2 nodes with H200")
    assert ran(rows(CAMPAIGN, None)) == ""
