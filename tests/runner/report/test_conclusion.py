"""What a campaign says in sentences: nothing that its numbers do not."""

from collections.abc import Sequence
from dataclasses import replace

from runner.report.conclusion import compared_axes, conclusion, ran
from runner.tables.build import measured
from runner.terms.record import Interval, Measurement, Record
from runner.terms.story import AttemptSeen, FaultSeen, StepSeen, Story, TrainedSession
from tests.runner.documents import rows
from tests.runner.report.test_report import CAMPAIGN, failed, record


def thrice(records: Sequence[Record]) -> list[Record]:
    """Each run and two repeats of it, 0.3 % slower and faster."""
    return [
        replace(run, repeat=repeat, measurement=scaled(run.measurement, 1 + 0.003 * (repeat - 2)))
        for run in records
        for repeat in (1, 2, 3)
    ]


def scaled(measured: Measurement, by: float) -> Measurement:
    steps = (
        replace(i, samples_per_s=i.samples_per_s and i.samples_per_s * by)
        for i in measured.intervals
    )
    return replace(measured, intervals=tuple(steps))


def scaled_run(run: Record, by: float) -> Record:
    return replace(run, measurement=scaled(run.measurement, by))


def test_one_cell_against_its_baseline() -> None:
    assert conclusion(rows(thrice(CAMPAIGN[:2]), "zero_stage=0")) == [
        "zero_stage 1 against zero_stage 0: slower by 5.0 % (± 0.6).",
    ]


def test_of_single_runs_nothing_is_called_faster() -> None:
    assert conclusion(rows(CAMPAIGN[:2], "zero_stage=0")) == [
        "zero_stage 1 against zero_stage 0: -5.0 %, without an interval."
    ]


def test_a_difference_within_the_noise_is_none() -> None:
    steps, others = (
        tuple(Interval(n, 1, None, 230.0 + (n * by) % 7 - 3, 9.0, 1.0) for n in range(1, 41))
        for by in (1, -1)
    )
    noisy = replace(record("b", zero=1), measurement=Measurement(steps, 9000.0, 10000.0))
    base = replace(record("a"), measurement=Measurement(others, 9000.0, 10000.0))
    (said,) = conclusion(rows(thrice([base, noisy]), "zero_stage=0"))
    assert said.endswith(" %, as fast within the noise.")


def test_without_a_baseline_the_fastest_and_the_slowest_and_what_has_no_result() -> None:
    table = rows([*CAMPAIGN, failed(record("n4-zero0", nodes=4))], None)
    assert conclusion(table) == [
        "nodes 2 · zero_stage 0 is the fastest with 461.0 samples/s, 2.10 times nodes 1 ·"
        " zero_stage 1, the slowest.",
        "1 of 5 cells without a result: 1 did_not_run.",
    ]
    assert conclusion([]) == []


def test_several_cells_are_summed_up_in_a_sentence() -> None:
    many = [record(f"{n}-{z}", nodes=n, zero=z) for n in range(1, 6) for z in (0, 1, 2)]
    fastest, first, *more = conclusion(rows(thrice(many), "zero_stage=0"))
    assert first.startswith("Of 10 cells against zero_stage 0: 10 slower by 5.0 to 10.0 % (± 0.6)")
    assert " is the fastest with " in fastest
    assert more == []


def test_when_how_long_and_on_what() -> None:
    begun = [
        replace(run, began=86400 * 10 + 60.0 * n, wall_s=1200.0, hosts=("a", "b"), device="H200")
        for n, run in enumerate(CAMPAIGN)
    ]
    words = ran(measured(begun)[0])
    assert words.endswith("4 runs, 80 min of running; 2 nodes with H200")
    assert ran(measured(CAMPAIGN)[0]) == ""


def test_what_was_compared_in_one_line() -> None:
    assert compared_axes([]) == ""
    assert compared_axes(rows([record()], None)) == "1 cell"
    assert compared_axes(rows(CAMPAIGN, None)) == "4 cells: nodes 1, 2; zero_stage 0, 1"
    many = [record(str(z), zero=z) for z in range(11)]
    words = "11 cells: zero_stage 0, 1, 2, 3, 4, 5, 6, 7 and 3 more"
    assert compared_axes(rows(many, None)) == words


def test_cells_of_several_campaigns_that_have_one_name_are_told_apart() -> None:
    fastest = conclusion(
        rows([CAMPAIGN[0], replace(CAMPAIGN[1], campaign="b", cell="n1-zero0")], None)
    )
    assert fastest[0].startswith("zero_stage 0 is the fastest with ")
    alike = [CAMPAIGN[0], replace(scaled_run(CAMPAIGN[0], 0.5), campaign="b")]
    (said_of_both, *_) = conclusion(rows(alike, None))
    assert said_of_both.startswith("n1-zero0 of zero is the fastest with ")
    assert said_of_both.endswith("times n1-zero0 of b, the slowest.")


