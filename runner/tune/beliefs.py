"""What is believed of each candidate's step time: one normal distribution over all logarithms.

The prior is a Gaussian process (Rasmussen and Williams 2006, chapter 2) whose mean is the analytic
model at its fitted coefficients, and whose covariance is the sum of
- the coefficients' own uncertainty, through the model's derivatives;
- an uncertain scale of the machine;
- what the model does not know, alike for layouts that are alike (squared exponential over the
  logarithms of sizes), and what is each model's or each layout's own;
- an effect of each value of a knob.
Earlier measurements of the machine are rows like all others. Nothing is drawn: the same rows give
the same numbers.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from runner.terms.layout import Layout
from runner.tune.candidates import Knob, MachineRates, TuneCandidate
from runner.tune.step_time import (
    COEFFICIENTS,
    PRIOR_MEAN,
    PRIOR_SPREAD,
    Floats,
    components,
    fit,
    log_times,
)

Rows = NDArray[np.intp]

# Standard deviations of the logarithm of a time: what the formulas miss of all models,
SHARED_ERROR = 0.12
OWN_ERROR = 0.08  # of one model beyond that, until earlier measurements of two models show it,
OWN_ERROR_RANGE = (0.05, 0.2)  # which count within these limits,
UNLIKE_ERROR = 0.12  # and where no earlier model tells how well others predict it
OWN_LAYOUT = 0.5  # the share of its variance that is each layout's own
OWN_SHIFT = 0.1  # how far each coefficient is from that of earlier measurements
KNOB_EFFECT = 0.2  # of one knob without a formula
SCALE = {True: 0.3, False: 3.0}  # of the whole machine, by MachineRates.measured
UNKNOWN_SCALE = 10.0  # of what is no time, or has no layout
NOISE = 0.01  # of an earlier measurement
PRIOR_RUNS = 8  # measurements that the widths above count as, beside those of a search
LEAST_WIDTH = 0.5  # of the variances above, however well a search is predicted
OCTAVES = 1.2  # the length scale of sizes, in factors of two; of a model's shape
SHAPE_OCTAVES = 2.4
_SIZES = (
    "micro_batch_size",
    "tensor_parallel",
    "data_parallel",
    "pipeline_parallel",
    "context_parallel",
    "virtual_stages",
)
_SHAPE = ("hidden", "layers", "sequence_length")
_WORDS = ("zero_stage", "recompute", "sequence_parallel", "fused_attention", "value_bytes")


@dataclass(frozen=True)
class Belief:
    """A normal distribution over the logarithms of step times in s, one per candidate."""

    mean: Floats
    covariance: Floats

    @cached_property
    def spread(self) -> Floats:
        """Standard deviations."""
        return np.asarray(np.sqrt(np.maximum(np.diag(self.covariance), 1e-12)), float)

    def given(self, rows: Rows, logs: Floats, variances: Floats) -> "Belief":
        """Return the belief after the candidates of `rows` were measured with such errors.

        The width follows how well the measurements were predicted (a Student-t process: Shah et al.
        2014, arXiv:1402.4306).
        """
        if not len(rows):
            return self
        across, missed = self.covariance[rows], logs - self.mean[rows]
        among = across[:, rows] + np.diag(variances)
        gain = np.linalg.solve(among, across).T
        surprise = float(missed @ np.linalg.solve(among, missed))
        width = max((PRIOR_RUNS + surprise) / (PRIOR_RUNS + len(rows)), LEAST_WIDTH)
        return Belief(self.mean + gain @ missed, width * (self.covariance - gain @ across))

    def with_fixed(self, rows: Rows, logs: Floats, variances: Floats) -> "Belief":
        """Return the belief with some candidates as measured, which tell nothing of others."""
        mean, covariance = self.mean.copy(), self.covariance.copy()
        mean[rows] = logs
        covariance[rows, :] = covariance[:, rows] = 0.0
        covariance[rows, rows] = variances
        return Belief(mean, covariance)

    def without_itself(self, rows: Rows, logs: Floats, variances: Floats) -> tuple[Floats, Floats]:
        """Return what the other measurements of `rows` say of each: means, standard deviations.

        The standard deviation is that of a measurement, its own error included.
        """
        inverse = np.linalg.inv(self.covariance[np.ix_(rows, rows)] + np.diag(variances))
        precisions = np.diag(inverse)
        return logs - inverse @ (logs - self.mean[rows]) / precisions, 1 / np.sqrt(precisions)


@dataclass(frozen=True)
class Earlier:
    """A layout that was measured before this search on the same kind of machine."""

    layout: Layout
    step_s: float


@dataclass(frozen=True)
class Knowledge:
    """What is known before a search begins: the machine's rates, and earlier measurements.

    `of_time` False: what is measured is not a time (J per token, say), so its scale is unknown.
    """

    rates: MachineRates = field(default_factory=MachineRates)
    earlier: tuple[Earlier, ...] = ()
    of_time: bool = True

    def over(self, candidates: Sequence[TuneCandidate]) -> Belief:
        """Return the belief over candidates before any of them has run."""
        layouts = [candidate.layout for candidate in candidates if candidate.layout is not None]
        all_known = len(layouts) == len(candidates)
        rows = _Layouts(layouts if all_known else [], self.rates)
        covariance = _effects(candidates)
        mean = -np.log(np.array([candidate.work for candidate in candidates], float))
        if not (all_known and self.of_time):
            covariance += UNKNOWN_SCALE**2
        if not all_known:
            return Belief(mean, covariance)
        mean += rows.prior_means(self._fitted)
        covariance += self._shared(rows, rows)
        if self.earlier:
            across = self._shared(self._rows, rows)
            mean += across.T @ (self._inverse @ self._missed)
            covariance -= across.T @ self._inverse @ across
        slopes, own_variance = rows.slopes(self._fitted), self.own_error(layouts) ** 2
        covariance += OWN_SHIFT**2 * slopes @ slopes.T
        covariance += own_variance * (1 - OWN_LAYOUT) * rows.alike(rows)
        return Belief(mean, covariance + own_variance * OWN_LAYOUT * np.eye(len(mean)))

    def own_error(self, layouts: Sequence[Layout]) -> float:
        """Return how far these layouts' model is from what other models let expect.

        A standard deviation of the logarithm of the time. Each earlier model is predicted from the
        others; where no earlier model is as wide as these layouts, all of one width are left out.
        """
        widths = {item.layout.hidden for item in self.earlier}
        as_wide = all(item.hidden in widths for item in layouts)
        return self._left_out[_SHAPE if as_wide else ("hidden",)]

    @cached_property
    def _left_out(self) -> Mapping[tuple[str, ...], float]:
        """The errors of predictions from others, by what the others do not have in common."""
        return {names: self._error_of(names) for names in (_SHAPE, ("hidden",))}

    def _error_of(self, names: tuple[str, ...]) -> float:
        kinds = [
            tuple(getattr(measurement.layout, name) for name in names)
            for measurement in self.earlier
        ]
        if len(set(kinds)) < 2:
            return UNLIKE_ERROR if kinds else OWN_ERROR
        inverse, squares = self._inverse_with((2 * NOISE) ** 2), 0.0
        weights = inverse @ self._missed
        for kind in sorted(set(kinds)):
            rows = [at for at, other_kind in enumerate(kinds) if other_kind == kind]
            missed = np.linalg.solve(inverse[np.ix_(rows, rows)], weights[rows])
            squares += float(missed.var()) * len(rows)
        return float(np.clip(math.sqrt(squares / len(kinds)), *OWN_ERROR_RANGE))

    @cached_property
    def _rows(self) -> "_Layouts":
        return _Layouts([measurement.layout for measurement in self.earlier], self.rates)

    @cached_property
    def _logs(self) -> Floats:
        return np.asarray(np.log([measurement.step_s for measurement in self.earlier]), float)

    @cached_property
    def _fitted(self) -> Floats:
        return fit(self._rows.parts, self._logs)

    @cached_property
    def _missed(self) -> Floats:
        return self._logs - self._rows.prior_means(self._fitted)

    @cached_property
    def _inverse(self) -> Floats:
        return self._inverse_with(NOISE**2 + OWN_LAYOUT * self._left_out[_SHAPE] ** 2)

    def _inverse_with(self, variance: float) -> Floats:
        """Return the inverse of the covariance of the earlier measurements."""
        among = self._shared(self._rows, self._rows) + variance * np.eye(len(self.earlier))
        return np.asarray(np.linalg.inv(among), float)

    def _shared(self, rows: "_Layouts", columns: "_Layouts") -> Floats:
        """Covariance of what all models have in common."""
        shared = (rows.slopes(self._fitted) * PRIOR_SPREAD**2) @ columns.slopes(self._fitted).T
        return shared + SHARED_ERROR**2 * rows.alike(columns) + SCALE[self.rates.measured] ** 2


class _Layouts:
    """Layouts as matrices, a row each."""

    def __init__(self, layouts: Sequence[Layout], rates: MachineRates) -> None:
        self.parts = components(layouts, rates).reshape(len(layouts), len(COEFFICIENTS))
        scales = [
            *((name, OCTAVES) for name in _SIZES),
            *((name, SHAPE_OCTAVES) for name in _SHAPE),
        ]
        self.sizes = np.array(
            [
                [math.log2(getattr(layout, name)) / scale for name, scale in scales]
                for layout in layouts
            ]
        ).reshape(len(layouts), len(scales))

    def slopes(self, logs: Floats) -> Floats:
        """Return the derivatives of the logarithms of the times by those of the coefficients."""
        return log_times(self.parts, logs)[1]

    def prior_means(self, logs: Floats) -> Floats:
        """Return the means at the prior's coefficients of the model linearised at `logs`."""
        times, slopes = log_times(self.parts, logs)
        return times + slopes @ (PRIOR_MEAN - logs)

    def alike(self, layouts: "_Layouts") -> Floats:
        """Return how alike the layouts of two sets are: 1 for the same, 0 for far ones."""
        squares = (self.sizes**2).sum(1)[:, None] + (layouts.sizes**2).sum(1)
        apart = np.maximum(squares - 2 * self.sizes @ layouts.sizes.T, 0)
        return np.asarray(np.exp(-apart / 2), float)


