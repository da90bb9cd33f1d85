"""A matrix file as cells: axes that multiply, excludes, includes, defaults. Pure, but for `load`.

    name: quickstart                  # of the campaign; default: the file's name
    defaults: {system: torch_gpt, model: gpt2-tiny, global_batch_size: 16}
    axes:                             # every combination is one cell
      zero_stage: [0, 1]
      devices_per_node: [1, 2]
    exclude:                          # drop the cells that match all keys of an entry
      - {zero_stage: 1, devices_per_node: 1}
    include:                          # add whole cells, on top of the defaults
      - {zero_stage: 3, devices_per_node: 2}
    repeats: 3                        # runs of each cell (default 1)
    warmup_iters: 5                   # first iterations left out of every figure (default: found
                                      # in the step times, see docs/measures.md)
    time_limit_s: 600                 # a run that lasts longer is ended (default 3600)
    stall_limit_s: 300                # one that prints nothing for so long, too (default 1800)
    baseline: zero_stage=0            # what `collect` compares with, unless told otherwise
    table: {shape: osdi}              # how `collect` lays the table out (docs/measures.md)
    published: published/osdi.yaml    # what a document printed, shown beside ours: file or list

docs/matrix.md explains each. A key of `defaults`, `axes`, `exclude` and `include` is a cell key
(below) or a parameter of the system (`python -m runner systems` lists them).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from runner.base.env import SECRET, read_env
from runner.base.errors import UserError
from runner.base.suggest import nearest
from runner.matrix import layouts, published
from runner.matrix.dialect import read_yaml
from runner.systems.common.registry import load_system, system_names
from runner.systems.common.system import System
from runner.terms.cell import Cell, Matrix, Parameter

MAX_CELLS = 10_000

# Keys that every system's cells have.
CELL_KEYS: Mapping[str, Parameter] = {
    item.name: item
    for item in (
        Parameter("system", str, None, "which trainer runs (see `python -m runner systems`)"),
        Parameter("pin", str, None, "which pin set of the system; default: its first"),
        Parameter("dataset", str, "default", "name of a dataset that setup staged on the nodes"),
        Parameter("nodes", int, 1, "nodes of the cell: the inventory's first ones", minimum=1),
        Parameter(
            "devices_per_node",
            int,
            None,
            "processes a node, one a device; default: 1, or as device_ids",
            minimum=1,
        ),
        Parameter("device_ids", list, None, "which devices of each node, such as [4, 5]"),
        Parameter("env", dict, None, "variables for every process"),
    )
}
TOP_KEYS: Mapping[str, str] = {
    "name": "name of the campaign",
    "defaults": "values that hold for every cell",
    "axes": "key to list of values; every combination is one cell",
    "exclude": "list of mappings; a cell that matches all keys of one is dropped",
    "include": "list of mappings; each adds a cell on top of the defaults",
    "repeats": "runs of each cell",
    "warmup_iters": "first iterations that no figure counts",
    "time_limit_s": "seconds after which a run is ended",
    "stall_limit_s": "seconds without a word from any node after which a run is ended",
    "baseline": "AXIS=VALUE that collect compares with",
    "table": "how collect lays the table out: shape, split, rows, columns, values, labels",
    "published": "figures that a document printed: a list, or the file that has it",
}
# Those of them that are numbers, with defaults and limits.
NUMBERS = tuple(
    Parameter(name, kind, default, TOP_KEYS[name], minimum=minimum)
    for name, kind, default, minimum in (
        ("repeats", int, 1, 1),
        ("warmup_iters", int, None, 0),
        ("time_limit_s", float, 3600.0, 1),
        ("stall_limit_s", float, 1800.0, 1),
    )
)


def load_matrix(path: Path) -> Matrix:
    """Read a matrix file. Raises UserError that names the key and the cure."""
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a matrix file, such as matrix.yaml")
    if not path.is_file():
        raise UserError(f"there is no matrix file {path}; matrix.yaml is the quickstart's")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not text in UTF-8, so it cannot be a matrix") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    return parse_matrix(text, str(path), path.stem, path.parent)


def parse_matrix(text: str, where: str, stem: str, folder: Path | None = None) -> Matrix:
    """A matrix from a file's text; `where` names it in messages, `stem` is its default name.

    `folder` is where files that it names lie; without it, it can name none.
    """
    content = read_yaml(text, where)
    if not isinstance(content, dict) or not content:
        raise UserError(f"{where} holds no matrix; it needs at least `defaults: {{system: ...}}`")
    for key in content:
        if key not in TOP_KEYS:
            hint = _place_of(str(key)) or nearest(str(key), TOP_KEYS)
            raise UserError(f"{where}: unknown key {key!r}{hint}; keys are {', '.join(TOP_KEYS)}")
    name = content.get("name", stem)
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise UserError(
            f"{where}: name is {name!r}; it names a folder, so use letters, digits, '.', '_', '-'"
        )
    numbers = {item.name: item.read(content.get(item.name), where) for item in NUMBERS}
    cells = tuple(_cells(content, where))
    if not cells:
        raise UserError(f"{where}: every cell is excluded; drop an entry of `exclude`")
    seen: dict[str, Cell] = {}
    for cell in cells:
        if cell.digest in seen:
            raise UserError(
                f"{where}: {cell.name!r} and {seen[cell.digest].name!r} are the same cell; drop one"
            )
        seen[cell.digest] = cell
    baseline = content.get("baseline")
    if baseline is not None and (not isinstance(baseline, str) or "=" not in baseline):
        raise UserError(f"{where}: baseline is {baseline!r}; write it as AXIS=VALUE")
    if baseline is not None:
        _check_baseline(baseline, cells, where)
    return Matrix(
        name=name,
        cells=cells,
        baseline=baseline,
        text=text,
        layout=layouts.check(content.get("table"), where),
        published=_published(content.get("published"), cells, where, folder),
        **numbers,
    )


def _published(
    value: Any, cells: Sequence[Cell], where: str, folder: Path | None
) -> Sequence[Mapping[str, Any]]:
    """The documents under `published`, from the file itself or the one it names."""
    if isinstance(value, str) and folder is not None:
        path = folder / value
        where = f"{where}: published: {path}"
        try:
            value = read_yaml(path.read_text(encoding="utf-8"), where)
        except (OSError, UnicodeDecodeError):
            raise UserError(f"{where} cannot be read; it names a file beside the matrix") from None
    return published.check(value, where, [_facts(cell) for cell in cells])


def _facts(cell: Cell) -> dict[str, Any]:
    """What a published row may name of a cell."""
    named = {key: getattr(cell, key) for key in CELL_KEYS}
    return {**cell.parameters, **named, **cell.axes}


def _place_of(key: str) -> str:
    """Where a cell key belongs that someone wrote at the top."""
    if key in CELL_KEYS or any(load_system(name).parameter(key) for name in system_names()):
        return " (a value of the cells: put it under `defaults` or `axes`)"
    return ""


def _check_baseline(baseline: str, cells: Sequence[Cell], where: str) -> None:
    """Refuse now what `collect` would refuse after hours of training."""
    axis, _, value = (word.strip() for word in baseline.partition("="))
    axes = list(dict.fromkeys(["system", *(key for cell in cells for key in cell.axes)]))
    if axis not in axes:
        raise UserError(
            f"{where}: baseline {baseline!r}: {axis!r} is not an axis{nearest(axis, axes)}; axes"
            f" are {', '.join(axes)}"
        )
    values = [{"system": cell.system, **cell.axes}.get(axis) for cell in cells]
    plain = [str(item).lower() for item in values if isinstance(item, str | int | float)]
    if len(plain) == len(values) and not any(_alike(value, item) for item in plain):
        there = list(dict.fromkeys(plain))
        raise UserError(
            f"{where}: baseline {baseline!r}: no cell has it{nearest(value, there)}; values are"
            f" {', '.join(there)}"
        )


def _alike(word: str, value: str) -> bool:
    """Whether they are the same word or the same number, as `collect` compares them."""
    try:
        return word.casefold() == value.casefold() or float(word) == float(value)
    except ValueError:
        return False


def _mapping(content: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    value = content.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UserError(f"{where}: {key} must be a mapping of keys to values")
    return {str(name): item for name, item in value.items()}


def _entries(content: Mapping[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    value = content.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) and item for item in value):
        raise UserError(f"{where}: {key} must be a list of mappings, one a line with `- {{...}}`")
    return value


def _cells(content: Mapping[str, Any], where: str) -> Iterator[Cell]:
    defaults = _mapping(content, "defaults", where)
    axes = _mapping(content, "axes", where)
    count = 1
    for key, values in axes.items():
        if not isinstance(values, list) or not values:
            raise UserError(
                f"{where}: axes: {key!r} must be a list such as [1, 2]; a fixed value goes under"
                " `defaults`"
            )
        if any(values.count(value) > 1 for value in values):
            raise UserError(f"{where}: axes: {key!r} names a value twice")
        count *= len(values)
    if count > MAX_CELLS:
        raise UserError(f"{where}: the axes multiply to {count} cells; at most {MAX_CELLS} can run")
    excludes = _entries(content, "exclude", where)
    includes = _entries(content, "include", where)
    for number, entry in enumerate(excludes, 1):
        for key in entry:
            if key not in axes:
                raise UserError(
                    f"{where}: exclude entry {number}: {key!r} is not an axis"
                    f"{nearest(key, axes)}; only axes can be excluded"
                )
    used = [False] * len(excludes)
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    for point in points if axes or not includes else []:
        hits = [all(point[key] == value for key, value in entry.items()) for entry in excludes]
        used = [was or hit for was, hit in zip(used, hits, strict=True)]
        if not any(hits):
            yield _cell({**defaults, **point}, point, defaults, where)
    for number, hit in enumerate(used, 1):
        if not hit:
            raise UserError(f"{where}: exclude entry {number} matches no cell; drop or correct it")
    for number, entry in enumerate(includes, 1):
        yield _cell({**defaults, **entry}, entry, defaults, f"{where}: include entry {number}")


def _cell(
    values: Mapping[str, Any], point: Mapping[str, Any], defaults: Mapping[str, Any], where: str
) -> Cell:
    if "system" not in values:
        raise UserError(
            f"{where}: no system is named; put one of {', '.join(system_names())} under"
            " `defaults: {system: ...}`"
        )
    system = load_system(CELL_KEYS["system"].read(values["system"], where))
    known = [*CELL_KEYS, *(item.name for item in system.parameters)]
    for key in values:
        if key not in known:
            raise UserError(
                f"{where}: {key!r} is not a key of {system.name}{nearest(str(key), known)};"
                f" `python -m runner systems {system.name}` lists them"
            )
    env = {
        **_public_env(defaults.get("env"), f"{where}: defaults: env"),
        **_public_env(values.get("env"), f"{where}: env"),
    }
    device_ids = _device_ids(values.get("device_ids"), where)
    devices = CELL_KEYS["devices_per_node"].read(values.get("devices_per_node"), where)
    if device_ids is not None and devices is not None and len(device_ids) != devices:
        raise UserError(
            f"{where}: device_ids names {len(device_ids)} devices, devices_per_node is {devices};"
            " leave devices_per_node out"
        )
    return Cell(
        name=_name(point) or system.name,
        system=system.name,
        pin=_pin(values.get("pin"), system, where),
        dataset=_dataset(values.get("dataset"), where),
        nodes=CELL_KEYS["nodes"].read(values.get("nodes"), where),
        devices_per_node=devices or (len(device_ids) if device_ids else 1),
        device_ids=device_ids,
        env=env,
        parameters=system.resolve(
            {item.name: item.read(values.get(item.name), where) for item in system.parameters}
        ),
        axes=dict(point),
    )


def _pin(value: Any, system: System, where: str) -> str:
    if value is None:
        return system.pins[0]
    if value not in system.pins:
        raise UserError(
            f"{where}: pin is {value!r}{nearest(str(value), system.pins)}; {system.name} has"
            f" {', '.join(system.pins)}"
        )
    return str(value)


def _dataset(value: Any, where: str) -> str:
    name = CELL_KEYS["dataset"].read(value, where)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UserError(f"{where}: dataset is {name!r}; it is a folder's name on the nodes")
    return str(name)


def _public_env(value: Any, where: str) -> dict[str, str]:
    """A cell's variables, which stand in names, tables and campaign.json. Refuses secrets."""
    found = read_env(value, where)
    for name in found:
        if SECRET.search(name):
            raise UserError(
                f"{where}: {name} is named like a secret, and a matrix is recorded and shown as it"
                " is; set it in the inventory's cluster_env, of which its name alone is recorded"
            )
    return found


def _device_ids(value: Any, where: str) -> tuple[int, ...] | None:
    if value is None:
        return None
    whole = isinstance(value, list) and all(
        isinstance(item, int) and not isinstance(item, bool) and item >= 0 for item in value
    )
    if not whole or not value or len(set(value)) != len(value):
        raise UserError(f"{where}: device_ids is {value!r}; list each device once, such as [4, 5]")
    return tuple(value)


def _name(point: Mapping[str, Any]) -> str:
    return ",".join(f"{key}={label(value)}" for key, value in point.items())


def label(value: Any) -> str:
    """An axis value as one word for names and tables."""
    if isinstance(value, dict):
        return "+".join(f"{name}:{label(item)}" for name, item in value.items()) or "none"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "+".join(label(item) for item in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    # One line whatever it holds: names stand in messages, tables and on terminals.
    return " ".join("".join(c if c.isprintable() else " " for c in str(value)).split())
