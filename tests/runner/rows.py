"""Rows of a table by hand, as `collect --format json` has them: for tests of what reads them."""

from typing import Any, cast

from runner.tables.columns import COLUMNS, PEOPLE
from runner.tables.row import Row, RowRun


def row_of(name: str = "a", rate: float | None = 100.0, **more: Any) -> Row:
    """A cell of three runs of 100 samples/s, known to 1 %; `more` are its figures, or its keys."""
    figures = dict.fromkeys(key for key in COLUMNS if key not in PEOPLE)
    known = {"samples_per_s": rate, "memory_used_mib": 1000.0, "final_loss": 5.0}
    steps = {"steps_measured": 50, "window_first_iteration": 1, "window_last_iteration": 50}
    row = {
        **{"campaign": "c", "cell": name, "cell_id": name, "system": "toy", "status": "ok"},
        **{"reason": "", "numbers_from": "ok runs", "verdict": "publishable"},
        **{"verdict_reasons": {}, "model": None, "axes": {}, "parameters": {}, "parallel": {}},
        **{"hosts": [], "formula": None, "published": [], "expected": None, "comparison": None},
        **{"scaling": {}, "targets": {}, "resumed": None, "faulted": False, "notes": []},
        **{"halves": {}, "missing": {}, "figures": {**figures, **known, **steps}},
        "runs": [] if rate is None else runs_of(rate * 0.995, rate, rate * 1.005),
    }
    return with_more(cast(Row, row), **more)


def with_more(row: Row, **more: Any) -> Row:
    """Return the row with other figures, or other keys."""
    keys = {key: value for key, value in more.items() if key in row}
    if "runs" in keys:
        keys["runs"] = [{**run_of(repeat=n), **run} for n, run in enumerate(keys["runs"], 1)]
    figures = {key: value for key, value in more.items() if key not in row}
    return cast(Row, {**row, **keys, "figures": {**row["figures"], **figures}})


def run_of(**more: Any) -> RowRun:
    """A run that ended ok, without figures but those of `more`."""
    run = {"repeat": 1, "attempt": 1, "status": "ok", "reason": "", "log": "", "hosts": []}
    figures = ("samples_per_s", "step_time_ms", "memory_rss_mib")
    target = ("iterations_to_target", "iterations_trained", "iterations_per_loss")
    return cast(RowRun, {**run, **dict.fromkeys(("seed", *figures, *target)), **more})


def runs_of(*rates: float) -> list[RowRun]:
    """Runs of these samples/s, 8 of them a step."""
    return [
        run_of(repeat=n, samples_per_s=rate, step_time_ms=8000 / rate)
        for n, rate in enumerate(rates, 1)
    ]