def alike(candidates: Sequence[TuneCandidate]) -> Floats:
    """Return how alike each two candidates are in all knobs and sizes: 1 the same, 0 far apart."""
    likeness = np.ones((len(candidates), len(candidates)))
    for knob_likeness in _knobs(candidates, (*_WORDS, *_SIZES)):
        likeness *= knob_likeness
    return likeness


def _effects(candidates: Sequence[TuneCandidate]) -> Floats:
    """Return the covariance of the knobs' effects, and of what they do together."""
    total = np.zeros((len(candidates), len(candidates)))
    together = np.ones_like(total)
    for likeness in _knobs(candidates, _WORDS):
        total += KNOB_EFFECT**2 * likeness
        together *= likeness
    return total + OWN_ERROR**2 * together


def _knobs(candidates: Sequence[TuneCandidate], names: Sequence[str]) -> Iterator[Floats]:
    """Yield how alike candidates are in each knob, and in fields of their layouts, if all have."""
    if all(candidate.layout is not None for candidate in candidates):
        for name in names:
            yield _likeness([getattr(candidate.layout, name) for candidate in candidates])
    for name in sorted({name for candidate in candidates for name in candidate.knobs}):
        yield _likeness([candidate.knobs.get(name) for candidate in candidates])


def _likeness(values: Sequence[Knob]) -> Floats:
    """Return how alike the values of one knob are, pair by pair."""
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) == len(values) and min(numbers) > 0:
        points = np.log2(np.array(numbers, float)) / OCTAVES
        return np.asarray(np.exp(-((points[:, None] - points) ** 2) / 2), float)
    codes = np.unique([repr(value) for value in values], return_inverse=True)[1]
    return np.asarray(codes[:, None] == codes, float)
