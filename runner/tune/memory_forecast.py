"""Will a candidate fit into a device's memory? Estimates, corrected by what was measured. Pure."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

from runner.tune.candidates import TuneCandidate
from runner.tune.step_time import Floats

SURE_SHARE = 0.8  # of a device: below, a candidate fits for sure
OUT_SHARE = 1.1  # above, it is left out, once the estimate is trusted
CLOSE = 0.2  # a corrected estimate this near the measurement is a good one
GOOD_RUNS = 3  # that make an estimate trusted
_UNCERTAIN = {True: 0.12, False: 0.7}  # standard deviation of the share's logarithm, by trust
_EVEN = NormalDist()


@dataclass(frozen=True)
class MemoryForecast:
    """Corrected estimates: each candidate's share of a device, and whether they are trusted."""

    shares: Mapping[str, float]  # by candidate's id; without an estimate there is no entry
    trusted: bool
    chances: Mapping[str, float]  # that it fits, of candidates without an estimate

    def chance(self, candidate: TuneCandidate) -> float:
        """Return the probability that it fits, 0 to 1; 1 where nothing is known."""
        share = self.shares.get(candidate.id)
        if share is None:
            return self.chances.get(candidate.id, 1.0)
        if share <= SURE_SHARE:
            return 1.0
        return _EVEN.cdf(-math.log(share) / _UNCERTAIN[self.trusted])

    def predicted_out(self, candidate: TuneCandidate) -> bool:
        """Say whether it is left out: beyond the line by an estimate that is trusted."""
        return self.trusted and self.shares.get(candidate.id, 0.0) > OUT_SHARE


def memory_forecast(
    candidates: Sequence[TuneCandidate],
    device_mib: float | None,
    measured: Mapping[str, float],
    overflowed: Collection[str],
    ran: Collection[str] = (),
    alike: Floats | None = None,
) -> MemoryForecast:
    """Correct the estimates by `measured` (MiB, by candidate's id) and by those that `overflowed`.

    All estimates are multiplied by the median ratio of measurement to estimate, then as far as
    needed that what overflowed is beyond the device. Candidates without an estimate are judged by
    those that overflowed and those that `ran`, as far as they are `alike` (candidates x
    candidates, 0 to 1).
    """
    chances = _by_neighbours(candidates, overflowed, ran, alike)
    estimates = {
        candidate.id: candidate.memory_mib for candidate in candidates if candidate.memory_mib
    }
    if not device_mib or not estimates:
        return MemoryForecast({}, False, chances)
    ratios = [mib / estimates[id_] for id_, mib in measured.items() if id_ in estimates and mib > 0]
    factor = median(ratios) if ratios else 1.0
    good = sum(abs(ratio / factor - 1) <= CLOSE for ratio in ratios)
    needed = [device_mib / estimates[id_] for id_ in overflowed if id_ in estimates]
    trusted = good >= GOOD_RUNS and good >= len(ratios) - good
    trusted = trusted and max([0.0, *needed]) <= factor * (1 + CLOSE)
    factor = max([factor, *needed])
    shares = {id_: factor * mib / device_mib for id_, mib in estimates.items()}
    return MemoryForecast(shares, trusted, chances)


def _by_neighbours(
    candidates: Sequence[TuneCandidate],
    overflowed: Collection[str],
    ran: Collection[str],
    alike: Floats | None,
) -> dict[str, float]:
    """Return each candidate's chance: one vote that it fits, and those of its neighbours."""
    if not overflowed or alike is None:
        return {}
    fit = 1 + alike @ [
        float(candidate.id in ran and candidate.id not in overflowed) for candidate in candidates
    ]
    full = alike @ [float(candidate.id in overflowed) for candidate in candidates]
    return dict(
        zip((candidate.id for candidate in candidates), (fit / (fit + full)).tolist(), strict=True)
    )
