"""How far a run is, from what has come back of it so far: for the live view and `status`."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from node.files import open_plain
from node.supervisor.own_disk import looked_at
from runner.base.text import tail
from runner.figures.cell_statistics import cell_statistics
from runner.folder import names
from runner.folder.attempt import Attempt
from runner.logs.latest import TAILS, latest
from runner.results.arrivals import by_arrivals
from runner.results.judge import measure_run
from runner.results.sample_table import CPU, read_samples
from runner.systems.common.registry import load_system
from runner.terms.cell import Cell
from runner.terms.record import Interval, Measurement, Record

_HEAD, _END = 4096, 1 << 15  # bytes of samples: the header, and some seconds of any node


@dataclass(frozen=True)
class Now:
    """The newest step; what the fullest device has in use, and the largest process by the log of
    a CPU, in MiB; seconds to the last iteration; tokens/s; W of all devices. None is not known.
    """

    step: Interval | None = None
    memory_used_mib: float | None = None
    memory_rss_mib: float | None = None
    left_s: float | None = None
    tokens_per_s: float | None = None
    power_w: float | None = None


@dataclass(frozen=True)
class DeviceUse:
    """A node's devices at their newest samples: MiB on the fullest one, W of all of them."""

    memory_used_mib: float | None = None
    power_w: float | None = None


def now_of(cell: Cell, attempt: Attempt, wanted: int | None) -> Now:
    """Say how far a run of `wanted` iterations is; nothing is known where reading it fails."""
    try:
        return _now_of(cell, attempt, wanted)
    except Exception:  # whatever lies there: its outcome says why, and this is one look of many
        return Now()


def _now_of(cell: Cell, attempt: Attempt, wanted: int | None) -> Now:
    all_logs = attempt.logs()
    logs = some_of(all_logs)
    sampled = [
        device_use(_newest_samples(log), attempt.devices(rank)) for rank, log in logs.items()
    ]
    used = max((u for device in sampled if (u := device.memory_used_mib) is not None), default=None)
    power = [device.power_w for device in sampled]
    power_w = None if not power or None in power else sum(filter(None, power))
    if power_w is not None:
        power_w *= len(all_logs) / len(logs)  # of many nodes as much as those looked at
    system = load_system(cell.system)
    measured = latest(lambda ends: system.parse(ends, cell), logs)
    if measured is None:
        return Now(memory_used_mib=used, power_w=power_w)
    step = measured.intervals[-1]
    if sum(log.stat().st_size for log in logs.values() if log.exists()) < TAILS[-1]:
        rate = speed_of(cell, attempt, measure_run(cell, all_logs))
        step = replace(step, samples_per_s=rate or step.samples_per_s)
    remaining_s = None
    wanted = wanted or measured.iterations_of(cell.parameters)
    if wanted and step.step_time_ms:
        remaining_s = max(wanted - step.iteration, 0) * step.step_time_ms / 1000
    in_log = measured.memory_used_mib
    tokens, length = step.tokens_per_s, system.tokens_per_sample(cell)
    if tokens is None and length is not None and step.samples_per_s is not None:
        tokens = step.samples_per_s * length
    used = in_log if used is None else used
    return Now(step, used, measured.memory_rss_mib, remaining_s, tokens, power_w)


def speed_of(cell: Cell, attempt: Attempt, measured: Measurement) -> float | None:
    """Return a run's samples/s so far, as the table has it; None where none is known."""
    run = attempt.run
    record = Record("", "", "", cell.system, "ok", "", measurement=measured, profile=cell.profile)
    batch = load_system(cell.system).batch_size(cell)
    warmup = run.warmup_iters if run else None
    record = replace(record, warmup_iters=warmup, global_batch_size=batch)
    record = by_arrivals(record, attempt.logs())
    rate = cell_statistics([record]).samples_per_s
    return rate.value if rate else None


def some_of(logs: Mapping[int, Path]) -> dict[int, Path]:
    """Return the logs that one look reads: all, or of many nodes the first, the last, and others
    between them at equal distances. Trainers log on the first or the last.
    """
    ranks = sorted(logs)
    return {ranks[number]: logs[ranks[number]] for number in looked_at(len(ranks))}


def _newest_samples(log: Path) -> Path:
    """Return where a node's newest samples are: its own disk has the others, as the case may be."""
    newest = log.with_name(names.SAMPLES_NOW)
    return newest if newest.exists() else log.with_name(names.SAMPLES)


def device_use(samples: Path, devices: Sequence[int]) -> DeviceUse:
    """Read the newest sample of each of a node's `devices` (none: all)."""
    try:
        with open_plain(samples) as stream:
            head = stream.read(_HEAD).splitlines()[:1]
    except OSError:
        return DeviceUse()
    table = read_samples(b"\n".join([*head, *tail(samples, _END).splitlines()[1:], b""]))
    of_run = table[table["device"] != CPU]
    if devices:
        of_run = of_run[of_run["device"].isin([*map(str, devices)])]
    newest = of_run.sort_values("time").groupby("device", observed=True).tail(1)
    used, power = newest["memory_used_mib"].dropna(), newest["power_w"]
    complete = len(power) and power.notna().all()
    return DeviceUse(
        float(used.max()) if len(used) else None, float(power.sum()) if complete else None
    )


def left_s(
    times: Sequence[float],
    waiting: int,
    now: Sequence[tuple[float | None, float]],
    *,
    at_once: int = 1,
) -> float | None:
    """Estimate the seconds to a campaign's end: what the running runs say, and the usual time of
    the `waiting`, where `at_once` go on side by side.

    `now` has the seconds that are left of each running run, where it says so, and those that it
    took. `times` are those of runs that ended; without one, running runs are taken for usual ones.
    """
    expected_totals_s = [left + elapsed_s for left, elapsed_s in now if left is not None]
    if not now or not (times or expected_totals_s):
        return None
    usual = statistics.median(times or expected_totals_s)
    remaining_times_s = [max(usual - took_s, 0.0) if left is None else left for left, took_s in now]
    return usual * waiting / max(at_once, 1) + statistics.fmean(remaining_times_s)
