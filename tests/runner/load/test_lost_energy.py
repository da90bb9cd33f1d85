"""Energy that failures lost: synthetic samples of two attempts on two devices."""

from dataclasses import replace

import pytest

from runner.figures.goodput import ENERGY_LOST, goodput, lost_times
from runner.load.lost_energy import NO_POWER, NO_SAMPLES, SampledAttempt, energy_of
from runner.load.sample_table import Sample, tabled
from runner.terms.story import LostEnergy, Story
from tests.runner.figures.test_goodput import KILLED, STORY, WENT_ON

# STORY: iterations 6 and 7 of the first attempt are lost; 5 ended at 110.0, the second attempt's
# first step began at 123.5.
LOST = [(110.0, 123.5)]


def device(begin: float, end: float, watts: float) -> list[Sample]:
    """A sample a second, with the counter of a device that always takes as much."""
    count = round(end - begin) + 1
    return [Sample(begin + n, "0", 90.0, 1.0, watts, watts * (begin + n)) for n in range(count)]


def attempts(
    *, watts: float = 100.0, counter: bool = True, power: bool = True
) -> list[SampledAttempt]:
    parts = []
    for began, ended in ((100.0, 115.5), (118.5, 140.0)):
        tables = {}
        for host in ("n1", "n2"):
            samples = [
                replace(
                    sample,
                    energy_j=sample.energy_j if counter else None,
                    power_w=watts if power else None,
                )
                for sample in device(began, ended - 0.5, watts)
            ]
            tables[host, "0"] = tabled(samples)
        parts.append(SampledAttempt(began, ended, tables))
    return parts


def test_time_is_lost_from_the_last_step_that_counted_to_the_next_one() -> None:
    assert lost_times(STORY) == LOST
    assert lost_times(replace(STORY, attempts=(WENT_ON,))) == []
    never = replace(KILLED, sessions=())
    assert lost_times(Story("restart", (never, WENT_ON))) == [(100.0, 118.5)]
    assert lost_times(Story("restart", (KILLED, replace(never, ended=130.0)))) == [(112.0, 130.0)]


def test_a_counter_tells_across_the_gap_between_two_attempts() -> None:
    found = energy_of(LOST, attempts())
    assert found.joules == pytest.approx(2 * 100 * 13.5)
    assert found.percent == pytest.approx(100 * 13.5 / 39.5)
    assert found.sampled_percent == pytest.approx(100)


def test_power_is_integrated_where_there_is_no_counter() -> None:
    found = energy_of(LOST, attempts(counter=False))
    assert found.joules == pytest.approx(2 * 100 * 13.5)  # the gap is 3.5 s, less than GAP_S
    late = [attempts(counter=False)[0]]
    for part in attempts(counter=False)[1:]:
        tables = {name: replace(t, time=t.time + 10) for name, t in part.tables.items()}
        late.append(SampledAttempt(part.began + 10, part.ended + 10, tables))
    found = energy_of([(110.0, 133.5)], late)
    assert found.joules == pytest.approx(2 * 100 * (5 + 5))  # nothing is assumed of the gap


def test_a_counter_that_was_reset_is_left_for_the_power() -> None:
    first, second = attempts()
    tables = {name: replace(t, energy_j=t.energy_j - 11_000) for name, t in second.tables.items()}
    found = energy_of(LOST, [first, second._replace(tables=tables)])
    assert found.joules == pytest.approx(2 * 100 * 13.5)


def test_without_power_there_is_no_result_and_a_reason() -> None:
    assert energy_of(LOST, attempts(counter=False, power=False)).missing == NO_POWER
    assert energy_of(LOST, []).missing == NO_SAMPLES
    first, second = attempts()
    tables = {name: t.where(t.time < 108) for name, t in first.tables.items()}
    found = energy_of(LOST, [first._replace(tables=tables), second._replace(tables={})])
    assert found.joules is None
    assert found.missing == "samples cover 0 % of the devices' time that was lost"


def test_a_cell_has_the_mean_of_its_runs_or_why_there_is_none() -> None:
    runs = [replace(STORY, lost_energy=LostEnergy(joules, 20.0, 100.0)) for joules in (90.0, 110.0)]
    found = goodput(runs)
    assert found is not None
    assert found.energy_lost_j is not None
    assert found.energy_lost_j.value == 100.0
    assert found.energy_lost_percent == 20.0
    untold = goodput([*runs, replace(STORY, lost_energy=LostEnergy(missing=NO_POWER))])
    assert untold is not None
    assert untold.energy_lost_j is None
    assert untold.missing[ENERGY_LOST] == NO_POWER
    whole = goodput([replace(STORY, attempts=(WENT_ON,))])
    assert whole is not None
    assert whole.missing[ENERGY_LOST] == "no time was lost to a failure"
