"""The report: one self-contained HTML file. Pure: records and rows in, text out.

The page makes no network request: CSS and plots (SVG by matplotlib, text as text) are inline, and
its content security policy forbids anything else. Everything that comes from a log or a matrix is
escaped by the template; only SVG made here is trusted. Colours in the plots are CSS variables, so
that they follow the page into dark mode.
"""

from __future__ import annotations

import io
import json
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import jinja2
import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from runner.records import Interval, Record
from runner.statistics import WITHOUT_NUMBERS, after_warmup, step_time_ms
from runner.tables import (
    COMPARED,
    MISSING,
    Column,
    Difference,
    Layout,
    Row,
    Run,
    decimals,
    difference_text,
    layout,
    machine_value,
    number_text,
    one_line,
    value_text,
)

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"


def to_html(records: Sequence[Record], table: Sequence[Row]) -> str:
    """The whole page. `table` is `tables.rows(records, baseline)`; both may be empty."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"breakable": breakable, "grouped": grouped}
    chosen = layout(table)
    campaigns = dict.fromkeys(one_line(row.record.campaign) for row in table)
    return environment.get_template("report.html.j2").render(
        title=", ".join(campaigns) or "no cells",
        counts=_counts(table),
        common={name: value for name, value in chosen.common.items() if name != "campaign"},
        environment=environment_section(records),
        table=_table(table, chosen),
        notes=chosen.notes,
        baseline=_baseline(table),
        scaling=_scaling(table),
        plots=_plots(table, records),
        problems=_problems(table),
    )


def breakable(text: str) -> Markup:
    """`text`, escaped, with a possible line break after each sign that joins words."""
    return Markup("<wbr>").join(re.findall(r"[^-_,./=]*[-_,./=]?", text))


def grouped(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """[("a / b", "1")] -> [("a", [("b", "1")])]: facts by what they belong to, loose ones first."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for key, value in pairs:
        group, _, name = key.rpartition(" / ")
        groups.setdefault(group, []).append((name, value))
    return sorted(groups.items(), key=lambda item: item[0] != "")


def _counts(table: Sequence[Row]) -> list[tuple[int, str]]:
    statuses = [row.status for row in table]
    return [(statuses.count(status), status) for status in dict.fromkeys(statuses)]


# --- tables ---------------------------------------------------------------------------------------


def href(path: str) -> str | None:
    """`path` as a relative link, or None: an absolute path would name somebody's machine."""
    return quote(path, safe="/._-~") if path and not path.startswith(("/", "\\", "~")) else None


def _cell(row: Row, column: Column) -> dict[str, Any]:
    return {"key": column.key, "kind": column.kind, "text": column.text(row)}


_HEADLINE = frozenset({"samples_per_s", "samples_per_s_spread_percent"})


def _table(table: Sequence[Row], chosen: Layout) -> dict[str, Any]:
    # The baseline has a section of its own, where a difference stands beside what it compares.
    columns = [column for column in chosen.columns if not column.key.endswith("_difference")]
    # Names and the headline number first: a phone shows little more without scrolling.
    columns.sort(key=lambda column: 0 if column.kind == "name" else column.key not in _HEADLINE)
    return {
        "columns": columns,
        "rows": [
            {
                "cells": [_cell(row, column) for column in columns],
                "status": row.status,
                "finished": row.finished,
                "logs": _links(row.runs),
            }
            for row in table
        ],
    }


_HIGHER_IS_BETTER = frozenset({"samples_per_s"})


def _baseline(table: Sequence[Row]) -> dict[str, Any] | None:
    """Every row that has a counterpart beside it: own value, the baseline's, the difference."""
    compared = [row for row in table if row.comparison]
    if not compared or compared[0].comparison is None:
        return None
    by_cell = {(row.record.campaign, row.cell): row for row in table}
    names = [n for n in COMPARED if any(machine_value(row, n) is not None for row in table)]
    rows = []
    for row in compared:
        found = row.comparison
        if found is None or (found.is_baseline and not found.note):
            continue
        base = by_cell.get((row.record.campaign, found.cell or ""))
        rows.append(
            {
                "cell": one_line(row.cell),
                "setting": value_text(row.value(found.axis)),
                "baseline": one_line(found.cell) if found.cell else MISSING,
                "note": one_line(found.note),
                "compared": bool(found.differences),
                "values": [_pair(row, base, name, found.differences.get(name)) for name in names],
            }
        )
    first = compared[0].comparison
    titles = {
        "samples_per_s": "samples/s",
        "memory_allocated_mib": "allocated MiB",
        "memory_used_mib": "used MiB",
    }
    return {
        "axis": first.axis,
        "value": first.value,
        "titles": [titles[name] for name in names],
        "rows": rows,
    }