def test_cells_that_are_all_as_fast_have_no_fastest() -> None:
    assert conclusion(rows([record("a"), record("b")], None)) == [
        "2 cells reach about 231.0 samples/s."
    ]


def test_large_rates_are_whole_numbers() -> None:
    steps = tuple(Interval(n, 1, None, 123_456.0 + n) for n in range(1, 20))
    fast = replace(record("fast"), measurement=Measurement(steps))
    assert "is the fastest with 123,468 samples/s" in conclusion(rows([fast, record("b")], None))[0]


def test_a_baseline_that_failed_is_said() -> None:
    base, *others = CAMPAIGN[:2]
    assert conclusion(rows([failed(base), *others], "zero_stage=0")) == [
        "1 of 2 cells without a result: 1 did_not_run.",
    ]


def test_one_cell_and_losses_that_are_no_number() -> None:
    assert conclusion(rows([record()], None)) == []
    assert conclusion(rows([failed(record())], None)) == [
        "1 of 1 cell without a result: 1 did_not_run."
    ]
    steps = tuple(Interval(n, 1, None, 200.0 + n % 3, float("nan")) for n in range(1, 30))
    bad = replace(record("b", zero=1), measurement=Measurement(steps))
    (said,) = conclusion(rows([record("a"), bad], "zero_stage=0"))
    assert "nan" not in said.lower().replace("another", "")


def test_of_many_cells_those_of_single_runs_are_no_equals() -> None:
    many = [record(f"{n}-{z}", nodes=n, zero=z) for n in range(1, 7) for z in (0, 1)]
    single = [run for run in thrice(many) if run.nodes > 2 or run.repeat == 1]
    said = conclusion(rows(single, "zero_stage=0"))[-1]
    assert said.startswith("Of 6 cells against zero_stage 0: 4 slower by ")
    assert said.endswith("), 2 without an interval.")


def test_imported_logs_have_no_runs_and_say_what_they_were_made_on() -> None:
    logs = [replace(run, imported=True, device="NVIDIA H200") for run in CAMPAIGN[:2]]
    assert ran(measured(logs)[0]) == "2 imported logs, not run by bench; on NVIDIA H200"
    assert ran(measured([replace(CAMPAIGN[0], device_kind="cpu")])[0]) == "on CPU"


def test_the_fastest_is_named_for_each_model() -> None:
    small, large = record("1", zero=1), record("2", zero=2)
    fast, slow = (replace(large, axes={"zero_stage": zero}, tokens_per_sample=4) for zero in (2, 3))
    fast, slow = (replace(run, model=None) for run in (fast, scaled_run(slow, 0.5)))
    said = conclusion(rows([small, record("3", zero=0), replace(fast, cell_id="f"), slow], None))
    assert [line.partition(" with ")[0] for line in said if "fastest with" in line] == [
        "zero_stage 0 is the fastest",
        "zero_stage 2 is the fastest",
    ]


def faulted(name: str, policy: str, lost_s: Sequence[float], **axes: object) -> list[Record]:
    """Repeats of a cell that was killed after 5 of 10 s of steps, and lost so much by it."""
    runs = []
    for repeat, lost in enumerate(lost_s, 1):
        first = tuple(StepSeen(n, 1, 1.0, float(n)) for n in range(1, 6))
        later = tuple(StepSeen(n, 1, 1.0, n + lost) for n in range(6, 11))
        killed = FaultSeen(0, "kill_node", 1, 5.0)
        attempts = (
            AttemptSeen(0.0, 5.0, 5.0, (killed,), (TrainedSession(steps=first),)),
            AttemptSeen(
                *(5.0, 10.0 + lost, 10.0 + lost),
                sessions=(TrainedSession(5, 5.0 + lost, steps=later),),
            ),
        )
        one = record(name, axes={"nodes": 1, "recovery": policy, **axes})
        runs.append(replace(one, repeat=repeat, story=Story(attempts)))
    return runs


def test_a_cell_with_faults_is_never_the_fastest_and_compared_in_speed_with_none() -> None:
    fast = [scaled_run(run, 3.0) for run in faulted("f", "restart", (2, 2.1), zero_stage=9)]
    said = conclusion(rows([*thrice(CAMPAIGN[:2]), *fast], "zero_stage=0"))
    assert said[0].startswith("zero_stage 1 against zero_stage 0: slower by 5.0 %")
    assert "zero_stage 9 is" not in " ".join(said)
    table = rows([*CAMPAIGN[:2], *fast], None)
    (first,) = conclusion(table)
    assert " is the fastest with 231.0 samples/s, 1.05 times " in first
    assert "zero_stage 9" not in first
    assert not [line for line in conclusion(rows(fast, None)) if "fastest" in line]
    alike = [replace(run, axes={**run.axes, "recovery": "restart"}) for run in thrice(CAMPAIGN[:2])]
    against_faults = conclusion(rows([*fast, *alike], "zero_stage=9"))
    assert "zero_stage 9" not in "".join(against_faults)
