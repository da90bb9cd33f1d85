"""A row of the comparison table: one cell, from the records of its repeats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from runner.expect.expectation import Expectation
from runner.figures import devices as catalogue
from runner.figures.between_runs import RateDifference
from runner.figures.cell_statistics import CellStatistics, runs_that_count
from runner.figures.flops import causal_share, tflop_per_s_per_device, vocabulary
from runner.figures.goodput import Goodput
from runner.figures.parity import Parity
from runner.figures.power import Power
from runner.figures.resumed import Resumed
from runner.figures.target import Alike, TimeToTarget
from runner.matrix.published import PublishedRow
from runner.terms.architecture import Formula
from runner.terms.record import NOT_ENDED, Reached, Record, Utilisation

NO_ARCHITECTURE = "the system does not say the architecture of its model"
NO_LENGTH = "nothing says the tokens of a sample"


@dataclass(frozen=True)
class Difference:
    """A row's value minus its baseline's, in the value's unit, and as percent of the baseline.

    `rate` says how sure the percentage of a rate is; None of what has no noise that is known.
    """

    absolute: float
    percent: float
    rate: RateDifference | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the percentage, or None."""
        return self.rate.interval if self.rate else None

    @property
    def half(self) -> float:
        """The larger half of the interval, which is printed as `± half`; 0 without one."""
        return self.rate.half if self.rate else 0.0

    @property
    def real(self) -> bool:
        """Whether the interval leaves 0 out, and so does `percent ± half`, which people read."""
        return self.rate is not None and self.rate.real and abs(self.percent) > self.half


@dataclass(frozen=True)
class BaselineComparison:
    """A row against `base`, the one row with the same other axes and AXIS=VALUE.

    `note` says why there is no such row or no difference, or what to mind about it. `parity` is
    whether the two learn the same, `learning` whether they need as much to a target loss; None
    for the baseline itself, and without one.
    """

    axis: str
    value: str
    base: Row | None = None
    is_baseline: bool = False
    differences: Mapping[str, Difference] = field(default_factory=dict)
    note: str = ""
    parity: Parity | None = None
    learning: Alike | None = None

    @property
    def cell(self) -> str | None:
        """The name of the baseline's cell."""
        return self.base.cell if self.base else None


