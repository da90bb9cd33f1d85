"""What starts a cluster's runs: the engine that an inventory names, and its keys. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, get_type_hints

from node.schema import UnfitError, value_text
from node.supervisor.placeholders import node_addr
from runner.base.dataclass_schema import read
from runner.base.errors import UserError
from runner.base.suggest import nearest
from runner.terms.cluster import Node
from runner.terms.engines.engine_settings import EngineSettings
from runner.terms.engines.engine_table import ENGINES

DEFAULT = "ssh"
_NUMBER = re.compile(r"[\d.eE+-]+")


def engine_named(values: Mapping[str, Any], where: str) -> type[EngineSettings]:
    """Return the engine that `cluster_engine` names. Raises UserError."""
    name = values.get("cluster_engine") or DEFAULT
    if name not in tuple(ENGINES):  # it may be a mapping, which has no hash
        must = f"it must be {' or '.join(ENGINES)}"
        raise UserError(f"{where}: cluster_engine is {value_text(name)}; {must}")
    return ENGINES[name]


def read_engine(values: Mapping[str, Any], where: str, device: str, devices: int) -> EngineSettings:
    """Read the keys that are set for the engine. Raises UserError.

    `device` and `devices` are what a node of the cluster has.
    """
    engine = engine_named(values, where)
    for candidate in ENGINES.values():
        keys_set = _values_set(candidate, values)
        if keys_set and candidate is not engine:
            raise UserError(
                f"{where}: {next(iter(keys_set))} is set, and cluster_engine is {engine.name}; set"
                f" cluster_engine: {candidate.name}, or take it out"
            )
    values_set = _values_set(engine, values)
    for key in engine.required():
        if key not in values_set:
            raise UserError(f"{where}: {key} is not set: {engine.inventory_keys()[key]}")
    try:
        settings: EngineSettings = read(engine, values_set, f"{where}:")
    except UnfitError as error:
        raise UserError(str(error)) from None
    for fault in settings.faults(device, devices):
        raise UserError(f"{where}: {fault}")
    return settings


def asked_keys(assignments: Sequence[str], where: str) -> dict[str, Any]:
    """Read KEY=VALUE words, of an engine's keys with or without their prefix, as `--queue` has
    them: a value is JSON, or a word. Raises UserError.
    """
    prefixed: dict[str, str] = {}
    words: set[str] = set()
    for engine in ENGINES.values():
        hints = get_type_hints(engine)
        for key in engine.inventory_keys():
            bare = key.removeprefix(engine.prefix)
            prefixed |= {key: key, bare: key}
            words |= {key} if hints.get(bare) == str | None else set()
    keys: dict[str, Any] = {}
    for word in assignments:
        name, equals, text = word.partition("=")
        if not equals:
            raise UserError(f"{where}: {value_text(word)} is not KEY=VALUE, such as qos=debug")
        name = name.replace("-", "_")
        if name not in prefixed:
            raise UserError(
                f"{where}: {value_text(name)} is not a key of an engine"
                f"{nearest(name, prefixed)}; docs/slurm.md lists them"
            )
        if prefixed[name] in keys:
            raise UserError(f"{where}: {name} is given twice; leave one")
        key = prefixed[name]
        keys[key] = text if key in words and _NUMBER.fullmatch(text) else _value(text)
    return keys


def _value(text: str) -> Any:
    """Read a number, a flag or a list as JSON has it; anything else is a word."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _values_set(engine: type[EngineSettings], values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: values[key] for key in engine.inventory_keys() if values.get(key) is not None}


def nodes_of_jobs(
    engine: EngineSettings, hosts: Sequence[Node], where: str, *, local: bool
) -> tuple[Node, ...]:
    """Return the nodes of any job, with words for what only it knows. Raises UserError.

    `hosts` are the inventory's own: the login node alone, whose root they share; `local`: bench
    runs there.
    """
    if len(hosts) > 1 or not local:
        raise UserError(
            f"{where}: a {engine.title} inventory has one host, the login node that bench runs on,"
            f" with ansible_connection: local; {engine.title} names the others (it has {len(hosts)}"
            f" {'hosts' if len(hosts) > 1 else 'host, which is reached by ssh'})"
        )
    (login,) = hosts
    return tuple(
        Node(f"rank{rank}", node_addr(rank), login.devices, login.root)
        for rank in range(engine.job_nodes)
    )
