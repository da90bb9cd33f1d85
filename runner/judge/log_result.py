"""The logs of one run, from anywhere, as one result: what was measured, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.figures.medians import of_counted
from runner.figures.planned import WIDEST, is_short, planned
from runner.figures.run_mean import run_mean
from runner.judge.diagnosis.verdict import Verdict, diagnose, file_name
from runner.logs.kinds import KINDS
from runner.logs.numbers import whole_number
from runner.logs.read import Reading
from runner.logs.run_sizes import TRAIN_ITERS
from runner.logs.running_sums import RunningSums


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
    step_time_ms_median_ci_low: float | None = None
    step_time_ms_median_ci_high: float | None = None
    samples_per_s: float | None = None
    samples_per_s_steps_ci_low: float | None = None
    samples_per_s_steps_ci_high: float | None = None
    samples_per_s_median: float | None = None
    samples_per_s_median_ci_low: float | None = None
    samples_per_s_median_ci_high: float | None = None
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


def log_result(paths: Sequence[Path], reading: Reading) -> LogResult:
    """Sum up what logs that were read as the nodes of one run say, and judge how it ended."""
    summary = reading.summary
    logged = summary.logged_lines > 0
    end = end_of(paths, reading)
    memory = (mib for key in _MEMORY if (mib := reading.memory.get(key)) is not None)
    return LogResult(
        system=reading.system,
        family=_family(reading.kind),
        status=end.status,
        reason="; ".join(
            reason for reason in (end.sentence, reading.why, *reading.notes) if reason
        ),
        logged_lines=summary.logged_lines,
        counted_lines=summary.counted_lines,
        runs=summary.runs,
        first_iteration=summary.first_iteration,
        last_iteration=summary.last_iteration,
        planned_iterations=planned_of(reading) if logged else None,
        step_time_ms=_rounded(summary.step_time_ms.mean()),
        samples_per_s=_rounded(summary.samples_per_s.mean()),
        **_ends("samples_per_s_steps", _by_steps(summary.samples_per_s)),
        **_medians("step_time_ms", summary.step_time_ms),
        **_medians("samples_per_s", summary.samples_per_s),
        stalls_percent=_rounded(summary.stalls_percent),
        tokens_per_s=_rounded(reading.tokens.job),
        tokens_per_s_per_device=_rounded(reading.tokens.device),
        skipped=summary.skipped if logged else None,
        nan=summary.nan if logged else None,
        last_loss=summary.loss.value,
        last_validation_loss=_last_loss(reading.validation) if logged else None,
        memory_mib=_rounded(next(memory, None)) if logged else None,
        **{key: _rounded(mib) for key, mib in reading.memory.items() if logged},
    )


def _family(kind: str | None) -> str | None:
    return KINDS[kind].family() if kind and kind in KINDS else kind


def _by_steps(rate: RunningSums) -> tuple[float, float] | None:
    """Return the 95 % interval of a rate's mean by the run's own steps; None: too few of them."""
    mean, work = rate.mean(), rate.batches.work
    if mean is None:
        return None
    times = (rate.batches.time / work * mean).round(12)  # of equal steps a sum is not quite equal
    half = run_mean(times.tolist(), work.tolist()).half
    return None if half is None or half >= 1 else (mean / (1 + half), mean / (1 - half))


def _medians(name: str, figure: RunningSums) -> dict[str, float | None]:
    middle = figure.median()
    interval = None
    if middle is not None:
        interval = of_counted(*figure.values.settled(), middle, figure.newest)
    return {f"{name}_median": _rounded(middle), **_ends(f"{name}_median", interval)}


def _ends(name: str, interval: tuple[float, float] | None) -> dict[str, float | None]:
    low, high = interval or (None, None)
    return {f"{name}_ci_low": _rounded(low), f"{name}_ci_high": _rounded(high)}


def planned_of(reading: Reading, train_iters: int | None = None) -> int | None:
    """Return the iteration at which the run was to end, as given or by its log's own words."""
    stated = train_iters or whole_number(reading.facts.get(TRAIN_ITERS)) or None
    return planned(stated, reading.facts, reading.summary.last_iteration or 0)


def end_of(
    paths: Sequence[Path],
    reading: Reading,
    name: Callable[[Path], str] = file_name,
    train_iters: int | None = None,
) -> Verdict:
    """Say how the run ended by its logs; `name` is what the sentence calls one."""
    summary, of = reading.summary, planned_of(reading, train_iters)
    verdict = diagnose(paths, steps=summary.logged_lines, name=name)
    if verdict.status == "ok" and summary.loss.diverged_at is not None:
        return Verdict(
            "diverged",
            f"the loss was NaN or infinite at iteration {summary.loss.diverged_at}, the last that"
            " logged one",
        )
    last_iteration = summary.last_iteration or 0
    short = is_short(last_iteration, summary.gap or min(summary.covers, WIDEST), of)
    if verdict.status == "ok" and short and not verdict.closed:
        why = f"the log ends at iteration {last_iteration} of {of}, and nothing in it says why"
        return Verdict("unfinished", why)
    return verdict


def _last_loss(validation: Mapping[int, float]) -> float | None:
    return validation[max(validation)] if validation else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6) + 0.0  # and no -0.0
