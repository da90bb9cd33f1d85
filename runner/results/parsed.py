"""Logs from anywhere, read as the nodes of one run, measured as `collect` measures a run and judged
by what they say alone: one result of `parse`, with words on what its figures are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from runner.base.text import counted
from runner.figures.cell_statistics import (
    CellStatistics,
    Summary,
    Value,
    cell_statistics,
    summarise,
)
from runner.figures.counted_steps import counted_intervals, is_short, measured, planned, spacing
from runner.figures.curves import diverged_at
from runner.logs.kind import Kind, Readers
from runner.logs.logged_step import LoggedStep, unmeasured
from runner.logs.recognise import Recognised, recognise
from runner.logs.run_sizes import UNKNOWN, Known
from runner.results.diagnosis.verdict import Verdict, diagnose, file_name
from runner.results.judge import doubt_of
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


OTHER_LOSS = 1e-3  # of a loss: what digits and sums in another order do not make
STALLS_PERCENT = 2  # by which mean and median step may differ without a word


@dataclass(frozen=True)
class LogResult:
    """The keys of `parse --format json`, as docs/parsers.md has them; None: the logs have none."""

    system: str | None
    family: str | None
    status: str
    reason: str
    logged_lines: int = 0
    counted_lines: int = 0
    runs: int = 0
    first_iteration: int | None = None
    last_iteration: int | None = None
    planned_iterations: int | None = None
    step_time_ms: float | None = None
    step_time_ms_median: float | None = None
    samples_per_s: float | None = None
    samples_per_s_steps_ci_low: float | None = None
    samples_per_s_steps_ci_high: float | None = None
    samples_per_s_median: float | None = None
    stalls_percent: float | None = None
    tokens_per_s: float | None = None
    tokens_per_s_per_device: float | None = None
    skipped: int | None = None
    nan: int | None = None
    last_loss: float | None = None
    last_validation_loss: float | None = None
    memory_mib: float | None = None
    memory_allocated_mib: float | None = None
    memory_reserved_mib: float | None = None
    memory_used_mib: float | None = None
    memory_rss_mib: float | None = None


# What `memory_mib`, the key of older versions, has: the first of these that the log has.
_MEMORY = ("memory_used_mib", "memory_allocated_mib", "memory_reserved_mib", "memory_rss_mib")


def log_result(reading: Reading) -> LogResult:
    """Sum up what logs that were read as the nodes of one run say, and judge how it ended."""
    end, found = end_of(reading.paths, reading.measurement), reading.found
    words = [end.sentence, found.why, *_remarks(reading)]
    lines = reading.measurement.intervals
    if not lines or found.kind is None:
        if end.status == "no_step" and found.unread:
            words = [found.unread]
        reason = "; ".join(filter(None, [*words, *reading.measurement.missing.values()]))
        return LogResult(found.system, found.family, end.status, reason)
    statistics = reading.statistics
    memory = statistics.memory
    validation = reading.measurement.validation
    return LogResult(
        system=found.system,
        family=found.family,
        status=end.status,
        reason="; ".join(filter(None, [*words, *_notes(reading, type(found.kind))])),
        logged_lines=len(lines),
        counted_lines=len(statistics.lines),
        runs=max(log.runs for log in found.read.logs),
        first_iteration=lines[0].iteration,
        last_iteration=lines[-1].iteration,
        planned_iterations=planned_of(reading.measurement),
        **_figures("step_time_ms", statistics.step_time_ms),
        **_figures("samples_per_s", statistics.samples_per_s),
        **_by_steps(reading),
        stalls_percent=_rounded(statistics.stalls_percent),
        tokens_per_s=_rounded(reading.tokens_per_s),
        tokens_per_s_per_device=_rounded(reading.tokens_per_s_per_device),
        skipped=max(sum(line.skipped for line in lines), _overflows(reading)),
        nan=sum(line.nan for line in lines),
        last_loss=statistics.final_loss,
        last_validation_loss=validation[-1][1] if validation else None,
        memory_mib=_rounded(next(filter(None, map(memory.get, _MEMORY)), None)),
        **{key: _rounded(mib) for key, mib in memory.items()},
    )


def _figures(name: str, summary: Summary | None) -> dict[str, float | None]:
    if summary is None:
        return {}
    return {name: _rounded(summary.value), f"{name}_median": _rounded(summary.median)}


def _by_steps(reading: Reading) -> dict[str, float | None]:
    """Return the 95 % interval of samples/s by the run's own steps; none: too few of them."""
    rate, half = reading.statistics.samples_per_s, reading.statistics.half_by_steps
    if rate is None or half is None or half >= 1:
        return {}
    low, high = rate.value / (1 + half), rate.value / (1 - half)
    name = "samples_per_s_steps_ci"
    return {f"{name}_low": _rounded(low), f"{name}_high": _rounded(high)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6) + 0.0  # and no -0.0


def _overflows(reading: Reading) -> int:
    """Count the skipped iterations by DeepSpeed's lines of rank 0, whoever logs the steps."""
    return max((log.overflows for log in reading.found.read.logs), default=0)


