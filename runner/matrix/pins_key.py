"""`pins:` of a matrix: pin sets of its own, which `setup --matrix`, `ci` and `bisect` build. Pure.

pins:
  main:                              # the keys of a pin set (docs/adding-a-system.md)
    torch: {version: 2.12.1}
    source: {repository: ., commit: 5f64...}       # .: the matrix's own git repository
  torch-2.13: {from: main, with: [torch==2.13.0]}             # the same with other versions
  nccl-2.30: {from: torch_gpt/torch-2.13, with: [nvidia-nccl-cu13==2.30.7]}  # of a system's own set

A cell names one by `pin`, so `axes: {pin: [main, torch-2.13]}` compares versions.
"""

import copy
import re
from collections.abc import Mapping
from typing import Any

from node.schema import UnfitError
from node.validated_text import FileName
from plugins.pin_kinds import PIN_SET
from runner.base.errors import UserError
from runner.base.suggest import nearest
from runner.systems.common.pins import pins
from runner.systems.common.registry import system_names

PinSet = dict[str, Any]
FROM, WITH = "from", "with"
HERE = "."  # as a repository: the matrix's own
NO_COMMIT = "0" * 40  # stands for the commit that `ci` and `bisect` fill in
MOST_PIN_SETS = 1_000
EXACT = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9._-]*)(\[[A-Za-z0-9,._-]+\])?==([A-Za-z0-9][A-Za-z0-9.+!_-]*)"
)


def pin_sets_of(content: Mapping[str, Any], where: str) -> dict[str, PinSet]:
    """Return the pin sets of a matrix, each whole. Raises UserError that names the key and the
    cure.
    """
    block = content.get("pins")
    if block is None:
        return {}
    if not isinstance(block, dict) or not block or len(block) > MOST_PIN_SETS:
        raise UserError(
            f"{where}: pins must map 1 to {MOST_PIN_SETS} names of pin sets to what they are, such"
            " as pins: {main: {requirements: [torch==2.13.0]}}"
        )
    pin_sets: dict[str, PinSet] = {}
    for name in block:
        try:
            pin_sets[FileName(name, f"{where}: a name in pins")] = {}
        except UnfitError as error:
            raise UserError(str(error)) from None
    for name in pin_sets:
        pin_sets[name] = _resolved(block, name, where, ())
    return pin_sets


def _resolved(block: Mapping[str, Any], name: str, where: str, above: tuple[str, ...]) -> PinSet:
    """Return a pin set with what it takes from others."""
    key_path = f"{where}: pins: {name}"
    entry = block[name]
    if not isinstance(entry, dict):
        raise UserError(f"{key_path} is {str(entry)[:80]!r}; write it as a mapping of keys")
    choices = (*PIN_SET.optional, FROM, WITH)
    for key in entry:
        if key not in choices:
            raise UserError(
                f"{key_path}: unknown key {key!r}{nearest(str(key), choices)}; keys are a pin set's"
                f" (docs/adding-a-system.md), {FROM} and {WITH}"
            )
    if fault := _template(entry):
        raise UserError(
            f"{key_path} holds {fault!r}, which Ansible would resolve; write plain text"
        )
    if name in above:
        raise UserError(f"{key_path}: circular `from`; one of these pin sets must not use it")
    own_keys = {str(key): value for key, value in entry.items() if key not in (FROM, WITH)}
    base = _base(block, entry[FROM], where, key_path, (*above, name)) if FROM in entry else {}
    merged = {**base, **own_keys}
    versions = entry.get(WITH, [])
    if not isinstance(versions, list):
        raise UserError(f"{key_path}: with must be a list such as [torch==2.13.0]")
    for requirement in versions:
        merged = with_package(merged, requirement, f"{key_path}: with")
    try:
        PIN_SET.check(with_commit(merged, NO_COMMIT, missing=True), f"{key_path}:")
    except UnfitError as error:
        raise UserError(f"{error}; docs/adding-a-system.md has the keys of a pin set") from None
    return merged


def _base(
    block: Mapping[str, Any], base_name: Any, where: str, key_path: str, above: tuple[str, ...]
) -> PinSet:
    """Return the pin set that `from` names: of the matrix, or SYSTEM/PIN of a system's own."""
    system, slash, pin = str(base_name).partition("/")
    if slash and system in system_names() and pin in pins(system):
        return copy.deepcopy(pins(system)[pin])
    if not slash and base_name in block:
        return _resolved(block, base_name, where, above)
    choices = [*block, *(f"{name}/{pin}" for name in system_names() for pin in pins(name))]
    raise UserError(
        f"{key_path}: from is {base_name!r}{nearest(str(base_name), choices)}; name another pin set"
        " of `pins`, or one of a system as SYSTEM/PIN"
    )


def _template(value: Any) -> str:
    """Return a text in a value that Ansible would take for a template; else nothing."""
    if isinstance(value, str):
        return value if re.search(r"\{[{%#]", value) else ""
    inner = [*value, *value.values()] if isinstance(value, dict) else value
    if isinstance(inner, list):
        return next((text for item in inner if (text := _template(item))), "")
    return ""


def package_of(requirement: object, where: str) -> tuple[str, str]:
    """Return the name and version of `NAME==VERSION`. Raises UserError for anything else."""
    match = EXACT.fullmatch(requirement) if isinstance(requirement, str) else None
    if match is None:
        raise UserError(f"{where}: {requirement!r} is not one version; write NAME==VERSION")
    return match[1], match[3]


def canonical(name: str) -> str:
    """Return a package's name as PEP 503 compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def with_package(pin_set: PinSet, requirement: object, where: str) -> PinSet:
    """Return a pin set with another version of a package: where it is pinned, else as a further
    step of its own, after those that may bring it along.
    """
    name, version = package_of(requirement, where)
    canonical_name, changed = canonical(name), copy.deepcopy(pin_set)
    if canonical_name in (changed.get("torch") or {}) or (
        canonical_name == "torch" and "torch" in changed
    ):
        changed["torch"]["version" if canonical_name == "torch" else canonical_name] = version
        return changed
    replaced = False

    def replacing(item: Any) -> Any:
        nonlocal replaced
        if isinstance(item, dict):
            inner = item.get("requirements")
            return {**item, "requirements": list(map(replacing, inner))} if inner else item
        match = EXACT.fullmatch(str(item))
        if match is None or canonical(match[1]) != canonical_name:
            return item
        replaced = True
        return f"{match[1]}{match[2] or ''}=={version}"

    steps = list(map(replacing, changed.get("requirements") or []))
    changed["requirements"] = steps if replaced else [*steps, {"requirements": [requirement]}]
    return changed


def with_commit(pin_set: PinSet, commit: str, *, missing: bool = False) -> PinSet:
    """Return a pin set whose source is at a commit; `missing`: only where it names none itself."""
    source = pin_set.get("source")
    if not isinstance(source, dict) or (missing and source.get("commit") is not None):
        return pin_set
    return {**pin_set, "source": {**source, "commit": commit}}
