"""Can a machine have done what a bundle says? Speed, time, memory, loss.

The bounds are wide: a run that is refused cannot have happened as it is told.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from runner.board.bundle_file import OpenBundle
from runner.board.refusal import Refusal
from runner.board.run_checks import attempts
from runner.figures.counted_steps import step_time_ms
from runner.folder.attempt import Attempt
from runner.load.samples import polled_steps
from runner.load.window import Seen
from runner.systems.common.registry import load_system
from runner.terms.record import Interval, Record

# AMX multiplies 2,048 bf16 operations a cycle in a core; no core runs at 6 GHz all the time.
CORE_TFLOP_PER_S = 2048 * 6e9 / 1e12
MEMORY_SLACK = 1.02
# Of the time that passed, a trainer may leave out so much: evaluations, checkpoints, its own log.
# They come now and then: of several stretches of a run the middle one has none.
LEFT_OUT, LEFT_OUT_OF_MOST, SLACK_S = 0.35, 0.1, 0.5
STRETCH_S, FEWEST_STRETCHES = 15.0, 4
FIRST_LINES = 3  # iterations after which a model may have learned something
LEAST_OF_UNIFORM = 0.5  # of ln(vocabulary), which a model with random weights begins with
FEWEST_LOSSES = 10


def impossible_speed(bundle: OpenBundle) -> Iterator[Refusal]:
    """Yield cells that are faster than their device, or of which nobody can tell.

    MFU above 100 % is a verdict's already (`above_peak`).
    """
    inspected = bundle.campaign.inspections()
    for row in bundle.document.rows:
        record, rate = row.record, row.model_tflop_per_s_per_device
        if not row.finished:
            continue
        if record.device_kind not in ("", "cpu") or record.device:
            if rate is None and "unknown_peak" not in row.verdict:
                yield Refusal(
                    "impossible_speed",
                    f"{row.cell}: its model is not known, so nobody can compare its speed with the"
                    " device's peak; name `architecture` or `model_flops_per_token`",
                )
            continue
        cores = sum(inspected[h].cpu_count or 0 for h in record.hosts if h in inspected)
        if rate is not None and cores and rate * record.world_size > cores * CORE_TFLOP_PER_S:
            yield Refusal(
                "impossible_speed",
                f"{row.cell}: {rate * record.world_size:.3g} TFLOP/s on {cores} cores; no core does"
                f" more than {CORE_TFLOP_PER_S:.0f}",
            )


def impossible_time(bundle: OpenBundle) -> Iterator[Refusal]:
    """Yield runs whose steps do not fit into the time that passed."""
    for record, attempt in attempts(bundle):
        where = f"{record.cell}, repeat {record.repeat}"
        took = [_seconds(step, record.global_batch_size) for step in record.measurement.intervals]
        total = sum(seconds for seconds in took if seconds is not None)
        if record.wall_s and total > record.wall_s * 1.05 + SLACK_S:
            yield Refusal(
                "impossible_time",
                f"{where}: its steps take {total:.0f} s, and the run lasted {record.wall_s:.0f} s",
            )
        elif contradiction := _against_polls(record, attempt):
            yield Refusal("impossible_time", f"{where}: {contradiction}")


def _seconds(step: Interval, global_batch_size: int | None) -> float | None:
    """Return what all iterations of a line took, with the pauses that it states."""
    ms, _ = step_time_ms(step, global_batch_size)
    return None if ms is None else (step.iterations * ms + step.paused_ms) / 1000


def _against_polls(record: Record, attempt: Attempt) -> str:
    """Compare the steps' times with when the control node saw their lines.

    A line was written after the poll before it and before its own: the log cannot have grown in
    another time than its steps took.
    """
    system = load_system(attempt.run.cell.system) if attempt.run else None
    if system is None:
        return ""
    readers = system.readers_of(record.parameters)
    took = {step.iteration: step for step in record.measurement.intervals}
    for rank in attempt.logs():
        steps = [s for s in polled_steps(attempt.node(rank), readers) if s.iteration in took]
        seconds = [_seconds(took[step.iteration], record.global_batch_size) for step in steps]
        durations = [duration for duration in seconds if duration is not None]
        if len(steps) > 1 and len(durations) == len(steps):
            return _unlike(steps, durations)
    return ""


class _Stretch(NamedTuple):
    """Some steps: iterations, seconds by the log, and between which seconds passed, by polls."""

    first_step: int
    last_step: int
    logged_s: float
    least_s: float
    most_s: float


def _unlike(steps: Sequence[Seen], seconds: Sequence[float]) -> str:
    """Say where the steps' times and the polls contradict each other."""
    whole_run = _stretch(steps, seconds)
    if whole_run.least_s > whole_run.logged_s / (1 - LEFT_OUT) + SLACK_S:
        return _sentence(whole_run, f"at least {whole_run.least_s:.1f} s")
    if whole_run.logged_s > whole_run.most_s * 1.05 + SLACK_S:
        return _sentence(whole_run, f"at most {whole_run.most_s:.1f} s")
    stretches = _stretches(steps, seconds, max(STRETCH_S, whole_run.logged_s / 8))
    if len(stretches) < FEWEST_STRETCHES:
        return ""
    middle = sorted(stretches, key=lambda stretch: stretch.least_s / stretch.logged_s)[
        len(stretches) // 2
    ]
    if middle.least_s > middle.logged_s / (1 - LEFT_OUT_OF_MOST):
        return _sentence(middle, f"at least {middle.least_s:.1f} s")
    return ""


