"""What an inventory's datasets are, by the catalogue: for setup and validate."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

# Name to what the catalogue says of it; None for one that nobody describes.
Described = dict[str, dict[str, Any] | None]
# Literals of roles/dataset/vars/main.yml.
PINS = ("__dataset_pins", "__dataset_pins_now", "__dataset_pins_wiki")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def entries(
    catalogue: Mapping[str, Any],
    names: Iterable[str],
    own_entries: Mapping[str, Any],
    corpus: Mapping[str, Any],
    preprocess: Mapping[str, Any],
) -> Described:
    """Return name to what the catalogue says of it; None for one that nobody describes.

    `own_entries` adds to the catalogue or replaces entries, `corpus` says how the default corpus is
    made. `preprocess` names datasets that a trainer is to tokenize. Raises ValueError.
    """
    described = {**catalogue["dataset_catalogue"], **own_entries}
    for name in preprocess:
        if name not in described:
            raise ValueError(f"dataset_preprocess names {name}, which the catalogue does not have")
    described_entries: Described = {}
    for name in names:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ValueError(f"dataset {name!r}: a name is letters, digits, '.', '_' and '-'")
        described_entries[name] = None
        if name in described:
            entry = dict(described[name])
            if "corpus" in entry:
                entry["corpus"] = dict(corpus)
            else:
                entry["inputs"] = [_input(source, catalogue, name) for source in entry["inputs"]]
                entry.update(_program(name, entry, preprocess))
            described_entries[name] = entry
    return described_entries


def _input(source: Any, catalogue: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An input, which an entry describes or names."""
    if isinstance(source, str):
        if source not in catalogue["dataset_inputs"]:
            raise ValueError(f"dataset {name}: the catalogue has no input {source}")
        source = catalogue["dataset_inputs"][source]
    for key in ("file", "address"):
        if key not in source:
            raise ValueError(f"dataset {name}: an input has no {key!r}")
    if not source.get("sha256") and not source.get("md5"):
        raise ValueError(
            f"dataset {name}: {source['file']} has no checksum; give sha256, or `sha256: recorded`"
        )
    return dict(source)


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


def addresses(described: Mapping[str, Any]) -> list[str]:
    """Return the public addresses of all inputs."""
    inputs = [source for entry in described.values() for source in (entry or {}).get("inputs", [])]
    return sorted({source["address"] for source in inputs})


def recorded(described: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return, by a dataset's name, the addresses whose first download's checksum is recorded."""
    return {
        name: sorted(
            file["address"]
            for file in (entry or {}).get("inputs", [])
            if file.get("sha256") == "recorded"
        )
        for name, entry in described.items()
    }


def needs(described: Mapping[str, Any]) -> list[str]:
    """Return what the tools' environment must be able to do: tokenize, wiki; empty if nothing."""
    abilities = set()
    for entry in filter(None, described.values()):
        if "wiki" in entry:
            abilities.add("wiki")
        if "corpus" in entry or ("tokens" not in entry and "program" not in entry):
            abilities.add("tokenize")
    return sorted(abilities)


def tools(needed: Iterable[str], python: str, literals: Mapping[str, Any]) -> list[str]:
    """Return the tools' exact pins for a Python such as 3.9.

    `literals` has PINS.
    """
    pins = literals["__dataset_pins"].get(python, literals["__dataset_pins_now"])
    return [*pins, *(literals["__dataset_pins_wiki"] if "wiki" in needed else [])]
