"""Estimates of memory, what corrects them, and what a search does with them."""

from dataclasses import replace

from runner.tune.candidates import TuneCandidate
from runner.tune.memory_forecast import memory_forecast
from runner.tune.search import Search
from runner.tune.trials import Length, Trial
from tests.runner.tune.machine import Machine, Trap, grid

SHARES = {"a": 0.5, "b": 0.7, "c": 0.75, "d": 1.0, "e": 1.5}
CANDIDATES = [TuneCandidate(id_, memory_mib=1000 * share) for id_, share in SHARES.items()]


def test_without_estimates_everything_may_fit() -> None:
    unknown = [replace(one, memory_mib=None) for one in CANDIDATES]
    for forecast in (
        memory_forecast(unknown, 1000, {}, []),
        memory_forecast(CANDIDATES, None, {}, ["a"]),
    ):
        assert [forecast.chance(one) for one in CANDIDATES] == [1.0] * 5
        assert not any(forecast.predicted_out(one) for one in CANDIDATES)


def test_nothing_is_left_out_until_three_runs_agree_with_the_estimate() -> None:
    for measured, trusted in (
        ({}, False),
        ({"a": 480, "b": 720}, False),
        ({"a": 480, "b": 720, "c": 750}, True),
        ({"a": 30, "b": 700, "c": 1900}, False),
        ({"a": 50, "b": 72, "c": 74}, True),  # ten times too much, but alike
    ):
        forecast = memory_forecast(CANDIDATES, 1000, measured, [])
        assert forecast.trusted is trusted
    assert not forecast.predicted_out(CANDIDATES[4])  # 0.15 of the device by now
    right = {"a": 500, "b": 700, "c": 750}
    assert memory_forecast(CANDIDATES, 1000, right, []).predicted_out(CANDIDATES[4])


def test_an_out_of_memory_run_teaches() -> None:
    forecast = memory_forecast(CANDIDATES, 1000, {}, ["b"])
    chances = [forecast.chance(one) for one in CANDIDATES]
    assert chances[0] == 1.0
    assert 0.5 > chances[3] > chances[4]


def test_one_beyond_the_line_is_tried_and_no_more() -> None:
    candidates = [
        replace(
            one, memory_mib=2000.0 + at if one.layout and one.layout.micro_batch_size == 4 else 100
        )
        for at, one in enumerate(grid())
    ]
    beyond = [one.id for one in candidates if one.memory_mib and one.memory_mib > 1000]
    times = {one.id: 1 + 0.01 * at for at, one in enumerate(candidates)}

    def runs(id_: str) -> Trap:
        def run(before: int, length: Length, time: float) -> Trial:
            if id_ in beyond:
                return Trial(id_, length, "out_of_memory")
            return Trial(id_, length, "ok", time, 100.0)

        return run

    machine = Machine(times, {id_: runs(id_) for id_ in times})
    search = Search(candidates, device_memory_mib=1000)
    end = machine.finish(search)
    assert [one.candidate for one in machine.trials if one.candidate in beyond] == [beyond[0]]
    assert end.winner not in beyond
    forecasts = search.forecasts(machine.trials)
    assert all(forecasts[id_].predicted_out and not forecasts[id_].gain_percent for id_ in beyond)


def test_one_overflow_that_the_estimate_did_not_expect_ends_its_trust() -> None:
    measured = {"b": 720.0, "c": 750.0, "d": 990.0}
    forecast = memory_forecast(CANDIDATES, 1000, measured, ["a"])
    assert not forecast.trusted
    assert not any(forecast.predicted_out(one) for one in CANDIDATES)


def test_memory_of_a_command_is_learned_from_what_overflowed() -> None:
    candidates = [
        TuneCandidate(f"{batch}{mode}", knobs={"batch": batch, "mode": mode})
        for batch in (1, 2, 4, 8, 16, 32)
        for mode in ("keep", "recompute")
    ]
    # The larger the batch the faster, but without recomputation only 2 fit.
    times = {one.id: 1 / int(str(one.knobs["batch"])) ** 0.3 for one in candidates}

    def overflows(id_: str) -> Trap:
        return lambda before, length, time: Trial(id_, length, "out_of_memory")

    full = [one.id for one in candidates if one.knobs["mode"] == "keep" and times[one.id] < 0.8]
    machine = Machine(times, {id_: overflows(id_) for id_ in full})
    search = Search(candidates)
    assert machine.finish(search).winner == "32recompute"
    forecasts = search.forecasts([Trial("16keep", "short", "out_of_memory")])
    assert forecasts["32keep"].fits < 0.7 < forecasts["1keep"].fits
    assert forecasts["32recompute"].fits == 1.0
