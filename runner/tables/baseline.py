"""Rows against a baseline: each with the cell of the same other axes, as signed differences."""

from collections.abc import Sequence
from dataclasses import replace

from runner.base.errors import UserError
from runner.base.suggest import alike, nearest
from runner.figures.between_runs import of_values, rate_difference
from runner.figures.cell_statistics import runs_that_count
from runner.figures.parity import parity, task_differs
from runner.figures.target import compare_learning
from runner.tables.catalogue.every_column import COMPARED, value
from runner.tables.formatting import value_text
from runner.tables.row import BaselineComparison, Difference, Row, axis_names


def with_baseline(table: Sequence[Row], baseline: str, *, requested: bool = True) -> list[Row]:
    """Compare each row with its counterpart.

    `baseline` is AXIS=VALUE. Where no cell has that axis or value, a person who asked for it gets a
    UserError; one of the campaign's own leaves a note in place of differences.
    """
    try:
        axis, base_value = _parse(table, baseline)
    except UserError:
        if requested:
            raise
        axis, _, base_value = (side.strip() for side in baseline.partition("="))
    axes = dict.fromkeys(name for row in table for name in row.record.axes)
    other_axes = [name for name in axis_names(table) if name != axis]
    # An axis that a person named may imply the system: a trainer, say.
    told_apart = (
        [other_axes] if "system" in axes else [other_axes, [n for n in other_axes if n != "system"]]
    )

    def key(row: Row, names: Sequence[str]) -> tuple[str, ...]:
        return (row.record.campaign, *(value_text(row.value(name)) for name in names))

    bases: list[dict[tuple[str, ...], list[Row]]] = [{} for _ in told_apart]
    for row in table:
        if value_text(row.value(axis)) == base_value:
            for names, by_key in zip(told_apart, bases, strict=True):
                by_key.setdefault(key(row, names), []).append(row)

    def counterparts(row: Row) -> Sequence[Row]:
        matches = (by_key.get(key(row, n), []) for n, by_key in zip(told_apart, bases, strict=True))
        return next(filter(None, matches), [])

    return [
        replace(row, comparison=_compare(row, counterparts(row), axis, base_value)) for row in table
    ]


def _parse(table: Sequence[Row], baseline: str) -> tuple[str, str]:
    axis, _, base_value = (side.strip() for side in baseline.partition("="))
    if not axis or not base_value:
        raise UserError(f"baseline {baseline!r} should read AXIS=VALUE, for example zero_stage=0")
    names = axis_names(table)
    if axis not in names:
        listed = ", ".join(names) or "none (no cells)"
        raise UserError(
            f"baseline {baseline!r}: no cell has the axis {axis!r}"
            f"{nearest(axis, names)}; axes: {listed}"
        )
    values = list(dict.fromkeys(value_text(row.value(axis)) for row in table))
    for listed in values:
        if alike(base_value, listed):
            return axis, listed
    raise UserError(
        f"baseline {baseline!r}: no cell has {axis}={base_value}"
        f"{nearest(base_value, values)}; values: {', '.join(values)}"
    )


def _compare(
    row: Row, counterparts: Sequence[Row], axis: str, base_value: str
) -> BaselineComparison:
    comparison = BaselineComparison(
        axis, base_value, is_baseline=any(base is row for base in counterparts)
    )
    if not counterparts:
        return replace(comparison, note=f"no cell with {axis}={base_value} and the same other axes")
    if len(counterparts) > 1:
        return replace(comparison, note=f"{len(counterparts)} cells match {axis}={base_value}")
    base = counterparts[0]
    comparison = replace(comparison, base=base)
    if comparison.is_baseline:
        return comparison
    differs = task_differs(row.record, base.record, schedule=False)
    learning = compare_learning(row.target, base.target, differs)
    comparison = replace(comparison, learning=learning)
    for either in (row, base):
        if not either.finished:
            return replace(comparison, note=f"{either.cell} has no finished run")
    if _windows_differ(row, base):
        comparison = replace(comparison, note="the two were measured over different iterations")
    differences = {}
    ran, base_ran = row.statistics.times, base.statistics.times
    between = rate_difference(ran, base_ran) if ran and base_ran else None
    ours_rss, theirs_rss = row.statistics.rss_by_run, base.statistics.rss_by_run
    both = ours_rss and theirs_rss
    of_rss = rate_difference(of_values(theirs_rss), of_values(ours_rss)) if both else None
    for name in COMPARED:
        ours, theirs = value(row, name), value(base, name)
        if ours is not None and theirs:
            absolute = ours - theirs
            sure = {"samples_per_s": between, "memory_rss_mib": of_rss}.get(name)
            differences[name] = Difference(absolute, absolute / theirs * 100, sure)
    _, ours_ran = runs_that_count(row.records)
    _, theirs_ran = runs_that_count(base.records)
    return replace(comparison, differences=differences, parity=parity(ours_ran, theirs_ran))


def _windows_differ(row: Row, base: Row) -> bool:
    """Say whether other iterations were measured. A warm-up that was found may end elsewhere in
    each run.
    """
    ours, theirs = row.statistics.window, base.statistics.window
    if row.statistics.warmup_found and base.statistics.warmup_found and ours and theirs:
        return ours[1] != theirs[1]
    return ours != theirs