def _pair(row: Row, base: Row | None, name: str, difference: Difference | None) -> dict[str, str]:
    ours = machine_value(row, name)
    theirs = machine_value(base, name) if base else None
    places = decimals(ours) if ours else 0
    verdict = ""
    if difference and abs(difference.percent) >= 0.05:
        verdict = "good" if (difference.percent > 0) == (name in _HIGHER_IS_BETTER) else "bad"
    return {
        "ours": number_text(ours if row.finished else None),
        "theirs": number_text(theirs if base and base.finished else None),
        "difference": difference_text(difference, places),
        "verdict": verdict,
    }


def _series(table: Sequence[Row]) -> list[dict[str, Any]]:
    """The scaling series: kind, label (what tells it from the others) and rows by devices."""
    series: dict[tuple[str, str], list[Row]] = {}
    for row in table:
        for kind, scaled in row.scaling.items():
            series.setdefault((kind, scaled.series), []).append(row)
    result = []
    for (kind, name), rows in series.items():
        key = json.loads(name)
        others = [json.loads(n) for k, n in series if k == kind and n != name]
        differs = [k for k in key if any(other.get(k) != key[k] for other in others)]
        # `batch` differs in every strong or weak series of its own; name it when nothing else does.
        named = [k for k in differs if k != "batch"] or differs
        batch = {"strong": "global batch", "weak": "batch per device"}[kind]
        label = ", ".join(f"{batch if k == 'batch' else k} {key[k]}" for k in named)
        rows = sorted(rows, key=lambda row: (row.record.world_size, row.record.nodes))
        result.append({"kind": kind, "label": label or "all cells", "rows": rows})
    return result


def _scaling(table: Sequence[Row]) -> dict[str, Any] | None:
    series = _series(table)
    if not series:
        return None
    return {
        "series": [
            {
                "kind": one["kind"],
                "label": one["label"],
                "mark": _mark(index),
                "rows": [
                    {
                        "devices": row.record.world_size,
                        "cell": one_line(row.cell),
                        "rate": number_text(row.samples_per_s),
                        "per_device": number_text(
                            (row.samples_per_s or 0.0) / row.record.world_size
                        ),
                        "efficiency": f"{row.scaling[one['kind']].efficiency * 100:.1f}%",
                    }
                    for row in one["rows"]
                ],
            }
            for index, one in enumerate(series)
        ],
        "svg": scaling_svg(series),
    }


def _problems(table: Sequence[Row]) -> list[dict[str, Any]]:
    """Every run that did not end ok, cell by cell, with the log's own last words.

    Repeats of a cell that ended in the same way, with the same words, stand together.
    """
    problems: list[dict[str, Any]] = []
    for row in table:
        alike: dict[tuple[str, str, str], list[Run]] = {}
        for run in row.runs:
            if run.status != "ok":
                alike.setdefault((run.status, run.reason, run.last_words), []).append(run)
        for (status, reason, last_words), runs in alike.items():
            repeats = ", ".join(str(run.repeat) for run in runs) if len(row.runs) > 1 else ""
            problems.append(
                {
                    "cell": one_line(row.cell),
                    "status": status,
                    "reason": one_line(reason) or "no reason was recorded",
                    "repeats": repeats,
                    "last_words": _plain_lines(last_words),
                    "logs": _links(runs),
                }
            )
    return problems


def _links(runs: Iterable[Run]) -> list[dict[str, Any]]:
    return [{"repeat": run.repeat, "href": href(run.log)} for run in runs if href(run.log)]


def _plain_lines(text: str) -> str:
    return "\n".join(line for line in map(one_line, text.splitlines()) if line)


# --- environment ----------------------------------------------------------------------------------


