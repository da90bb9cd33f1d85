"""What devices took in the time that failures lost: samples of all attempts laid over it.

The energy counter tells, also across the gap between two attempts, in which nobody samples; where
it is missing, or was reset, the integral of power does, without gaps of more than GAP_S. Samples
come once a second: so well is known where a lost time begins and ends.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from runner.figures.goodput import lost_times
from runner.figures.power import GAP_S
from runner.folder import names
from runner.folder.attempt import Attempt
from runner.folder.packed import read_part, samples_size
from runner.load.sample_table import CPU, Floats, SampleTable, finite_values, read_table
from runner.load.samples import read_samples
from runner.terms.story import LostEnergy, Story

LEAST_SAMPLED = 0.8  # of the devices' lost time; with less there is no figure
NO_SAMPLES = "no node was sampled"
MOST_TOTAL_BYTES = 256 << 20  # of a run's samples: an hour of 500 devices
TOO_LARGE = f"its samples are more than {MOST_TOTAL_BYTES >> 20} MiB"
NO_POWER = "neither an energy counter nor the power of a device can be read"
Device = tuple[str, str]  # host, and its name there


class SampledAttempt(NamedTuple):
    """When an attempt had its nodes, and the samples of its devices, by bench's clock."""

    began: float
    ended: float
    tables: Mapping[Device, SampleTable]


def lost_energy(attempts: Sequence[Attempt], story: Story) -> LostEnergy | None:
    """Return what the devices took in vain; None of a story without a failure."""
    if not story.faulted or not lost_times(story):
        return None
    if sum(map(_size, attempts)) > MOST_TOTAL_BYTES:
        return LostEnergy(missing=TOO_LARGE)
    by_number = {attempt.number: attempt for attempt in attempts}
    sampled = (
        SampledAttempt(attempt.began, attempt.ended, dict(_tables(by_number[attempt.number])))
        for attempt in story.attempts
        if attempt.number in by_number
    )
    return energy_of(lost_times(story), list(sampled))


def energy_of(
    lost: Sequence[tuple[float, float]], attempts: Sequence[SampledAttempt]
) -> LostEnergy:
    """Add up what all devices took in the lost times. Pure."""
    curves = {device: _curve(tables) for device, tables in _by_device(attempts).items()}
    if not curves:
        return LostEnergy(missing=NO_SAMPLES)
    if not any(len(curve.time) for curve in curves.values()):
        return LostEnergy(missing=NO_POWER)
    expected = sampled = 0.0
    for attempt in attempts:
        for begin, end in lost:
            span = max(begin, attempt.began), min(end, attempt.ended)
            if span[0] < span[1]:
                expected += (span[1] - span[0]) * len(attempt.tables)
                sampled += sum(curves[device].sampled(*span) for device in attempt.tables)
    share = sampled / expected if expected else 0.0
    if share < LEAST_SAMPLED:
        return LostEnergy(
            sampled_percent=100 * share,
            missing=f"samples cover {100 * share:.0f} % of the devices' time that was lost",
        )
    joules = sum(curve.joules(*span) for curve in curves.values() for span in lost)
    total = sum(float(curve.energy[-1]) for curve in curves.values() if len(curve.time))
    return LostEnergy(joules, 100 * joules / total if total else None, 100 * share)


class _Curve(NamedTuple):
    """The joules that a device had taken by each time, and the seconds that are known of it."""

    time: Floats
    energy: Floats
    sampled_s: Floats

    def joules(self, begin: float, end: float) -> float:
        return self._rise(self.energy, begin, end)

    def sampled(self, begin: float, end: float) -> float:
        return self._rise(self.sampled_s, begin, end)

    def _rise(self, values: Floats, begin: float, end: float) -> float:
        if not len(self.time):
            return 0.0
        low, high = np.interp([begin, end], self.time, values)
        return float(high - low)


_NOTHING = _Curve(np.empty(0), np.empty(0), np.empty(0))


def _by_device(attempts: Iterable[SampledAttempt]) -> dict[Device, list[SampleTable]]:
    tables: dict[Device, list[SampleTable]] = {}
    for attempt in attempts:
        for device, table in attempt.tables.items():
            tables.setdefault(device, []).append(table)
    return tables


def _curve(tables: Sequence[SampleTable]) -> _Curve:
    """Put a device's samples of all attempts together."""
    times = np.concatenate([table.time for table in tables])
    order = np.argsort(times, kind="stable")
    counted = np.concatenate([table.energy_j for table in tables])[order]
    watts = np.concatenate([table.power_w for table in tables])[order]
    times = times[order]
    has_counter = ~np.isnan(counted)
    if has_counter.sum() > 1 and (np.diff(counted[has_counter]) >= 0).all():
        at, values = times[has_counter], counted[has_counter]
        return _Curve(at, values - values[0], at - at[0])
    has_power = ~np.isnan(watts)
    if has_power.sum() < 2:
        return _NOTHING
    at, values = times[has_power], watts[has_power]
    apart = np.diff(at)
    is_near = apart <= GAP_S
    areas = np.where(is_near, apart * (values[:-1] + values[1:]) / 2, 0.0)
    return _Curve(at, _sums(areas), _sums(np.where(is_near, apart, 0.0)))


def _sums(steps: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(steps)])


def _tables(attempt: Attempt) -> Iterator[tuple[Device, SampleTable]]:
    """Yield the samples of each device of an attempt, by bench's clock."""
    hosts = attempt.hosts
    for rank, log in attempt.logs().items():
        try:
            data = read_part(log.parent, names.SAMPLES)
        except OSError:
            continue  # this node left none
        table = read_table(data, read_samples)
        if not len(table):
            continue
        had = [str(index) for index in attempt.devices(rank)]
        table = table.of({CPU, *had}) if had else table
        ahead = attempt.clock_ahead_s(rank)
        for name, of_device in table.by_device().items():
            moved = SampleTable(**{**vars(of_device), "time": of_device.time - ahead})
            if len(finite_values(moved.time)):
                yield (hosts.get(rank, str(rank)), name), moved


def _size(attempt: Attempt) -> int:
    return sum(samples_size(log.parent) for log in attempt.logs().values())
