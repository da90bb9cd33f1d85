"""How a run ended by its logs alone: of logs from elsewhere nothing else is known."""

from collections.abc import Callable, Sequence
from pathlib import Path

from runner.figures.learning import diverged_at
from runner.figures.planned import is_short, planned, spacing
from runner.judge.diagnosis.verdict import Verdict, diagnose, file_name
from runner.terms.record import Measurement


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
    verdict = diagnose(paths, steps=len(lines), name=name)
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
