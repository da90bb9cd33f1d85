"""The search of a campaign with `tune`: its answer, predictions beside measurements. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from node.printable import printable
from runner.report.svg import FAINT, PANEL, SERIES, draw, mark
from runner.tables.tuned_text import (
    HEADERS,
    cost_lines,
    difference_text,
    head_lines,
    in_order,
    refusal_lines,
    row_of,
)
from runner.terms.tuned import Tuned, TunedRun

LINEAR = 10.0  # times the least: values up to it have a linear scale
MOST_ROWS = 200  # of the table of candidates; tune.json has all
_NUMBERS = ("runs", "measured", "predicted", "MiB")
_COLOURS: Mapping[str, int] = {"short": 0, "long": 1, "not ok": 2}
_Points = list[tuple[float, float, TunedRun]]


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
        "plots": list(_plots(tuned)),
        "legend": [{"label": name, "mark": mark(at)} for name, at in _COLOURS.items()],
        "columns": [(name, name in _NUMBERS) for name in HEADERS],
        "rows": [list(map(printable, row_of(candidate))) for candidate in rows[:MOST_ROWS]],
        "more": len(rows[MOST_ROWS:]),
        "effects": [
            (
                printable(effect.knob),
                printable(effect.value),
                f"{effect.percent:+.1f} %",
                "measured" if effect.measured else "predicted",
            )
            for effect in tuned.effects
        ],
        "lines": [printable(line.strip()) for line in (*cost_lines(tuned), *refusal_lines(tuned))],
        "notes": [printable(note) for note in tuned.notes],
        "commands": [
            f"{printable(host)}: cd {printable(cwd)}; {printable(env)} {printable(command)}"
            for host, cwd, env, command in tuned.commands
        ],
    }


def _plots(tuned: Tuned) -> Iterable[Markup]:
    """Draw predicted against measured, and the race over time; nothing without figures."""
    runs = [run for run in tuned.runs if run.figure]
    guessed = [(run.figure or 0.0, run.predicted, run) for run in runs if run.predicted]
    if guessed:
        ends = [min(min(x, y) for x, y, _ in guessed), max(max(x, y) for x, y, _ in guessed)]

        def diagonal(axes: Axes) -> None:
            axes.plot(ends, ends, color=FAINT, linestyle=":", linewidth=1)
            _scaled(axes, "xy", [x for x, _, _ in guessed] + [y for _, y, _ in guessed])

        yield _scatter(
            "predicted", guessed, f"measured, {tuned.unit}", f"predicted, {tuned.unit}", diagonal
        )
    if runs:
        began = min(run.began for run in tuned.runs)
        timed = [((run.began + run.wall_s - began) / 60, run.figure or 0.0, run) for run in runs]
        best = [((run.began + run.wall_s - began) / 60, run.best) for run in tuned.runs if run.best]

        def leader(axes: Axes) -> None:
            if best:
                axes.step(*zip(*best, strict=True), where="post", color=FAINT, linewidth=1.2)
            _scaled(axes, "y", [y for _, y, _ in timed])

        yield _scatter("race", timed, "minutes", tuned.unit, leader)


def _scaled(axes: Axes, which: Literal["y", "xy"], values: Sequence[float]) -> None:
    """Give axes a logarithmic scale where values differ by much, with plain numbers."""
    if max(values) < LINEAR * min(values):
        return
    for axis, name in ((axes.xaxis, "x"), (axes.yaxis, "y")):
        if name in which:
            (axes.set_xscale if name == "x" else axes.set_yscale)("log")
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(NullFormatter())


def _scatter(
    name: str, points: _Points, across: str, up: str, beside: Callable[[Axes], None]
) -> Markup:
    def paint(axes: Axes) -> dict[str, str]:
        titles = {}
        beside(axes)
        for at, (x, y, run) in enumerate(points):
            kind = run.length if run.ending == "ok" else "not ok"
            (point,) = axes.plot(
                [x], [y], "o", markersize=5, color=SERIES[_COLOURS[kind]], alpha=0.85
            )
            point.set_gid(f"run{at}")
            guess = f", predicted {run.predicted:.4g}" if run.predicted else ""
            titles[f"run{at}"] = printable(
                f"run {run.number}, {run.candidate}, {run.length}, {run.ending}:"
                f" {run.figure:.4g}{guess}"
            )
        axes.set(xlabel=across, ylabel=up)
        return titles

    return draw(f"search-{name}", f"{up} over {across}, a point per run", 260, paint, PANEL + 60)