@dataclass(frozen=True)
class Scaling:
    """samples/s per device over that of `base_cell`, the series' smallest device count.

    1.0 is perfect scaling. `series` is what all cells of the series have in common.
    """

    efficiency: float
    base_cell: str
    base_devices: int
    series: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Row:
    """One cell; `records` are its repeats. `scaling` has "strong", "weak", both or neither.

    `target` is what it needs to the matrix's target_loss, None where that names none,
    `validation_target` likewise to target_validation_loss.
    `published` are the rows of documents beside the cell, in their order. `verdict` has
    the codes of figures/publishable.py that hold, worst first, to why. `expectation` is what others
    reached on such a device with such a model in such arithmetic, None where nobody published it.
    `device_hour` is what an hour of a device costs, None where nobody said it. `goodput` has what
    failures and checkpoints cost, None where it has none; `resumed` whether it went on as the
    unbroken run.
    """

    records: tuple[Record, ...]
    statistics: CellStatistics
    target: TimeToTarget | None = None
    validation_target: TimeToTarget | None = None
    scaling: Mapping[str, Scaling] = field(default_factory=dict)
    comparison: BaselineComparison | None = None
    published: tuple[PublishedRow, ...] = ()
    verdict: Mapping[str, str] = field(default_factory=dict)
    expectation: Expectation | None = None
    device_hour: float | None = None
    goodput: Goodput | None = None
    resumed: Resumed | None = None

    @property
    def publishable(self) -> bool:
        """Whether nothing speaks against the cell's figures."""
        return not self.verdict

    @property
    def _trouble(self) -> Record | None:
        """The first repeat that is not ok; ended repeats first, then in the order of NOT_ENDED."""
        not_ok = [record for record in self.records if record.status != "ok"]
        waits = {status: rank for rank, status in enumerate(NOT_ENDED, 1)}
        return min(not_ok, key=lambda record: waits.get(record.status, 0), default=None)

    @property
    def record(self) -> Record:
        """The repeat that describes the cell: the first ok one, else the first that ended."""
        ok = next((record for record in self.records if record.status == "ok"), None)
        return ok or self._trouble or self.records[0]

    @property
    def cell(self) -> str:
        """The cell's readable name."""
        return self.record.cell

    @property
    def status(self) -> str:
        """ "ok" when every repeat is, else how the first other one ended."""
        return self._trouble.status if self._trouble else "ok"

    @property
    def hosts(self) -> list[tuple[str, ...]]:
        """The nodes of each of its runs, by rank; those that several had, once."""
        return list(dict.fromkeys(record.hosts for record in self.records if record.hosts))

    @property
    def reason(self) -> str:
        """What ended that repeat; for "ok" empty, or which part of a log was not fetched."""
        trouble = self._trouble
        if trouble and trouble.status == "pending" and self.finished:
            waiting = sum(record.status == "pending" for record in self.records)
            return f"{len(self.records) - waiting} of {len(self.records)} repeats done"
        if trouble:
            return trouble.reason
        return next((record.reason for record in self.records if record.reason), "")

    @property
    def finished(self) -> bool:
        """The numbers are those of runs that ended ok."""
        return self.statistics.basis == "ok"

    @property
    def faulted(self) -> bool:
        """Whether a run had a fault or went on after a failure: samples/s is of its last part."""
        return any(record.story is not None and record.story.faulted for record in self.records)

    @property
    def axes(self) -> Mapping[str, Any]:
        """The cell's axes; `system` is always one."""
        return {"system": self.record.system, **self.record.axes}

    def value(self, axis: str) -> Any:
        """Return the row's value of an axis: of the cell's axes, else of its resolved
        parameters.
        """
        if axis in self.axes:
            return self.axes[axis]
        for values in (self.record.parameters, self.record.parallel):
            if axis in values:
                return values[axis]
        return getattr(self.record, axis, None)

    @property
    def samples_per_s(self) -> float | None:
        """Samples/s of the whole job: samples over the time of the counted steps."""
        rate = self.statistics.samples_per_s
        return None if rate is None else rate.value

    @property
    def samples_per_s_per_device(self) -> float | None:
        """Samples/s of one device."""
        rate, devices = self.samples_per_s, self.record.world_size
        return None if rate is None or devices <= 0 else rate / devices

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens/s of the whole job: samples/s times the sequence length."""
        length, rate = self.record.sample_length, self.samples_per_s
        return None if length is None or rate is None else rate * length

    @property
    def model_tflop_per_s_per_device(self) -> float | None:
        """TFLOP/s that the training needs, whatever is computed again."""
        return self._tflops(recompute=False)

    @property
    def hardware_tflop_per_s_per_device(self) -> float | None:
        """TFLOP/s with what is computed again, where activations are checkpointed."""
        recompute = self.record.activation_checkpointing
        return None if recompute is None else self._tflops(recompute=recompute)

    @property
    def causal_share(self) -> float | None:
        """Model FLOPs with half of the attention, over those with all of it."""
        model, vocabulary = self.record.model, self.vocabulary
        return None if model is None or vocabulary is None else causal_share(model, vocabulary[0])

    @property
    def causal_tflop_per_s_per_device(self) -> float | None:
        """TFLOP/s that the training needs with half of the attention, for the causal mask."""
        rate, share = self.model_tflop_per_s_per_device, self.causal_share
        return None if rate is None or share is None else rate * share

    def _tflops(self, *, recompute: bool) -> float | None:
        rate, devices, size_and_kind = self.samples_per_s, self.record.world_size, self.vocabulary
        if self.record.model is None or rate is None or size_and_kind is None:
            return None
        return tflop_per_s_per_device(
            self.record.model,
            rate,
            devices,
            recompute=recompute,
            padded_vocab_size=size_and_kind[0],
        )

    @property
    def vocabulary(self) -> tuple[int, str] | None:
        """The vocabulary in the FLOP formula, "padded" or "unpadded"; None without TFLOP/s."""
        if self.record.model is None or self.samples_per_s_per_device is None:
            return None
        return vocabulary(self.record.model, self.record.measurement)

    @property
    def formula(self) -> Formula | None:
        """How FLOPs were counted; None without TFLOP/s."""
        model = self.record.model
        return None if model is None or self.vocabulary is None else model.formula

    @property
    def tokens_per_s_per_device(self) -> float | None:
        """Tokens/s of one device."""
        rate, devices = self.tokens_per_s, self.record.world_size
        return None if rate is None or devices <= 0 else rate / devices

    @property
    def device(self) -> str:
        """The devices' name, where all nodes have the same; else empty."""
        return self.record.device

    @property
    def arithmetic(self) -> str | None:
        """What matrices are multiplied in: bf16, fp16, tf32 or fp32."""
        return self.record.arithmetic

    @property
    def peak(self) -> tuple[float | None, str]:
        """The dense peak of the device in its arithmetic, TFLOP/s, and where it is from, or why
        it is not known.
        """
        return catalogue.peak(self.device, self.arithmetic)

    @property
    def peak_tflop_per_s(self) -> float | None:
        """The device's dense peak in that arithmetic, by its data sheet."""
        return self.peak[0]

    @property
    def peak_source(self) -> str | None:
        """The data sheet."""
        peak, source = self.peak
        return None if peak is None else source

    @property
    def mfu_percent(self) -> float | None:
        """Model FLOPs utilisation: what the training needs, of the device's peak."""
        return self._of_peak(self.model_tflop_per_s_per_device)

    @property
    def hfu_percent(self) -> float | None:
        """Hardware FLOPs utilisation: with what is computed again, of the device's peak."""
        return self._of_peak(self.hardware_tflop_per_s_per_device)

    @property
    def causal_mfu_percent(self) -> float | None:
        """Model FLOPs utilisation with half of the attention, of the device's peak."""
        return self._of_peak(self.causal_tflop_per_s_per_device)

    def _of_peak(self, rate: float | None) -> float | None:
        peak = self.peak_tflop_per_s
        return None if rate is None or not peak else rate / peak * 100

    @property
    def reached(self) -> Reached:
        """What doctor's matrix product reached; of several runs that count the mean."""
        _, runs = runs_that_count(self.records)
        measured = [run.reached for run in runs] or [self.record.reached]
        rates = [matmul.tflop_per_s for matmul in measured if matmul.tflop_per_s is not None]
        lacking = next((matmul for matmul in measured if matmul.tflop_per_s is None), None)
        return lacking or Reached(fmean(rates))

    @property
    def matmul_tflop_per_s(self) -> float | None:
        """What doctor's matrix product reached on one of these devices, in that arithmetic."""
        return self.reached.tflop_per_s

    @property
    def matmul_percent(self) -> float | None:
        """Model FLOPs in percent of what doctor's matrix product reached."""
        rate, product = self.model_tflop_per_s_per_device, self.matmul_tflop_per_s
        return None if rate is None or product is None else rate / product * 100

    @property
    def utilisation(self) -> Utilisation | None:
        """Of the runs that count: the mean of those that were sampled, else the largest reading."""
        _, runs = runs_that_count(self.records)
        readings = [run.measurement.utilisation for run in runs if run.measurement.utilisation]
        sampled = [item.percent for item in readings if item.source == "samples"]
        if sampled:
            return Utilisation(sum(sampled) / len(sampled), "samples")
        return max(readings, key=lambda item: item.percent, default=None)

    @property
    def power(self) -> Power:
        """Energy per token, watts per device, and temperature."""
        return self.statistics.power

    @property
    def perplexity(self) -> float | None:
        """Of the last evaluation: the median of the runs that count."""
        return self._median(lambda run: run.measurement.perplexity)

    @property
    def validation_loss(self) -> float | None:
        """Of the last evaluation: the median of the runs that count."""
        return self._median(lambda run: next((x for _, x in run.measurement.validation[-1:]), None))

    def _median(self, of: Callable[[Record], float | None]) -> float | None:
        _, runs = runs_that_count(self.records)
        values = [value for run in runs if (value := of(run)) is not None]
        return median(values) if values and len(values) == len(runs) else None

    def published_figure(self, name: str) -> float | None:
        """Return what a document printed for this cell: the first that has the figure."""
        return next((d.figures[name] for d in self.published if name in d.figures), None)


def axis_names(table: Sequence[Row]) -> list[str]:
    """Return every axis of the rows, in the order first seen."""
    return list(dict.fromkeys(name for row in table for name in row.axes))


def sizes_named(table: Sequence[Row]) -> list[str]:
    """List every parallel size that the system of any row names, in the order first seen."""
    return list(dict.fromkeys(name for row in table for name in row.record.parallel))


def facts(row: Row) -> dict[str, Any]:
    """Return everything that a cell is known by: parameters, sizes, axes."""
    record = row.record
    names = (
        *("system", "nodes", "devices_per_node"),
        *("micro_batch_size", "global_batch_size", "date", "device"),
    )
    sizes = {name: getattr(record, name) for name in names} | dict(record.parallel)
    shape = vars(record.model) if record.model else {}
    return {**shape, **record.parameters, **sizes, "devices": record.world_size, **row.axes}
