"""Logs from anywhere, read as the nodes of one run, measured as `collect` measures a run and judged
by what they say alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from runner.figures.cell_statistics import CellStatistics, cell_statistics
from runner.figures.counted_steps import counted_intervals, measured
from runner.figures.learning import diverged_at
from runner.figures.planned import is_short, planned, spacing
from runner.figures.summary import Value, summarise
from runner.judge.diagnosis.verdict import Verdict, diagnose, file_name
from runner.judge.judge import doubt_of
from runner.logs.kind import Readers
from runner.logs.recognise import Recognised, recognise
from runner.logs.run_sizes import UNKNOWN, Known
from runner.terms.record import Measurement, Record

_WHO = "no samples/s: the log or --global-batch-size says"


@dataclass(frozen=True)
class Reading:
    """What all logs of one run say together; `told` is what the user says of its sizes.

    `warmup_iters` None: where warm-up ends is found in the steps.
    """

    paths: Sequence[Path]
    found: Recognised
    told: Known = UNKNOWN
    global_batch_size: int | None = None
    warmup_iters: int | None = None

    @property
    def measurement(self) -> Measurement:
        """What was read."""
        return self.record.measurement

    @property
    def sizes(self) -> Known:
        """The user's sizes, and those of the log where they leave one open."""
        return self.told.or_by(self.found.read.measurement.facts)

    @property
    def batch_size(self) -> int | None:
        """Samples of an iteration: the user's, else the log's, where its lines have one alone."""
        lines = self.found.read.measurement.intervals
        on_lines = {line.global_batch_size for line in lines if line.global_batch_size}
        return self.global_batch_size or (on_lines.pop() if len(on_lines) == 1 else None)

    @cached_property
    def record(self) -> Record:
        """The run, as a campaign has it."""
        read = self.found.read.measurement
        return Record(
            campaign="",
            cell="",
            cell_id="",
            system=self.found.system or "",
            status="ok",
            reason="",
            global_batch_size=self.batch_size,
            warmup_iters=self.warmup_iters,
            tokens_per_sample=self.sizes.tokens_per_sample,
            measurement=replace(read, rate_doubt=doubt_of(self.batch_size, read, _WHO)),
        )

    @cached_property
    def statistics(self) -> CellStatistics:
        """Its figures."""
        return cell_statistics([self.record])

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens/s of the whole job: of samples, else the lines' own."""
        rate, length = self.statistics.samples_per_s, self.sizes.tokens_per_sample
        return rate.value * length if rate and length else self._mean_rate("tokens_per_s")

    @property
    def tokens_per_s_per_device(self) -> float | None:
        """Tokens/s of one device: the job's, else the lines' own."""
        job, devices = self.tokens_per_s, self.sizes.devices
        return job / devices if job and devices else self._mean_rate("device_tokens_per_s")

    def _mean_rate(self, name: str) -> float | None:
        """Return the mean of what the counted lines print."""
        values = [
            Value(rate, max(line.iterations, 1) * (line.global_batch_size or 1))
            for line in counted_intervals(self.record)
            if (rate := measured(getattr(line, name))) is not None
        ]
        mean = summarise([values], rate=True)
        return mean.value if mean else None


def read(
    paths: Sequence[Path],
    system: str | None = None,
    *,
    family: str | None = None,
    global_batch_size: int | None = None,
    sizes: Known = UNKNOWN,
    warmup_iters: int | None = None,
    readers: Readers | None = None,
) -> Reading:
    """Read logs as the nodes of one run. What `system` and `family` leave open their lines tell.

    `readers` are those of a matrix's own patterns, in place of all families.
    """
    sizes = replace(sizes, global_batch_size=global_batch_size)
    found = recognise(paths, system, family=family, readers=readers, sizes=sizes)
    return Reading(paths, found, sizes, global_batch_size, warmup_iters)


def planned_of(measured: Measurement, train_iters: int | None = None) -> int | None:
    """Return the iteration at which the run was to end, as given or by its log's own words."""
    last_iteration = measured.intervals[-1].iteration if measured.intervals else 0
    return planned(train_iters or measured.train_iters, measured.facts, last_iteration)


def end_of(
    paths: Sequence[Path],
    measured: Measurement,
    name: Callable[[Path], str] = file_name,
    train_iters: int | None = None,
) -> Verdict:
    """Say how the run ended by its logs; `name` is what the sentence calls one."""
    lines, of = measured.intervals, planned_of(measured, train_iters)
    steps = {path: measured.places.get(rank, ()) for rank, path in enumerate(paths)}
    verdict = diagnose(steps, name=name)
    if verdict.status != "ok":
        return verdict
    if (at := diverged_at(lines)) is not None:
        why = f"the loss was NaN or infinite at iteration {at}, the last that logged one"
        return Verdict("diverged", why)
    last_iteration = lines[-1].iteration if lines else 0
    if is_short(last_iteration, spacing(lines), of) and not verdict.closed:
        why = f"the log ends at iteration {last_iteration} of {of}, and nothing in it says why"
        return Verdict("unfinished", why)
    return verdict