def environment_section(records: Iterable[Record]) -> dict[str, Any]:
    """What the runs ran on, from the records' `environment` (any nesting of mappings).

    A mapping `nodes` or `hosts` ({host: facts}, or a list of facts with a `host`) is told apart
    into what all nodes share and what differs between them; everything else into what all cells
    share and what differs between cells. Keys of nested mappings are joined with " / ".
    """
    cells: dict[str, dict[str, str]] = {}
    nodes: dict[str, dict[str, str]] = {}
    for record in records:
        for name, value in record.environment.items():
            if name in ("nodes", "hosts") and (by_host := _by_host(value)):
                for host, facts in by_host.items():
                    nodes.setdefault(host, {}).update(
                        {k: v for k, v in _flat(facts).items() if v != host}
                    )
            else:
                cells.setdefault(record.cell, {}).update(_flat({name: value}))
    same, differs = _told_apart(cells, missing_differs=False)
    node_same, node_differs = _told_apart(nodes, missing_differs=True)
    return {
        "nodes": list(nodes),
        "same": same,
        "differs": differs,
        "node_same": node_same,
        "node_differs": node_differs,
    }


def _by_host(value: Any) -> dict[str, Mapping[str, Any]]:
    if isinstance(value, Mapping):
        if all(isinstance(facts, Mapping) for facts in value.values()):
            return {str(host): facts for host, facts in value.items()}
        return {}
    if isinstance(value, list | tuple) and all(isinstance(facts, Mapping) for facts in value):
        names = [str(f.get("host") or f.get("hostname") or "") for f in value]
        return dict(zip(names, value, strict=True)) if all(names) else {}
    return {}


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """{"a": {"b": 1}} -> {"a / b": "1"}; None and empty values are left out."""
    flat: dict[str, str] = {}
    for key, item in value.items():
        name = f"{prefix}{key}"
        if isinstance(item, Mapping):
            flat |= _flat(item, f"{name} / ")
        elif item is not None and (text := value_text(item)) not in ("", "[]"):
            flat[name] = text
    return flat


def _told_apart(
    owners: Mapping[str, Mapping[str, str]], *, missing_differs: bool
) -> tuple[list[tuple[str, str]], list[tuple[str, list[tuple[str, str]]]]]:
    """([(key, value)] that all owners share, [(key, [(value, the owners)])] that differs)."""
    same, differs = [], []
    for key in dict.fromkeys(key for facts in owners.values() for key in facts):
        by_value: dict[str, list[str]] = {}
        for owner, facts in owners.items():
            if key in facts or missing_differs:
                by_value.setdefault(facts.get(key, MISSING), []).append(owner)
        if len(by_value) == 1:
            same.append((key, next(iter(by_value))))
        else:
            differs.append((key, [(value, _some(names)) for value, names in by_value.items()]))
    return same, differs


def _some(names: Sequence[str], most: int = 6) -> str:
    shown = ", ".join(one_line(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


# --- plots ----------------------------------------------------------------------------------------

# matplotlib draws with stand-in colours that `_svg` turns into the page's CSS variables.
_TEXT, _FAINT, _GRID, _QUIET = "#010203", "#010204", "#010205", "#010206"
_SERIES = tuple(f"#0102{16 + index:02x}" for index in range(7))
_VARIABLES = {_TEXT: "--text", _FAINT: "--faint", _GRID: "--grid", _QUIET: "--quiet"} | {
    colour: f"--c{index}" for index, colour in enumerate(_SERIES)
}
_DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1.5, 1.5), (7, 2, 1.5, 2))
_STYLE = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 10,
    "text.color": _TEXT,
    "axes.labelcolor": _FAINT,
    "axes.edgecolor": _GRID,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.7,
    "xtick.color": _GRID,
    "ytick.color": _GRID,
    "xtick.labelcolor": _FAINT,
    "ytick.labelcolor": _FAINT,
    "ytick.left": False,
    "lines.linewidth": 1.6,
}
_WIDTH = 400  # SVG units: 1 px on a phone, about 1.35 px in two columns on a desktop
_POINTS = 300


