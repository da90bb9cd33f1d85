"""How a table is laid out: the `table` of a matrix, or `collect --shape`. Pure data.

    table:
      shape: frameworks             # see SHAPES
      split: [nodes]                # one table for each value of these keys
      rows: [model, zero_stage]     # keys that name a row
      columns: [system]             # keys whose values become columns
      values: [samples_per_s]       # machine columns that each of them shows
      labels: {test_num: "test-{number}"}   # a shape's own columns for our cells

A key is an axis, a parameter or size of a cell, or the name of a label.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runner.base.errors import UserError
from runner.base.suggest import nearest

# The documents: docs/documents.md.
SHAPES: Mapping[str, str] = {
    "flat": "one row per cell, one column per figure: everything",
    "osdi": "document 003: a table a scale, differences from the baseline row in the cells",
    "ascend": "document 004: NAME, params, PPL, samples/s, seq_len, Steps; published rows between",
    "frameworks": "document 000: a row a case, the systems side by side",
    "pivot": "rows, columns and values as you name them",
}
# Which keys of `table` a shape reads, beside `shape`.
_USED: Mapping[str, frozenset[str]] = {
    "flat": frozenset(),
    "osdi": frozenset({"split", "labels"}),
    "ascend": frozenset({"split", "labels"}),
    "frameworks": frozenset({"split", "rows", "columns", "values"}),
    "pivot": frozenset({"split", "rows", "columns", "values"}),
}
LABELS: Mapping[str, tuple[str, ...]] = {
    "osdi": ("table", "date", "test_num", "test_desc", "layout"),
    "ascend": ("table", "name", "params", "seq_len"),
}
_LISTS = ("split", "rows", "columns", "values")


@dataclass(frozen=True)
class TableShape:
    """What `table` asks for; None: the shape's own choice."""

    shape: str = "flat"
    split: tuple[str, ...] | None = None
    rows: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    values: tuple[str, ...] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


def check_table(value: Any, where: str) -> dict[str, Any]:
    """Check a matrix's `table` as plain data. Raises UserError naming the key and the cure."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UserError(f"{where}: table must be a mapping such as {{shape: osdi}}")
    keys = ("shape", *_LISTS, "labels")
    for key in value:
        if key not in keys:
            hint = nearest(str(key), keys)
            raise UserError(
                f"{where}: table: unknown key {key!r}{hint}; keys are {', '.join(keys)}"
            )
    for key in _LISTS:
        names = value.get(key)
        good = isinstance(names, list) and names and all(isinstance(name, str) for name in names)
        if names is not None and not good:
            raise UserError(f"{where}: table: {key} is {names!r}; write a list such as [nodes]")
    shape = shape_named(value.get("shape", "flat"), f"{where}: table: shape")
    labels = value.get("labels") or {}
    if not isinstance(labels, dict):
        raise UserError(f"{where}: table: labels must be a mapping of columns to texts")
    columns = LABELS.get(shape, ())
    for name in labels:
        if shape in LABELS and name not in columns:
            raise UserError(
                f"{where}: table: labels: shape {shape} has no column {name!r}"
                f"{nearest(str(name), columns)}; columns are {', '.join(columns)}"
            )
    for key in (*_LISTS, "labels"):
        if value.get(key) and key not in _USED[shape]:
            fits = ", ".join(name for name, used in _USED.items() if key in used)
            raise UserError(f"{where}: table: shape {shape} has no {key}; {fits} have it")
    return dict(value)


def shape_named(name: Any, where: str) -> str:
    """Return one of SHAPES. Raises UserError naming the nearest."""
    if name not in tuple(SHAPES):  # it may be a mapping, which has no hash
        names = ", ".join(SHAPES)
        raise UserError(f"{where} is {name!r}{nearest(str(name), SHAPES)}; shapes are {names}")
    return str(name)


def shape_of(content: Mapping[str, Any] | None, shape: str | None = None) -> TableShape:
    """Build the shape from a checked `table`; another `shape` takes only what it reads of it."""
    content = content or {}
    declared_shape = str(content.get("shape", "flat"))
    shape = declared_shape if shape is None else shape_named(shape, "--shape")
    used = {key: content[key] for key in _USED[shape] if content.get(key)}
    labels: Mapping[str, Any] = used.pop("labels", {})
    lists: dict[str, Sequence[str]] = used
    return TableShape(
        shape=shape,
        labels={name: str(text) for name, text in labels.items()},
        **{key: tuple(names) for key, names in lists.items()},
    )
