"""What a cell's runs took: joules a token, watts a device, and how warm it was. Pure.

Energy is that of all devices, not of their machines, over the counted steps of a run
(runner/results/sampled.py), over the tokens of these steps; of several runs the median. It is
missing where it is missing of one. The trainer's own (Megatron's `--log-energy`: joules of an
iteration, the mean of all devices) is shown beside it, and replaces it where it is missing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median

from runner.terms.record import Interval, Record, Thermals

LOG = "log"  # the energy_method of what the trainer says itself

NOT_TOLD = "no sample of the counted steps says it"
NEVER_IDLE = "no sample says it of the time in which the nodes waited for each other"
GAP_S = 5.0  # between two samples: more is a gap, over which nothing is assumed
POWER_CAP = "power cap"  # why clocks are lowered on a busy device that nothing ails


@dataclass(frozen=True)
class Power:
    """Of a cell: None is missing, for the reason in `missing`.

    `within_percent` is the ± of what we measured, by when its steps began and ended.
    """

    joules_per_token: float | None = None
    method: str | None = None
    thermals: Thermals = field(default_factory=Thermals)
    missing: str = ""
    log_joules_per_token: float | None = None
    within_percent: float | None = None

    @property
    def reasons(self) -> Mapping[str, str]:
        """Machine column to why it is null, of those that samples tell."""
        heat = self.thermals
        columns: dict[str, tuple[object, str]] = {
            "energy_per_token_j": (self.joules_per_token, self.missing),
            "mean_power_w": (heat.mean_power_w, NOT_TOLD),
            "idle_power_w": (heat.idle_power_w, NEVER_IDLE),
            "temperature_max_c": (heat.temperature_c, NOT_TOLD),
            "sm_clock_min_mhz": (heat.sm_clock_mhz, NOT_TOLD),
            "throttled": (heat.throttled, NOT_TOLD),
        }
        return {column: why for column, (value, why) in columns.items() if value is None}


def cell_power(runs: Sequence[Record], counted: Sequence[Sequence[Interval]]) -> Power:
    """Return what the runs of a cell took, those that count, over the counted lines of each.

    Every None has its reason.
    """
    measured = _measured(runs, counted)
    logged = [_of_log(run, steps) for run, steps in zip(runs, counted, strict=True)]
    measured_values = [joules for joules in logged if joules is not None]
    if not measured_values or len(measured_values) < len(runs):
        return measured
    logged_power = replace(measured, log_joules_per_token=median(measured_values))
    if logged_power.joules_per_token is not None:
        return logged_power
    return replace(
        logged_power, joules_per_token=logged_power.log_joules_per_token, method=LOG, missing=""
    )


def _of_log(run: Record, steps: Sequence[Interval]) -> float | None:
    """Return joules a token by the trainer's own lines; None where not all of them say it."""
    tokens = tokens_of(run, steps)
    joules = [step.energy_j * step.iterations for step in steps if step.energy_j]
    return sum(joules) * run.world_size / tokens if tokens and len(joules) == len(steps) else None


def _measured(runs: Sequence[Record], counted: Sequence[Sequence[Interval]]) -> Power:
    heat = _thermals(run.measurement.thermals for run in runs)
    per_token, methods = [], set()
    for run, steps in zip(runs, counted, strict=True):
        energy = run.measurement.energy
        if energy.joules is None:
            return Power(thermals=heat, missing=energy.missing)
        last_iteration = max((step.iteration for step in steps), default=0)
        samples = samples_between(run, last_iteration - energy.iterations, last_iteration)
        tokens = samples * (run.sample_length or 0)
        if not tokens:
            return Power(thermals=heat, missing="the tokens per step are unknown")
        per_token.append(energy.joules / tokens)
        methods.add(str(energy.method))
    within = max(run.measurement.energy.within_percent for run in runs)
    return Power(median(per_token), "+".join(sorted(methods)), heat, within_percent=within)


def tokens_of(run: Record, steps: Iterable[Interval]) -> int:
    """Count the tokens of these lines, whose batch may grow; 0 where batch or sequence length is
    not known.
    """
    samples = [step.iterations * _batch(run, step) for step in steps]
    return sum(samples) * (run.sample_length or 0) if all(samples) else 0


def samples_between(run: Record, after: int, until: int) -> float:
    """Count the samples of the iterations behind `after` up to `until`; 0 where nobody knows them.

    Iterations without a line have the mean batch of those with one.
    """
    covered, samples = 0, 0
    for step in run.measurement.intervals:
        share = min(step.iteration, until) - max(step.iteration - step.iterations, after)
        if share > 0 and _batch(run, step):
            covered, samples = covered + share, samples + share * _batch(run, step)
    mean = samples / covered if covered else run.global_batch_size or 0
    return (until - after) * mean


def _batch(run: Record, step: Interval) -> int:
    """Return the samples of an iteration of a line: its own, else the run's; 0: nobody knows."""
    return step.global_batch_size or run.global_batch_size or 0


def _thermals(run_thermals: Iterable[Thermals]) -> Thermals:
    runs = list(run_thermals)
    heat = [run.temperature_c for run in runs if run.temperature_c is not None]
    clocks = [run.sm_clock_mhz for run in runs if run.sm_clock_mhz is not None]
    reasons = [run.throttled for run in runs if run.throttled is not None]
    return Thermals(
        mean_power_w=_mean(run.mean_power_w for run in runs),
        idle_power_w=_mean(run.idle_power_w for run in runs),
        temperature_c=max(heat, default=None),
        sm_clock_mhz=min(clocks, default=None),
        throttled=tuple(dict.fromkeys(why for run in reasons for why in run)) if reasons else None,
    )


def _mean(values: Iterable[float | None]) -> float | None:
    measured_values = [value for value in values if value is not None]
    return fmean(measured_values) if measured_values else None
