"""What a cell's runs took: joules a token, watts a device, and how warm it was. Pure.

Energy is that of all devices over the counted steps of a run (runner/load/energy.py), over the
tokens of these steps; of several runs the median. It is missing where it is missing of one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from runner.terms.record import Record, Thermals

GAP_S = 5.0  # between two samples: more is a gap, over which nothing is assumed
POWER_CAP = "power cap"  # why clocks are lowered on a busy device that nothing ails


@dataclass(frozen=True)
class Power:
    """Of a cell: None is missing, for the reason in `missing`."""

    joules_per_token: float | None = None
    method: str | None = None
    thermals: Thermals = field(default_factory=Thermals)
    missing: str = ""

    @property
    def tokens_per_joule(self) -> float | None:
        """The other way round."""
        return 1 / self.joules_per_token if self.joules_per_token else None


def cell_power(runs: Sequence[Record]) -> Power:
    """Return what the runs of a cell took, those that count. Every None has its reason."""
    heat = _thermals(run.measurement.thermals for run in runs)
    per_token, methods = [], set()
    for run in runs:
        energy = run.measurement.energy
        if energy.joules is None:
            return Power(thermals=heat, missing=energy.missing)
        tokens = energy.iterations * tokens_of_step(run)
        if not tokens:
            return Power(thermals=heat, missing="how many tokens a step has is not known")
        per_token.append(energy.joules / tokens)
        methods.add(str(energy.method))
    return Power(median(per_token), "+".join(sorted(methods)), heat)


def tokens_of_step(record: Record) -> int:
    """Count the tokens of an iteration; 0 where batch or sequence length is not known."""
    return record.model.seq_length * (record.global_batch_size or 0) if record.model else 0


def _thermals(each: Iterable[Thermals]) -> Thermals:
    runs = list(each)
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
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
