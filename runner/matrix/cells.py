"""Axes, includes, excludes and defaults to cells, each key checked. Pure."""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from node.schema import UnfitError
from node.validated_text import FileName
from runner.base.env import read_env
from runner.base.errors import Faults, UserError
from runner.base.masking import is_secret
from runner.base.suggest import nearest
from runner.matrix.faults_key import read_faults, read_recovery
from runner.matrix.keys import CELL_KEYS
from runner.matrix.profile_key import read_profile
from runner.systems.common.registry import load_system, system_names
from runner.systems.common.system import System
from runner.terms.cell import MOST_CELLS, Cell
from runner.terms.engines.engine_table import PLACEMENT

MOST_LETTERS = 10_000_000  # of all cells' names and values
DevicesOf = Callable[[int], int]  # how many devices each of the first so many nodes has
_MOST_ENTRIES = {"include": MOST_CELLS, "exclude": 1_000}


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
        raise UserError(f"{where}: {key} must be a list of mappings, one per line with `- {{...}}`")
    if len(value) > _MOST_ENTRIES[key]:
        raise UserError(f"{where}: {key} has {len(value)} entries, more than {_MOST_ENTRIES[key]}")
    return value


def bounded(cells: Iterable[Cell], where: str) -> tuple[Cell, ...]:
    """Gather the cells of a matrix file, as long as one campaign can hold them.

    Raises UserError before they fill the memory: a few lines can multiply a long text.
    """
    gathered: list[Cell] = []
    letters = 0
    for cell in cells:
        gathered.append(cell)
        letters += _letters(cell)
        if len(gathered) > MOST_CELLS or letters > MOST_LETTERS:
            raise UserError(
                f"{where}: there are more than {MOST_CELLS} cells, or their names and values"
                f" have more than {MOST_LETTERS} characters; make several matrices"
            )
    return tuple(gathered)


def _letters(cell: Cell) -> int:
    texts = [text for value in cell.parameters.values() for text in _texts(value)]
    texts += [cell.name, cell.dataset, *cell.env, *cell.env.values()]
    texts += [text for requested in cell.placement.values() for text in _texts(requested)]
    return sum(map(len, texts)) + len(cell.device_ids or ())


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value, which may be a list or mapping of them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for element in (*value, *value.values()) if isinstance(value, dict) else value:
            yield from _texts(element)


def cells_of(content: Mapping[str, Any], where: str, devices_of: DevicesOf) -> Iterator[Cell]:
    """Yield the cells of a matrix file's content. Raises UserError that names the key.

    A cell that names no devices has all that its nodes have, by `devices_of`.
    """
    defaults = _mapping(content, "defaults", where)
    axes = _mapping(content, "axes", where)
    count = 1
    for key, values in axes.items():
        if not isinstance(values, list) or not values:
            raise UserError(
                f"{where}: axes: {key!r} must be a list such as [1, 2]; a fixed value goes under"
                " `defaults`"
            )
        count *= len(values)
        if count > MOST_CELLS:
            raise UserError(
                f"{where}: the axes multiply to {count} cells; at most {MOST_CELLS} can run"
            )
        if len({_hashed(value) for value in values}) < len(values):
            raise UserError(f"{where}: axes: {key!r} names a value twice")
        word, times = Counter(map(label, values)).most_common(1)[0]
        if times > 1:
            raise UserError(
                f"{where}: axes: {key!r} has two values that are both written {word}, so that their"
                " cells have one name; leave one"
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
    drop = _Excludes(excludes)
    faults = Faults()
    shared = public_env(defaults.get("env"), f"{where}: defaults: env")
    pins = _mapping(content, "pins", where)
    points = (dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))
    for point in points if axes or not includes else ():
        if not drop.matches(point):
            with faults.gathered():
                yield _cell({**defaults, **point}, point, shared, where, devices_of, pins)
    for number in drop.unused:
        with faults.gathered():
            raise UserError(f"{where}: exclude entry {number} matches no cell; drop or correct it")
    for number, entry in enumerate(includes, 1):
        entry_label = f"{where}: include entry {number}"
        keys = {key: value for key, value in entry.items() if key != "axes"}
        with faults.gathered():
            axes_of_entry = _own_axes(entry, entry_label) or keys
            yield _cell({**defaults, **keys}, axes_of_entry, shared, entry_label, devices_of, pins)
    faults.check()