def _stretch(steps: Sequence[Seen], seconds: Sequence[float]) -> _Stretch:
    first_step, last_step = steps[0], steps[-1]
    return _Stretch(
        first_step.iteration,
        last_step.iteration,
        sum(seconds[1:]),
        last_step.after - first_step.by,
        last_step.by - first_step.after,
    )


def _stretches(steps: Sequence[Seen], seconds: Sequence[float], least_s: float) -> list[_Stretch]:
    """Split a run into stretches of some length by the log."""
    stretches, begin, total = [], 0, 0.0
    for at in range(1, len(steps)):
        total += seconds[at]
        if total >= least_s:
            stretches.append(_stretch(steps[begin : at + 1], seconds[begin : at + 1]))
            begin, total = at, 0.0
    return stretches


def _sentence(stretch: _Stretch, passed: str) -> str:
    return (
        f"iterations {stretch.first_step} to {stretch.last_step} take {stretch.logged_s:.1f} s by"
        f" the log, and {passed} passed while it grew"
    )


def impossible_memory(bundle: OpenBundle) -> Iterator[Refusal]:
    """Yield runs that used more memory than their devices have."""
    inspected = bundle.campaign.inspections()
    for record, _ in attempts(bundle):
        has = [
            float(device.memory_mib)
            for host in record.hosts
            if host in inspected
            for device in inspected[host].devices or ()
            if str(device.memory_mib).replace(".", "", 1).isdecimal()
        ]
        measured = record.measurement
        used = max(
            (m for m in (measured.memory_allocated_mib, measured.memory_reserved_mib,
                         measured.memory_used_mib) if m is not None),
            default=0.0,
        )  # fmt: skip
        if record.device_kind == "cuda" and has and used > max(has) * MEMORY_SLACK:
            yield Refusal(
                "impossible_memory",
                f"{record.cell}, repeat {record.repeat}: {used:.0f} MiB in use on a device that has"
                f" {max(has):.0f} MiB",
            )


def impossible_loss(bundle: OpenBundle) -> Iterator[Refusal]:
    """Yield runs with a loss that training does not give."""
    for record, _ in attempts(bundle):
        steps = record.measurement.intervals
        losses = [step.loss for step in steps if step.loss is not None and math.isfinite(step.loss)]
        if not losses:
            continue
        where = f"{record.cell}, repeat {record.repeat}"
        silent = [step.iteration for step in steps if step.loss is None]
        if silent:
            yield Refusal(
                "impossible_loss", f"{where}: iteration {silent[0]} has no loss, others have one"
            )
        if min(losses) < 0:
            yield Refusal("impossible_loss", f"{where}: a loss of {min(losses):g}, below 0")
        if len(losses) >= FEWEST_LOSSES and len(set(losses)) == 1:
            yield Refusal("impossible_loss", f"{where}: the loss is {losses[0]:g} at every step")
        first_step = steps[0]
        vocabulary = getattr(record.model, "vocab_size", None)
        if (
            first_step.loss is not None
            and vocabulary
            and first_step.iteration <= FIRST_LINES
            and first_step.loss < LEAST_OF_UNIFORM * math.log(vocabulary)
            and not load_system(record.system).own_keys  # which may begin from a checkpoint
        ):
            yield Refusal(
                "impossible_loss",
                f"{where}: the first loss is {first_step.loss:.3g}; random weights give about"
                f" ln({vocabulary}) = {math.log(vocabulary):.1f}",
            )
