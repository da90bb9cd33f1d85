"""Which steps count, and what their numbers are."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.figures.between_runs import of_values
from runner.figures.cell_statistics import WITHOUT_NUMBERS, cell_statistics, runs_that_count
from runner.figures.counted_steps import counted_intervals
from runner.figures.curves import last_loss
from runner.terms.memory import MEMORY
from runner.terms.record import STATUSES, Interval, Measurement, Record


def record(
    intervals: Sequence[Interval] = (),
    *,
    status: str = "ok",
    repeat: int = 1,
    warmup: int = 0,
    batch: int | None = 8,
) -> Record:
    return Record(
        campaign="c",
        cell="cell",
        cell_id="1",
        system="torch_gpt",
        status=status,
        reason="" if status == "ok" else "why",
        repeat=repeat,
        warmup_iters=warmup,
        global_batch_size=batch,
        measurement=Measurement(tuple(intervals)),
    )


def steps(*times: float, **more: float) -> list[Interval]:
    return [Interval(n, 1, time, **more) for n, time in enumerate(times, 1)]  # type: ignore[arg-type]


def test_an_interval_that_reaches_into_warmup_does_not_count() -> None:
    run = record([Interval(5, 5, 9.0), Interval(10, 5, 1.0), Interval(12, 2, 1.0)], warmup=6)
    assert [interval.iteration for interval in counted_intervals(run)] == [12]
    assert cell_statistics([run]).window == (11, 12)
    assert sum(cell_statistics([run]).steps_by_run) == 2


def test_warmup_is_counted_from_where_a_run_went_on() -> None:
    """warmup_iters 10 of a run that went on from iteration 5,000 left nothing out."""
    lines = [Interval(n, 1, 900.0 if n <= 5010 else 100.0) for n in range(5001, 5031)]
    given, found = (replace(record(lines), warmup_iters=out) for out in (10, None))
    for run in (given, found):
        got = cell_statistics([run])
        assert (got.warmup, got.window) == (10, (5011, 5030))
        assert not got.warmup_counted


def test_the_first_line_is_left_out_where_another_remains_and_else_said() -> None:
    two = [Interval(1, 1, 7000.0), Interval(10, 9, 1000.0)]
    got = cell_statistics([replace(record(two), warmup_iters=None)])
    assert (got.window, got.warmup, got.warmup_counted) == ((2, 10), 1, False)
    alone = cell_statistics([replace(record([Interval(50, 50, 1000.0)]), warmup_iters=None)])
    assert (sum(alone.steps_by_run), alone.warmup_counted) == (50, True)
    flat = cell_statistics([replace(record(steps(*[100.0] * 20)), warmup_iters=None)])
    assert (flat.warmup, sum(flat.steps_by_run)) == (1, 19)
    # As asked for; of many lines a first one like the others is no warm-up.
    assert cell_statistics([record(two)]).warmup_counted
    assert cell_statistics([record(steps(300.0, *[100.0] * 19))]).warmup_counted
    assert not cell_statistics([record(steps(*[100.0] * 20))]).warmup_counted


def test_skipped_steps_leave_the_times_and_are_counted() -> None:
    run = record([*steps(100.0, 100.0), Interval(3, 1, 10.0, skipped=1)])
    got = cell_statistics([run])
    assert got.step_time_ms is not None
    assert got.step_time_ms.median == 100.0
    assert (sum(got.steps_by_run), got.after_warmup(lambda line: line.skipped)) == (2, 1)


def test_nan_steps_stay_in_the_times_and_are_counted() -> None:
    run = record([Interval(1, 1, 100.0, nan=1), Interval(2, 1, 300.0)])
    got = cell_statistics([run])
    assert got.step_time_ms is not None
    assert got.step_time_ms.median == 200.0
    assert got.after_warmup(lambda line: line.nan) == 1


def test_one_run_median_and_interquartile_spread() -> None:
    got = cell_statistics([record(steps(*range(100, 201)))]).step_time_ms
    assert got is not None
    assert got.median == 150.0
    assert got.spread_percent == pytest.approx(50 / 150 * 100)
    assert got.spread_of == "intervals"


def test_repeats_have_the_mean_of_their_values_and_a_spread_between_them() -> None:
    runs = [record(steps(t, t, t), repeat=n) for n, t in enumerate((100.0, 110.0, 120.0), 1)]
    got = cell_statistics(runs)
    assert got.step_time_ms is not None
    assert got.samples_per_s is not None
    assert (got.step_time_ms.value, got.step_time_ms.median) == (110.0, 110.0)
    assert got.step_time_ms.spread_percent == pytest.approx(20 / 110 * 100)
    assert got.step_time_ms.spread_of == "repeats"
    assert got.step_time_ms.runs == (100.0, 110.0, 120.0)
    assert got.samples_per_s.value == pytest.approx(8 / 0.11)
    assert sum(got.steps_by_run) == 9


def test_the_headline_is_work_over_time_and_the_median_stands_beside_it() -> None:
    """SOAP's log: each tenth step 1,327 ms, the others 255; 2,008 was printed, 1,409 is true."""
    soap = [Interval(n, 1, 1327.0 if n % 10 == 0 else 255.0) for n in range(1, 101)]
    got = cell_statistics([record(soap, batch=512)])
    assert got.samples_per_s is not None
    assert got.samples_per_s.value == pytest.approx(1413.6, abs=0.1)
    assert got.samples_per_s.median == pytest.approx(2007.8, abs=0.1)
    assert got.stalls_percent == pytest.approx(42.0, abs=0.1)
    logged = [Interval(n, 10, 362.2) for n in range(10, 101, 10)]
    by_tens = cell_statistics([record(logged, batch=512)])
    assert by_tens.samples_per_s is not None
    assert by_tens.samples_per_s.value == pytest.approx(got.samples_per_s.value)