def _own_axes(entry: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return what an include entry is called by, if it says that itself."""
    axes = _mapping(entry, "axes", where)
    for key, value in axes.items():
        if not key or isinstance(value, list | dict) or value is None:
            raise UserError(f"{where}: axes: {key!r} must be one value, such as {{size: 345M}}")
    return axes


class _Excludes:
    """The entries of `exclude` by what they name, so that a point is looked up in few steps.

    `unused` are the numbers of those that no point has matched.
    """

    def __init__(self, entries: Sequence[Mapping[str, Any]]) -> None:
        self.unused = dict.fromkeys(range(1, len(entries) + 1))
        self._numbers: dict[tuple[str, ...], dict[Hashable, list[int]]] = {}
        for number, entry in enumerate(entries, 1):
            alike = self._numbers.setdefault(tuple(entry), {})
            alike.setdefault(_hashed([*entry.values()]), []).append(number)

    def matches(self, point: Mapping[str, Any]) -> bool:
        """Return whether an entry drops the point."""
        hits = [
            number
            for keys, alike in self._numbers.items()
            for number in alike.get(_hashed([point[key] for key in keys]), ())
        ]
        for number in hits:
            self.unused.pop(number, None)
        return bool(hits)


def _hashed(value: Any) -> Hashable:
    """Return what is equal for equal values."""
    if isinstance(value, dict):
        return frozenset((key, _hashed(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(map(_hashed, value))
    return (bool, value) if isinstance(value, bool) else value  # True is 1 to Python


def _cell(
    values: Mapping[str, Any],
    point: Mapping[str, Any],
    shared: Mapping[str, str],
    where: str,
    devices_of: DevicesOf,
    pins: Collection[str],
) -> Cell:
    if "system" not in values:
        raise UserError(
            f"{where}: no system is named; put one of {', '.join(system_names())} under"
            " `defaults: {system: ...}`"
        )
    system = load_system(CELL_KEYS["system"].read(values["system"], where))
    keys = [*CELL_KEYS, *(item.name for item in system.parameters)]
    system_keys = {key: value for key, value in values.items() if key not in keys}
    faults = Faults()
    for key in system_keys:
        if not system.own_keys or not isinstance(key, str):
            with faults.gathered():
                raise UserError(
                    f"{where}: {key!r} is not a key of {system.name}{nearest(str(key), keys)};"
                    f" `python -m runner systems {system.name}` lists them"
                )
    parameters = {}
    for item in system.parameters:
        with faults.gathered():
            parameters[item.name] = item.read(values.get(item.name), where)
    faults.check()
    env = {**shared, **public_env(values.get("env"), f"{where}: env")}
    nodes = CELL_KEYS["nodes"].read(values.get("nodes"), where)
    devices_per_node, device_ids = _devices(values, nodes, where, devices_of)
    on_purpose = read_faults(values.get("faults"), where)
    return Cell(
        name=_name(point) or system.name,
        system=system.name,
        pin=_pin(values.get("pin"), system, where, pins),
        dataset=_dataset(values.get("dataset"), system, where),
        nodes=nodes,
        devices_per_node=devices_per_node,
        device_ids=device_ids,
        env=env,
        parameters=system.resolve(parameters | system_keys),
        axes=dict(point),
        placement=_placement(values, where),
        profile=read_profile(values.get("profile"), system, where),
        faults=on_purpose,
        recovery=read_recovery(values.get("recovery"), on_purpose, where),
    )


def _placement(values: Mapping[str, Any], where: str) -> dict[str, str | tuple[str, ...]]:
    """Read what a cell asks of a scheduler in place of the inventory."""
    placement = {
        key: values[key]
        if CELL_KEYS[key].kind is object
        else CELL_KEYS[key].read(values[key], where)
        for key in PLACEMENT
        if key in values
    }
    try:
        return {
            key: PLACEMENT[key].cell_value(key, value, f"{where}: {key}")
            for key, value in placement.items()
            if value is not None
        }
    except UnfitError as error:
        raise UserError(str(error)) from None


def _pin(value: Any, system: System, where: str, matrix_pins: Collection[str]) -> str:
    """Read which pin set; of a system whose pin sets inventories declare, any or "" for none.

    `matrix_pins` are the names of those in the matrix.
    """
    if isinstance(value, str) and value in matrix_pins:
        return value
    if not system.pins:
        try:
            return FileName(value, f"{where}: pin") if value else ""
        except UnfitError as error:
            raise UserError(str(error)) from None
    if value is None:
        return system.pins[0]
    if value not in system.pins:
        raise UserError(
            f"{where}: pin is {value!r}{nearest(str(value), system.pins)}; {system.name} has"
            f" {', '.join(system.pins)}, and the matrix may have its own under `pins`"
        )
    return str(value)


def _dataset(value: Any, system: System, where: str) -> str:
    """Read which dataset; a system without pin sets of its own reads none unless one is named."""
    if not system.pins and not value:
        return ""
    name = CELL_KEYS["dataset"].read(value, where)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UserError(f"{where}: dataset is {name!r}; it is a folder's name on the nodes")
    return str(name)


def public_env(value: Any, where: str) -> dict[str, str]:
    """Read a cell's variables, which appear in names, tables and campaign.json. Refuses secrets."""
    variables = read_env(value, where)
    for name in variables:
        if is_secret(name):
            raise UserError(
                f"{where}: {name} looks like a secret, and a matrix is stored and shown in full;"
                " set it in the inventory's cluster_env, which records only its name"
            )
    return variables


def _devices(
    values: Mapping[str, Any], nodes: int, where: str, devices_of: DevicesOf
) -> tuple[int, tuple[int, ...] | None]:
    """Return devices_per_node and device_ids."""
    devices = CELL_KEYS["devices_per_node"].read(values.get("devices_per_node"), where)
    device_ids = _device_ids(values.get("device_ids"), where)
    if device_ids is not None and devices not in (None, len(device_ids)):
        raise UserError(
            f"{where}: device_ids names {len(device_ids)} devices, devices_per_node is {devices};"
            " leave devices_per_node out"
        )
    if devices is not None or device_ids is not None:
        return devices or len(device_ids or ()), device_ids
    return devices_of(nodes), None


def _device_ids(value: Any, where: str) -> tuple[int, ...] | None:
    if value is None:
        return None
    valid = isinstance(value, list) and all(
        isinstance(item, int) and not isinstance(item, bool) and item >= 0 for item in value
    )
    if not valid or not value or len(set(value)) != len(value):
        raise UserError(f"{where}: device_ids is {value!r}; list each device once, such as [4, 5]")
    return tuple(value)


def _name(point: Mapping[str, Any]) -> str:
    return ",".join(f"{key}={label(value)}" for key, value in point.items())


def label(value: Any) -> str:
    """Write an axis value as one word for names and tables."""
    if isinstance(value, dict):
        return "+".join(f"{name}:{label(item)}" for name, item in value.items()) or "none"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "+".join(label(item) for item in value) or "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    # One line whatever it holds: names stand in messages, tables and on terminals.
    return " ".join("".join(c if c.isprintable() else " " for c in str(value)).split())