def _remarks(reading: Reading) -> Iterator[str]:
    """Say what of the logs is not in the figures."""
    read, paths = reading.found.read, reading.paths
    for share in read.shares:
        if share.before is not None:
            log, before = (read.logs[index] for index in (share.log, share.before))
            reaches = max(step.iteration for step in log.steps)
            up_to = f" up to {share.beyond}" if reaches > share.beyond else ""
            yield f"{paths[log.rank]} repeats the steps of {paths[before.rank]}{up_to}"
            losses = {step.iteration: step.loss for step in before.steps}
            for step in log.steps:
                other = losses.get(step.iteration)
                if other and step.loss and abs(step.loss - other) > OTHER_LOSS * abs(other):
                    yield (
                        f"{paths[log.rank]} has another loss at the same steps ({other:g} and"
                        f" {step.loss:g} at step {step.iteration}): these are two trainings, not"
                        " two nodes of one, unless each node logs its own loss"
                    )
                    break
    yield from dict.fromkeys(
        remark for log in read.logs for remark in log.remarks(str(paths[log.rank]))
    )


def _notes(reading: Reading, kind: type[Kind]) -> Iterator[str]:
    """Say why a figure is not simply the log's, or is missing, and what cures it."""
    measured, statistics = reading.measurement, reading.statistics
    yield from statistics.unmatched.values()
    if measured.unmeasured:
        yield f"not measured: {unmeasured(measured.unmeasured)}"
    rate, time = statistics.samples_per_s, statistics.step_time_ms
    job, device = reading.tokens_per_s, reading.tokens_per_s_per_device
    if kind.holds and (rate or time or job or device):
        yield f"a line's time is {kind.holds}"
    if paused := [line.paused_ms for line in measured.intervals if line.paused_ms > 0]:
        yield (
            f"{sum(paused) / 1000:.3g} s of evaluations and checkpoints, as the log states,"
            f" are taken out of {counted(len(paused), 'line')}"
        )
    if measured.validation and kind.validates:
        yield f"the last evaluation's figure is a {kind.validates}"
    if len(statistics.lines) == len(measured.intervals) == 1 and (rate or time or job or device):
        yield "compilation and warm-up are in its times: it has one line"
    elif statistics.warmup_counted:
        yield "compilation and warm-up are in its times"
    elif statistics.warmup:
        found = " (found in the steps; --warmup-iters N sets them)"
        found *= statistics.warmup_found
        yield f"the first {counted(statistics.warmup, 'iteration')} left out{found}"
    by_trainer = sum(line.skipped for line in measured.intervals)
    if (overflows := _overflows(reading)) > by_trainer:
        yield (
            f"{overflows} iterations skipped by DeepSpeed's lines, {by_trainer} by the trainer's"
            " own counter"
        )
    if skipped := statistics.after_warmup(lambda line: line.skipped):
        yield f"the lines of {counted(skipped, 'skipped iteration')} left out"
    if abs(stalls := statistics.stalls_percent or 0.0) > STALLS_PERCENT:
        more = "more" if stalls > 0 else "less"
        yield f"the mean step took {abs(stalls):.1f} % {more} time than the median one"
    yield from dict.fromkeys(_sources(reading, kind))
    logged = UNKNOWN.or_by(measured.facts)
    for option, mine, theirs in (
        ("--tokens-per-sample", reading.told.tokens_per_sample, logged.tokens_per_sample),
        ("--devices", reading.told.devices, logged.devices),
    ):
        if mine and theirs and mine != theirs:
            yield f"the log says {theirs}, not {option} {mine}"


def _sources(reading: Reading, kind: type[Kind]) -> Iterator[str]:
    """Say what a speed was worked out of, or what it needs."""
    statistics, sizes = reading.statistics, reading.sizes
    rate, time = statistics.samples_per_s, statistics.step_time_ms
    job, device = reading.tokens_per_s, reading.tokens_per_s_per_device
    steps = [step for log in reading.found.read.logs for step in log.steps]
    tokens = any(step.tokens_per_s or step.device_tokens_per_s for step in steps)
    if not (rate or time or job or device):
        yield statistics.missing["step_time_ms"]
    elif time is None:
        yield "no step time: the lines have a rate and no batch size (--global-batch-size N)"
    elif not any(step.step_time_ms for step in steps):
        yield "step time from the batch size and samples/s"
    length = sizes.tokens_per_sample
    if rate and length and any(_follows(step, length) for step in steps):
        yield f"samples/s from tokens/s and {length} tokens per sample"
    elif rate and not any(step.samples_per_s for step in steps):
        told = reading.global_batch_size
        source = (
            f"--global-batch-size {told}" if told else "the batch size and the time on the lines"
        )
        yield f"samples/s from {source}"
    elif rate and not kind.own_rate:
        yield (
            "samples/s as DeepSpeed computes it from ds_config's train_batch_size"
            " (--global-batch-size puts it right)"
        )
    elif rate is None and reading.measurement.rate_doubt:
        yield reading.measurement.rate_doubt
    elif rate is None and tokens and not sizes.tokens_per_sample:
        yield "no samples/s: tokens per sample are unknown (--tokens-per-sample N)"
    elif rate is None and time and not reading.batch_size:
        yield "no samples/s: the lines have no batch size (--global-batch-size N)"
    if rate and job and not any(step.tokens_per_s for step in steps):
        yield f"tokens/s from samples/s and {sizes.tokens_per_sample} tokens per sample"
    elif job is None and device is not None:
        yield "no tokens/s of the job: the lines have a device's (--devices N)"


def _follows(step: LoggedStep, tokens_per_sample: int) -> bool:
    """Whether samples/s are the tokens/s of a line in other words."""
    tokens_per_s = step.tokens_per_s
    return tokens_per_s is not None and step.samples_per_s == tokens_per_s / tokens_per_sample
