"""The search of a campaign with `tune`: its answer, and its race over time. Pure."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from node.printable import printable
from runner.report.svg import FAINT, SERIES, draw, mark
from runner.tables.tuned_text import (
    HEADERS,
    cost_lines,
    difference_text,
    head_lines,
    in_order,
    refusal_lines,
    row_of,
)
from runner.terms.tuned import Tuned

LINEAR = 10.0  # times the least: values up to it have a linear scale
MOST_ROWS = 200  # of the table of candidates; tune.json has all
_NUMBERS = ("runs", "measured", "predicted", "MiB")
_COLOURS: Mapping[str, int] = {"short": 0, "long": 1, "not ok": 2}


def search_section(tuned: Tuned | None) -> dict[str, Any] | None:
    """Return what the section shows; None of a campaign without a search."""
    if tuned is None:
        return None
    head = [printable(line) for line in head_lines(tuned)]
    rows = in_order(tuned)
    return {
        "head": head,
        "differences": [
            (
                difference.to,
                difference_text(difference),
                printable(difference.candidate),
                difference.percent is not None,
            )
            for difference in tuned.differences
        ],
        "unit": tuned.unit,
        "race": _race(tuned),
        "legend": [{"label": name, "mark": mark(at)} for name, at in _COLOURS.items()],
        "columns": [(name, name in _NUMBERS) for name in HEADERS],
        "rows": [list(map(printable, row_of(candidate))) for candidate in rows[:MOST_ROWS]],
        "more": len(rows[MOST_ROWS:]),
        "lines": [printable(line.strip()) for line in (*cost_lines(tuned), *refusal_lines(tuned))],
        "notes": [printable(note) for note in tuned.notes],
        "commands": [
            f"{printable(host)}: cd {printable(cwd)}; {printable(env)} {printable(command)}"
            for host, cwd, env, command in tuned.commands
        ],
    }


def _race(tuned: Tuned) -> Markup | None:
    """Draw what each run measured over time, and the least so far; nothing without figures."""
    began = min((run.began for run in tuned.runs), default=0.0)
    points = [((run.began + run.wall_s - began) / 60, run) for run in tuned.runs]
    best = [(minutes, run.best) for minutes, run in points if run.best]
    measured = [(minutes, run.figure, run) for minutes, run in points if run.figure]
    if not measured:
        return None

    def paint(axes: Axes) -> dict[str, str]:
        titles = {}
        if best:
            axes.step(*zip(*best, strict=True), where="post", color=FAINT, linewidth=1.2)
        for at, (minutes, figure, run) in enumerate(measured):
            kind = run.length if run.ending == "ok" else "not ok"
            colour = SERIES[_COLOURS[kind]]
            (point,) = axes.plot([minutes], [figure], "o", markersize=5, color=colour, alpha=0.85)
            point.set_gid(f"run{at}")
            titles[f"run{at}"] = printable(
                f"run {run.number}, {run.candidate}, {run.length}, {run.ending}: {figure:.4g}"
            )
        figures = [figure for _, figure, _ in measured]
        if max(figures) >= LINEAR * min(figures):
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set(xlabel="minutes", ylabel=tuned.unit)
        return titles

    return draw("search-race", f"{tuned.unit} over minutes, a point per run", 260, paint)
