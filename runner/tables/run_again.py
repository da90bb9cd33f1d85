"""How a run ended, and when its log grew, by its files alone: for `publish --check`."""

from runner.folder.attempt import Attempt
from runner.results.judge import judged
from runner.results.samples import looks
from runner.results.window import Seen, times_of_steps
from runner.terms.record import Record


def end_by_logs(attempt: Attempt) -> str | None:
    """Return the status that a run's logs and nodes give; None of one that nobody watched."""
    run = attempt.run
    return None if run is None or run.imported else judged(attempt, run.cell, "")[1].status


def log_growth(record: Record, attempt: Attempt) -> list[Seen]:
    """Return between which times each logged step was written, by the polls of one node's log."""
    logged = {step.iteration for step in record.measurement.intervals}
    places = record.measurement.places.items()
    nodes = (times_of_steps(steps, looks(attempt.node(rank))) for rank, steps in places)
    steps = ([step for step in seen if step.iteration in logged] for seen in nodes)
    return next((seen for seen in steps if len(seen) > 1), [])
