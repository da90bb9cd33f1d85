"""A row of the comparison table: one cell, from the records of its repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runner.flops import tflop_per_s_per_device, vocabulary
from runner.records import Record
from runner.statistics import CellStatistics

# What a baseline is compared in, by the machine names of the columns.
COMPARED = ("samples_per_s", "memory_allocated_mib", "memory_used_mib")


@dataclass(frozen=True)
class Difference:
    """A row's value minus its baseline's, in the value's unit, and as percent of the baseline."""

    absolute: float
    percent: float


@dataclass(frozen=True)
class Comparison:
    """A row against `base`, the one row with the same other axes and AXIS=VALUE.

    `note` says why there is no such row or no difference, or what to mind about it.
    """

    axis: str
    value: str
    base: Row | None = None
    is_baseline: bool = False
    differences: Mapping[str, Difference] = field(default_factory=dict)
    note: str = ""

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
    """One cell; `records` are its repeats. `scaling` has "strong", "weak", both or neither."""

    records: tuple[Record, ...]
    statistics: CellStatistics
    scaling: Mapping[str, Scaling] = field(default_factory=dict)
    comparison: Comparison | None = None

    @property
    def _trouble(self) -> Record | None:
        """The first repeat that is not ok; one that ended comes before one that is pending."""
        other = [record for record in self.records if record.status != "ok"]
        return next((r for r in other if r.status != "pending"), other[0] if other else None)

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
    def reason(self) -> str:
        """What ended that repeat; empty for "ok"."""
        return self._trouble.reason if self._trouble else ""

    @property
    def finished(self) -> bool:
        """The numbers are those of runs that ended ok."""
        return self.statistics.basis == "ok"

    @property
    def axes(self) -> Mapping[str, Any]:
        """The cell's axes; `system` is always one."""
        return {"system": self.record.system, **self.record.axes}

    def value(self, axis: str) -> Any:
        """The row's value of an axis: of the cell's axes, else of its resolved parameters."""
        if axis in self.axes:
            return self.axes[axis]
        return self.record.parameters.get(axis, getattr(self.record, axis, None))

    @property
    def samples_per_s(self) -> float | None:
        """Median samples/s of the whole job."""
        rate = self.statistics.samples_per_s
        return None if rate is None else rate.median

    @property
    def samples_per_s_per_device(self) -> float | None:
        """Median samples/s of one device."""
        rate, devices = self.samples_per_s, self.record.world_size
        return None if rate is None or devices <= 0 else rate / devices

    @property
    def tokens_per_s(self) -> float | None:
        """Median tokens/s of the whole job: samples/s times the sequence length."""
        model, rate = self.record.model, self.samples_per_s
        return None if model is None or rate is None else rate * model.seq_length

    @property
    def model_tflop_per_s_per_device(self) -> float | None:
        """TFLOP/s that the training needs, whatever is computed again."""
        return self._tflops(recompute=False)

    @property
    def hardware_tflop_per_s_per_device(self) -> float | None:
        """TFLOP/s with what is computed again, where activations are checkpointed."""
        return self._tflops(recompute=self.record.activation_checkpointing)

    def _tflops(self, *, recompute: bool) -> float | None:
        rate, devices, found = self.samples_per_s, self.record.world_size, self.vocabulary
        if self.record.model is None or rate is None or found is None:
            return None
        return tflop_per_s_per_device(
            self.record.model, rate, devices, recompute=recompute, padded_vocab_size=found[0]
        )

    @property
    def vocabulary(self) -> tuple[int, str] | None:
        """The vocabulary in the FLOP formula, "padded" or "unpadded"; None without TFLOP/s."""
        if self.record.model is None or self.samples_per_s_per_device is None:
            return None
        return vocabulary(self.record.model, self.record.measurement)

    @property
    def missing(self) -> Mapping[str, str]:
        """Machine column to why it is null."""
        if self.vocabulary is not None:
            return self.statistics.missing
        why = "no samples/s" if self.samples_per_s is None else "the model's shape is not known"
        return {**self.statistics.missing, "model_tflop_per_s_per_device": why}


def axis_names(table: Sequence[Row]) -> list[str]:
    """Every axis of the rows, in the order first seen."""
    return list(dict.fromkeys(name for row in table for name in row.axes))
