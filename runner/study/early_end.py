"""End a run that is much slower than the fastest candidate, by what its logs say so far."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from statistics import median

from node.causes import Cause
from runner.figures.counted_steps import counted_intervals, step_time_ms
from runner.folder.attempt import Attempt
from runner.results.judge import measure_run
from runner.systems.common.registry import load_system
from runner.terms.record import Record
from runner.terms.run import Run

LOOK_S = 0.5  # between two looks at the logs
FEWEST_STEPS = 5  # counted steps by which a run is called slow


@contextmanager
def ended_early(attempt: Attempt, run: Run, above_s: float | None) -> Iterator[None]:
    """End the run while the block lasts once its counted steps take longer than `above_s`.

    None: never. A run that does not log a step time goes on to its end.
    """
    if above_s is None:
        yield
        return
    over = threading.Event()
    limit: float = above_s

    def watch() -> None:
        while not over.wait(LOOK_S):
            step_s = typical_step_s(attempt, run)
            if step_s is not None and step_s > limit:
                message = f"a step took {step_s:.4g} s, and above {limit:.4g} s a run is ended"
                attempt.ask_to_halt(Cause.ENDED_EARLY, message)
                return

    thread = threading.Thread(target=watch, name="early-end", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def typical_step_s(attempt: Attempt, run: Run) -> float | None:
    """Return the median of a run's counted steps so far in s; None of fewer than FEWEST_STEPS."""
    try:
        measured = measure_run(run.cell, attempt.logs())
        batch = load_system(run.cell.system).batch_size(run.cell)
        record = Record("", "", "", "", "", "", warmup_iters=run.warmup_iters, measurement=measured)
        record = replace(record, global_batch_size=batch, profile=run.cell.profile)
        steps = counted_intervals(record)
        times = [time for interval in steps if (time := step_time_ms(interval, batch)) is not None]
    except Exception:  # a log that grows: the next look, or the run's outcome, says what it holds
        return None
    enough = sum(interval.iterations for interval in steps) >= FEWEST_STEPS
    return median(times) / 1000 if times and enough else None