def test_a_line_weighs_by_its_iterations_and_each_run_alike() -> None:
    lines = [Interval(1, 1, 100.0), Interval(10, 9, 200.0)]
    other = [Interval(n, 1, 310.0) for n in range(1, 9)]
    last = [Interval(n, 1, 400.0) for n in range(1, 9)]
    one, two, three = (
        record(steps, repeat=n, batch=10) for n, steps in enumerate((lines, other, last))
    )
    got = cell_statistics([one])
    assert got.step_time_ms is not None
    assert got.samples_per_s is not None
    assert got.step_time_ms.value == pytest.approx(1900 / 10)
    assert got.samples_per_s.value == pytest.approx(10 * 10 / 1.9)
    several = cell_statistics([one, two, three])
    assert several.step_time_ms is not None
    assert several.samples_per_s is not None
    assert several.step_time_ms.value == pytest.approx(300.0)
    assert several.samples_per_s.value == pytest.approx(10 / 0.3)


def test_a_batch_that_grows_weighs_by_its_samples() -> None:
    """100 iterations of 8 samples in 100 ms, 100 of 24 in 200: 3,200 samples in 30 s."""
    small = [Interval(n, 1, 100.0, global_batch_size=8) for n in range(1, 101)]
    large = [Interval(n, 1, 200.0, global_batch_size=24) for n in range(101, 201)]
    got = cell_statistics([record([*small, *large], batch=24)])
    assert got.samples_per_s is not None
    assert got.step_time_ms is not None
    assert got.samples_per_s.value == pytest.approx(3200 / 30)
    assert got.step_time_ms.value == pytest.approx(150.0)


def test_one_run_has_no_interval_and_several_have_students() -> None:
    one = cell_statistics([record(steps(*[100.0, 101.0] * 30))])
    assert one.samples_per_s is not None
    assert one.samples_per_s.confidence is None
    assert one.times is not None
    assert "one run" in one.times.missing
    several = cell_statistics(
        [record(steps(*[t] * 9), repeat=n) for n, t in enumerate((99.0, 100.0, 101.0), 1)]
    )
    assert several.step_time_ms is not None
    assert several.samples_per_s is not None
    half = 4.3027 / 3**0.5
    assert several.step_time_ms.confidence == pytest.approx((100 - half, 100 + half))
    low, high = several.samples_per_s.confidence or (0, 0)
    assert (low, high) == pytest.approx((8000 / (100 + half), 8000 / (100 - half)))


def test_one_interval_has_no_spread() -> None:
    got = cell_statistics([record(steps(100.0))]).step_time_ms
    assert got is not None
    assert got.spread_percent is None


def test_throughput_is_the_logs_else_derived() -> None:
    derived = cell_statistics([record(steps(400.0, 400.0), batch=8)]).samples_per_s
    assert derived is not None
    assert derived.median == 20.0
    logged = cell_statistics([record([Interval(1, 1, 400.0, 19.5)])]).samples_per_s
    assert logged is not None
    assert logged.median == 19.5


