"""What a cell's runs took: joules a token, watts a device, and how warm it was. Pure.

Energy is that of all devices, not of their machines, over the counted steps of a run
(runner/results/sampled.py), over the tokens of these steps; of several runs the median. It is
missing where it is missing of one. The trainer's own (Megatron's `--log-energy`: joules of an
iteration, the mean of all devices) is shown beside it, and replaces it where it is missing.
"""

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, median
from typing import Any

from runner.terms.record import Interval, Record

NO_STEP = "no training step was logged"
LOG = "log"  # the energy_method of what the trainer says itself
NOT_TOLD = "no sample of the counted steps says it"
NEVER_IDLE = "no sample says it of the time in which the nodes waited for each other"
GAP_S = 5.0  # between two samples: more is a gap, over which nothing is assumed
POWER_CAP = "power cap"  # why clocks are lowered on a busy device that nothing ails


def power_figures(
    runs: Sequence[Record], counted: Sequence[Sequence[Interval]]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what the runs of a cell took, those that count, over the counted lines of each, by the
    key of its column; and why what is None is missing.
    """
    measured = [run.measurement for run in runs]
    figures, missing = _measured(runs, counted)
    logged = [_of_log(run, steps) for run, steps in zip(runs, counted, strict=True)]
    told = [joules for joules in logged if joules is not None]
    if told and len(told) == len(runs):
        figures["energy_per_token_log_j"] = median(told)
        if figures["energy_per_token_j"] is None:
            figures |= {"energy_per_token_j": median(told), "energy_method": LOG}
    heat = [each.telemetry for each in measured]
    reasons = [each.throttled for each in heat if each.throttled is not None]
    words = "; ".join(dict.fromkeys(why for run in reasons for why in run)) or "no"
    figures |= {
        "mean_power_w": _of(fmean, [each.mean_power_w for each in heat]),
        "idle_power_w": _of(fmean, [each.idle_power_w for each in heat]),
        "temperature_max_c": _of(max, [each.temperature_c for each in heat]),
        "sm_clock_min_mhz": _of(min, [each.sm_clock_mhz for each in heat]),
        "throttled": words if reasons else None,
    }
    keys = ("mean_power_w", "idle_power_w", "temperature_max_c", "sm_clock_min_mhz", "throttled")
    why = {**dict.fromkeys(keys, NOT_TOLD), "idle_power_w": NEVER_IDLE}
    return figures, {"energy_per_token_j": missing, **why}


def _of(sum_up: Callable[[list[float]], float], values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum_up(known) if known else None


def _of_log(run: Record, steps: Sequence[Interval]) -> float | None:
    """Return joules a token by the trainer's own lines; None where not all of them say it."""
    tokens = tokens_of(run, steps)
    joules = [step.energy_j * step.iterations for step in steps if step.energy_j]
    return sum(joules) * run.world_size / tokens if tokens and len(joules) == len(steps) else None


def _measured(
    runs: Sequence[Record], counted: Sequence[Sequence[Interval]]
) -> tuple[dict[str, Any], str]:
    """Return the energy that samples tell, and why there is none."""
    keys = ("energy_per_token_j", "energy_method", "energy_within_percent")
    nothing = dict.fromkeys((*keys, "energy_per_token_log_j"))
    per_token, methods = [], set()
    for run, steps in zip(runs, counted, strict=True):
        energy = run.measurement.energy
        if energy.joules is None:
            return nothing, energy.missing
        last_iteration = max((step.iteration for step in steps), default=0)
        samples = samples_between(run, last_iteration - energy.iterations, last_iteration)
        if not (tokens := samples * (run.sample_length or 0)):
            return nothing, "the tokens per step are unknown"
        per_token.append(energy.joules / tokens)
        methods.add(str(energy.method))
    if not per_token:
        return nothing, NO_STEP
    within = max(run.measurement.energy.within_percent for run in runs)
    told = (median(per_token), "+".join(sorted(methods)), within)
    return {**nothing, **dict(zip(keys, told, strict=True))}, ""


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
