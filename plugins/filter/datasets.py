"""Filters of the role dataset: what to stage, and which node makes, gives and gets it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
GIVERS = 4  # nodes that give one dataset: each gives on to others, so more would only wait


def dataset_entries(
    catalogue: Mapping[str, Any],
    names: Iterable[str],
    own: Mapping[str, Any],
    corpus: Mapping[str, Any],
    preprocess: Mapping[str, Any],
) -> dict[str, dict[str, Any] | None]:
    """Name to what the catalogue says of it; None for one that nobody describes.

    `own` adds to the catalogue or replaces entries, `corpus` says how the default corpus is made,
    `preprocess` names datasets that a trainer's own program is to tokenize. Raises ValueError.
    """
    described = {**catalogue["dataset_catalogue"], **own}
    for name in preprocess:
        if name not in described:
            raise ValueError(f"dataset_preprocess names {name}, which the catalogue does not have")
    found: dict[str, dict[str, Any] | None] = {}
    for name in names:
        if not NAME.fullmatch(name):
            raise ValueError(f"dataset {name!r}: a name is letters, digits, '.', '_' and '-'")
        found[name] = None
        if name in described:
            entry = dict(described[name])
            if "corpus" in entry:
                entry["corpus"] = dict(corpus)
            else:
                entry["inputs"] = [_input(each, catalogue, name) for each in entry["inputs"]]
                entry.update(_program(name, entry, preprocess))
            found[name] = entry
    return found


def _input(each: Any, catalogue: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An input, which an entry describes or names."""
    if isinstance(each, str):
        if each not in catalogue["dataset_inputs"]:
            raise ValueError(f"dataset {name}: the catalogue has no input {each}")
        each = catalogue["dataset_inputs"][each]
    for key in ("file", "address"):
        if key not in each:
            raise ValueError(f"dataset {name}: an input has no {key!r}")
    if not each.get("sha256") and not each.get("md5"):
        raise ValueError(
            f"dataset {name}: {each['file']} has no checksum; give sha256, or `sha256: recorded`"
        )
    return dict(each)


def _program(
    name: str, entry: Mapping[str, Any], preprocess: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """The trainer whose program tokenizes, if the inventory names one."""
    if name not in preprocess:
        return {}
    chosen = preprocess[name]
    argv = chosen.get("argv") or entry.get("preprocess")
    if not argv:
        raise ValueError(f"dataset_preprocess.{name} needs argv: its entry has no `preprocess`")
    return {"program": {"system": chosen["system"], "pin": chosen["pin"], "argv": list(argv)}}


def dataset_addresses(entries: Mapping[str, Any]) -> list[str]:
    """The public addresses of all inputs."""
    inputs = [each for entry in entries.values() for each in (entry or {}).get("inputs", [])]
    return sorted({each["address"] for each in inputs})


def dataset_needs(entries: Mapping[str, Any]) -> list[str]:
    """What the tools' environment must be able to do: tokenize, wiki; empty if it is not needed."""
    needs = set()
    for entry in entries.values():
        if "wiki" in entry:
            needs.add("wiki")
        if "corpus" in entry or ("tokens" not in entry and "program" not in entry):
            needs.add("tokenize")
    return sorted(needs)


def dataset_plan(looked: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Who makes, gives and gets what, from what each node said of itself (node/dataset/look.py).

    make: names that no node has, maker: the node to make them (the one that has begun most of
    them, else the first); gives and gets: node to names. The first node that has a dataset says
    which one is meant, where two differ.
    """
    plan: dict[str, Any] = {"make": [], "maker": "", "identity": {}, "gives": {}, "gets": {}}
    silent = {"identity": "", "begun": 0}
    for name in names:
        said = {host: found.get("datasets", {}).get(name, silent) for host, found in looked.items()}
        identity = next((each["identity"] for each in said.values() if each["identity"]), "")
        if not identity:
            plan["make"].append(name)
            continue
        plan["identity"][name] = identity
        givers = [host for host, each in said.items() if each["identity"] == identity]
        getters = [host for host in said if host not in givers]
        for host in givers[:GIVERS] if getters else []:
            plan["gives"].setdefault(host, []).append(name)
        for host in getters:
            plan["gets"].setdefault(host, []).append(name)
    if plan["make"]:
        begun = {
            host: sum(found.get("datasets", {}).get(name, silent)["begun"] for name in plan["make"])
            for host, found in looked.items()
        }
        plan["maker"] = max(begun, key=lambda host: begun[host])
    return plan


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Filter names and their functions."""
        return {
            "dataset_addresses": dataset_addresses,
            "dataset_entries": dataset_entries,
            "dataset_needs": dataset_needs,
            "dataset_plan": dataset_plan,
        }