def test_step_time_is_derived_from_throughput() -> None:
    got = cell_statistics([record([Interval(1, 1, None, 20.0)], batch=8)]).step_time_ms
    assert got is not None
    assert got.median == 400.0


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (record(), "no training step"),
        (record(steps(100.0), warmup=5), "after warm-up (5 iterations)"),
        (record([Interval(1, 1, 100.0, skipped=1)]), "skipped a step in every interval"),
        (record([Interval(1, 1)]), "neither step times nor a throughput"),
        (record([Interval(1, 1, 0.0, 0.0)]), "neither step times nor a throughput"),
        (record([Interval(1, 1, math.nan)]), "neither step times nor a throughput"),
    ],
)
def test_nothing_found_is_none_with_a_reason(run: Record, why: str) -> None:
    got = cell_statistics([run])
    assert got.samples_per_s is None
    assert got.step_time_ms is None
    assert why in got.missing["samples_per_s"]


def test_only_ok_repeats_count_when_there_is_one() -> None:
    runs = [record(steps(1.0), status="failed"), record(steps(100.0), repeat=2)]
    basis, chosen = runs_that_count(runs)
    assert (basis, [run.repeat for run in chosen]) == ("ok", [2])


def test_an_unfinished_run_keeps_its_numbers_and_its_mark() -> None:
    got = cell_statistics([record(steps(100.0), status="timed_out")])
    assert got.basis == "incomplete"
    assert got.step_time_ms is not None


@pytest.mark.parametrize("status", sorted(WITHOUT_NUMBERS))
def test_a_run_that_never_trained_has_no_numbers_whatever_it_holds(status: str) -> None:
    got = cell_statistics([record(steps(69.5, loss=3.0), status=status)])
    assert (got.basis, got.step_time_ms, got.final_loss, got.window) == ("none", None, None, None)


def test_final_loss_is_the_last_logged() -> None:
    assert last_loss([Interval(1, loss=3.0), Interval(2, loss=2.5), Interval(3)])[0] == 2.5


@pytest.mark.parametrize("last", [Interval(2, nan=1), Interval(2, loss=math.inf)])
def test_a_run_that_ends_in_nan_has_no_final_loss(last: Interval) -> None:
    loss, why = last_loss([Interval(1, loss=3.0), last])
    assert loss is None
    assert "iteration 2" in why


def test_one_diverged_repeat_takes_the_cells_final_loss() -> None:
    runs = [record([Interval(1, 1, 9.0, loss=3.0)]), record([Interval(1, 1, 9.0, nan=1)], repeat=2)]
    got = cell_statistics(runs)
    assert got.final_loss is None
    assert "repeat 2" in got.missing["final_loss"]


@pytest.mark.parametrize("key", [key for key in MEMORY if key != "memory_rss_mib"])
def test_memory_is_the_peak_over_repeats_and_never_mixed(key: str) -> None:
    first = record(steps(9.0))
    runs = [
        replace(first, repeat=n, measurement=replace(first.measurement, **{key: mib}))  # type: ignore[arg-type]
        for n, mib in enumerate((90.0, 100.0, 95.0), 1)
    ]
    got = cell_statistics(runs)
    assert got.memory == {**dict.fromkeys(MEMORY), key: 100.0}
    assert {*MEMORY} & {*got.missing} == {*MEMORY} - {key}


def test_the_memory_of_processes_is_the_mean_of_runs_and_has_an_interval() -> None:
    first = record(steps(9.0))
    runs = [
        replace(first, repeat=n, measurement=replace(first.measurement, memory_rss_mib=mib))
        for n, mib in enumerate((1000.0, 1059.0, 1010.0), 1)
    ]
    got = cell_statistics(runs)
    assert (got.memory["memory_rss_mib"], got.memory["memory_used_mib"]) == (1023.0, None)
    low, high = of_values(got.rss_by_run).interval or (0.0, 0.0)
    assert low < 1000 < 1059 < high
    assert of_values(cell_statistics(runs[:1]).rss_by_run).interval is None


floats = st.one_of(st.none(), st.floats(max_value=1e300))
intervals = st.builds(
    Interval,
    iteration=st.integers(-5, 10**6),
    iterations=st.integers(0, 100),
    step_time_ms=floats,
    samples_per_s=floats,
    loss=floats,
    skipped=st.integers(0, 3),
    nan=st.integers(0, 3),
)
records = st.builds(
    record,
    st.lists(intervals, max_size=6),
    status=st.sampled_from(sorted(STATUSES)),
    warmup=st.integers(0, 10),
    batch=st.one_of(st.none(), st.integers(0, 64)),
)


@given(st.lists(records, max_size=4))
def test_every_quantity_is_a_positive_number_or_missing_with_a_reason(runs: list[Record]) -> None:
    got = cell_statistics(runs)
    for name in ("samples_per_s", "step_time_ms"):
        summary = getattr(got, name)
        if summary is None:
            assert got.missing[name]
        else:
            assert summary.median > 0
