"""What an inventory's datasets are, by the catalogue: for setup, validate and prefetch."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

# Name to what the catalogue says of it; None for one that nobody describes.
Described = dict[str, dict[str, Any] | None]
# Literals of roles/dataset/vars/main.yml, which prefetch reads, too.
PINS = ("__dataset_pins", "__dataset_pins_now", "__dataset_pins_wiki")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def entries(
    catalogue: Mapping[str, Any],
    names: Iterable[str],
    own: Mapping[str, Any],
    corpus: Mapping[str, Any],
    preprocess: Mapping[str, Any],
) -> Described:
    """Return name to what the catalogue says of it; None for one that nobody describes.

    `own` adds to the catalogue or replaces entries, `corpus` says how the default corpus is made,
    `preprocess` names datasets that a trainer's own program is to tokenize. Raises ValueError.
    """
    described = {**catalogue["dataset_catalogue"], **own}
    for name in preprocess:
        if name not in described:
            raise ValueError(f"dataset_preprocess names {name}, which the catalogue does not have")
    found: Described = {}
    for name in names:
        if not isinstance(name, str) or not NAME.fullmatch(name):
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


def addresses(described: Mapping[str, Any]) -> list[str]:
    """Return the public addresses of all inputs."""
    inputs = [each for entry in described.values() for each in (entry or {}).get("inputs", [])]
    return sorted({each["address"] for each in inputs})


def needs(described: Mapping[str, Any]) -> list[str]:
    """Return what the tools' environment must be able to do: tokenize, wiki; empty if nothing."""
    found = set()
    for entry in filter(None, described.values()):
        if "wiki" in entry:
            found.add("wiki")
        if "corpus" in entry or ("tokens" not in entry and "program" not in entry):
            found.add("tokenize")
    return sorted(found)


def tools(needed: Iterable[str], python: str, literals: Mapping[str, Any]) -> list[str]:
    """Return the tools' exact pins for a Python such as 3.9.

    `literals` has PINS.
    """
    pins = literals["__dataset_pins"].get(python, literals["__dataset_pins_now"])
    return [*pins, *(literals["__dataset_pins_wiki"] if "wiki" in needed else [])]
