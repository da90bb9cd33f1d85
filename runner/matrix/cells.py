"""Axes, includes, excludes and defaults to cells, each key checked. Pure."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runner.base.env import SECRET, read_env
from runner.base.errors import UserError
from runner.base.suggest import nearest
from runner.matrix.keys import CELL_KEYS
from runner.systems.common.registry import load_system, system_names
from runner.systems.common.system import System
from runner.terms.cell import MOST_CELLS, Cell


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


def cells_of(content: Mapping[str, Any], where: str) -> Iterator[Cell]:
    """Yield the cells of a matrix file's content. Raises UserError that names the key."""
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
    if count > MOST_CELLS:
        raise UserError(
            f"{where}: the axes multiply to {count} cells; at most {MOST_CELLS} can run"
        )
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
    """Read a cell's variables, which stand in names, tables and campaign.json. Refuses secrets."""
    variables = read_env(value, where)
    for name in variables:
        if SECRET.search(name):
            raise UserError(
                f"{where}: {name} is named like a secret, and a matrix is recorded and shown as it"
                " is; set it in the inventory's cluster_env, of which its name alone is recorded"
            )
    return variables


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
    """Write an axis value as one word for names and tables."""
    if isinstance(value, dict):
        return "+".join(f"{name}:{label(item)}" for name, item in value.items()) or "none"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "+".join(label(item) for item in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    # One line whatever it holds: names stand in messages, tables and on terminals.
    return " ".join("".join(c if c.isprintable() else " " for c in str(value)).split())