def _mark(index: int) -> dict[str, str]:
    """Colour and dashes of the curve number `index`, for the page's own legend."""
    dashes = _DASHES[index // len(_SERIES) % len(_DASHES)]
    return {
        "colour": f"var(--c{index % len(_SERIES)})",
        "dashes": " ".join(str(2 * d) for d in dashes),
    }


def _line_style(index: int) -> dict[str, Any]:
    dashes = _DASHES[index // len(_SERIES) % len(_DASHES)]
    return {
        "color": _SERIES[index % len(_SERIES)],
        "linestyle": (0, dashes) if dashes else "-",
    }


_Paint = Callable[[Axes], Mapping[str, str]]


def _draw(name: str, label: str, height: float, paint: _Paint) -> Markup:
    """One plot as an inline SVG. `paint` draws and returns {gid: hover text}."""
    style = cast("dict[Any, Any]", _STYLE | {"svg.hashsalt": name})
    with mpl.rc_context(style), warnings.catch_warnings():
        # A glyph that matplotlib's own font lacks does not matter: the page's font draws it.
        warnings.simplefilter("ignore", UserWarning)
        figure = Figure(figsize=(_WIDTH / 72, height / 72), layout="constrained")
        titles = paint(figure.add_subplot())
        target = io.StringIO()
        figure.savefig(target, format="svg", transparent=True, metadata={"Date": None})
    return _inline(target.getvalue(), name, label, titles)


def _inline(svg: str, name: str, label: str, titles: Mapping[str, str]) -> Markup:
    """matplotlib's SVG file as an element of a page: no prolog, no sizes, ids of its own."""
    svg = svg[svg.index("<svg") :]
    # Its style rules are for every element of a document; the page has them for plots only.
    svg = re.sub(r"<(metadata|style)\b.*?</\1>", "", svg, flags=re.DOTALL)
    head, body = svg.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', head)
    aria = Markup('role="img" aria-label="{}"').format(label)
    body = re.sub(r'\bid="([^"]*)"', rf'id="{name}-\1"', body)
    body = re.sub(r'(url\(|href=")#', rf"\1#{name}-", body)
    for gid, title in titles.items():
        start = f'<g id="{name}-{gid}">'
        body = body.replace(start, f"{start}{Markup('<title>{}</title>').format(title)}")
    for colour, variable in _VARIABLES.items():
        body = body.replace(colour, f"var({variable})")
    return Markup(f"<svg {box.group() if box else ''} {aria}>{body}")  # noqa: S704 (made here)


def _plots(table: Sequence[Row], records: Sequence[Record]) -> dict[str, Any]:
    shown = curves(table, records)
    return {
        "throughput": throughput_svg(table) if any(_bar(row) for row in table) else None,
        "compared": any(row.comparison for row in table),
        "loss": curves_svg("loss", shown, _loss) if shown else None,
        "step_time": curves_svg("step time, ms", shown, _step_time) if shown else None,
        "legend": [
            {"label": one_line(record.cell), "mark": _mark(index)}
            for index, record in enumerate(shown)
        ],
    }


def _bar(row: Row) -> float | None:
    return row.samples_per_s if row.finished else None


def throughput_svg(table: Sequence[Row]) -> Markup:
    """Horizontal bars of median samples/s with p5 to p95 as a line; unfinished cells by status."""

    def paint(axes: Axes) -> dict[str, str]:
        summaries = [row.statistics.samples_per_s for row in table if _bar(row) is not None]
        most = max(summary.p95 for summary in summaries if summary)
        titles = {}
        for index, row in enumerate(table):
            axes.text(0, index - 0.36, one_line(row.cell), va="center", fontsize=9.5)
            summary = row.statistics.samples_per_s
            if _bar(row) is None or summary is None:
                axes.text(0, index + 0.08, row.status, va="center", fontsize=9, color=_FAINT)
                continue
            baseline = row.comparison is not None and row.comparison.is_baseline
            bar = axes.barh(
                index + 0.08, summary.median, height=0.42, color=_QUIET if baseline else _SERIES[0]
            )
            gid = f"bar{index}"
            bar.patches[0].set_gid(gid)
            titles[gid] = (
                f"{one_line(row.cell)}: {number_text(summary.median)} samples/s"
                f" (p5 {number_text(summary.p5)}, p95 {number_text(summary.p95)})"
            )
            axes.plot([summary.p5, summary.p95], [index + 0.08] * 2, color=_TEXT, linewidth=1.4)
            axes.text(
                max(summary.median, summary.p95) + most * 0.015,
                index + 0.08,
                number_text(summary.median),
                va="center",
                fontsize=9.5,
            )
        axes.set(xlim=(0, most * 1.16), ylim=(len(table) - 0.45, -0.7), xlabel="samples/s")
        axes.set_yticks([])
        axes.grid(visible=False, axis="y")
        return titles

    height = 34 + 30 * len(table)
    return _draw("throughput", "Median samples per second of every cell", height, paint)


def scaling_svg(series: Sequence[Mapping[str, Any]]) -> Markup:
    """samples/s over devices, one line a series, with its ideal line dotted."""

    def paint(axes: Axes) -> dict[str, str]:
        titles, ticks = {}, set()
        for index, one in enumerate(series):
            points = [(row.record.world_size, row.samples_per_s) for row in one["rows"]]
            devices, rates = zip(*points, strict=True)
            ticks |= set(devices)
            ideal = [rates[0] / devices[0] * count for count in devices]
            axes.plot(devices, ideal, color=_FAINT, linewidth=1, linestyle=(0, (1, 2)))
            (line,) = axes.plot(devices, rates, marker="o", markersize=4, **_line_style(index))
            line.set_gid(f"line{index}")
            titles[f"line{index}"] = f"{one['kind']}: {one['label']}"
        if max(ticks) > 8 * min(ticks):  # on both axes, so that ideal stays a straight line
            axes.set_xscale("log", base=2)
            axes.set_yscale("log", base=2)
            axes.yaxis.set_major_formatter("{x:.4g}")
        else:
            axes.set_xlim(left=0)
            axes.set_ylim(bottom=0)
        axes.set_xticks(sorted(ticks), labels=[str(tick) for tick in sorted(ticks)])
        axes.minorticks_off()
        axes.set(xlabel="devices", ylabel="samples/s")
        return titles

    return _draw("scaling", "Samples per second over the number of devices", 260, paint)


def curves(table: Sequence[Row], records: Sequence[Record]) -> list[Record]:
    """One run a cell whose curves are drawn: the first ok repeat, else the first that trained."""
    chosen = []
    for row in table:
        runs = [
            record
            for record in records
            if (record.campaign, record.cell_id, record.cell)
            == (row.record.campaign, row.record.cell_id, row.cell)
            and record.status not in WITHOUT_NUMBERS
            and record.measurement.intervals
        ]
        ok = [record for record in runs if record.status == "ok"]
        chosen += (ok or runs)[:1]
    return chosen


def _loss(interval: Interval, record: Record) -> float | None:
    return interval.loss


def _step_time(interval: Interval, record: Record) -> float | None:
    return step_time_ms(interval, record.global_batch_size)[0]


def curves_svg(
    title: str, runs: Sequence[Record], of: Callable[[Interval, Record], float | None]
) -> Markup | None:
    """A quantity over iterations, one line a run, thinned to _POINTS by medians of neighbours.

    The frame fits the values after warm-up; a slow first step may lie above it. None when no run
    has the quantity.
    """
    lines = [(index, record, _points(record, of)) for index, record in enumerate(runs)]
    lines = [line for line in lines if len(line[2])]
    if not lines:
        return None
    after = [
        value
        for record in runs
        for interval in after_warmup(record.measurement.intervals, record.warmup_iters)
        if (value := of(interval, record)) is not None and np.isfinite(value)
    ]

    def paint(axes: Axes) -> dict[str, str]:
        titles = {}
        for index, record, points in lines:
            marker: dict[str, Any] = {"marker": "o", "markersize": 3.5} if len(points) == 1 else {}
            (line,) = axes.plot(points[:, 0], points[:, 1], **marker, **_line_style(index))
            line.set_gid(f"line{index}")
            titles[f"line{index}"] = one_line(record.cell)
        if of is _step_time and after:
            low, high = np.min(after), np.percentile(after, 99)
            room = 0.15 * (high - low) or 0.1 * high
            axes.set_ylim(low - room, high + room)
        axes.set(xlabel="iteration", ylabel=title)
        axes.grid(visible=False, axis="x")
        return titles

    name = title.split(",")[0].replace(" ", "-")
    return _draw(name, f"{title} over iterations, one line a cell", 260, paint)


def _points(record: Record, of: Callable[[Interval, Record], float | None]) -> Any:
    """(n, 2) array of iteration and value, at most _POINTS rows; not-a-number left out."""
    pairs = [(i.iteration, of(i, record)) for i in record.measurement.intervals]
    points = np.array([p for p in pairs if p[1] is not None and np.isfinite(p[1])], dtype=float)
    if len(points) <= _POINTS:
        return points
    return np.array([np.median(part, axis=0) for part in np.array_split(points, _POINTS)])
