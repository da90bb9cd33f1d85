"""What a pin set is, as setup installed it on the nodes, and what tells two of them apart. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from runner.terms.inspected import Inspected

SHORT = 12  # digits of a commit or an image
ABSENT = "absent"
Facts = dict[str, str]


def installed_facts(nodes: Mapping[str, Inspected], system: str, pin: str) -> Facts:
    """Return what a pin set is on the first node that says so: Python, the source's commit, each
    package's version; empty where none does.
    """
    for inspected in nodes.values():
        manifest = inspected.files.get(f"system {system}/{pin}")
        if isinstance(manifest, dict):
            return facts_of(manifest)
    return {}


def facts_of(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return what an installed.json says. Pure."""
    identity = manifest.get("identity")
    identity = identity if isinstance(identity, dict) else {}
    source = identity.get("source")
    facts = {"python": str(identity.get("python") or "")}
    if isinstance(source, dict):
        facts["source"] = str(source.get("commit") or "")[:SHORT]
    if identity.get("image"):
        facts["image"] = str(identity["image"])[:SHORT]
        facts["base"] = str(identity.get("base") or "")
    packages = manifest.get("packages")
    packages = packages if isinstance(packages, dict) else {}
    pinned = identity.get("versions") if isinstance(identity.get("versions"), dict) else {}
    facts |= {str(name): str(version) for name, version in {**(pinned or {}), **packages}.items()}
    return {key: value for key, value in facts.items() if value}


def pin_differences(
    nodes: Mapping[str, Inspected], pin_sets: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], Facts]:
    """Return of each pin set (system, pin) what not all pin sets of its system share."""
    every = {pin_set: installed_facts(nodes, *pin_set) for pin_set in pin_sets}
    apart: dict[tuple[str, str], Facts] = {}
    for pin_set, facts in every.items():
        same_system = [
            theirs for theirs_of, theirs in every.items() if theirs_of[0] == pin_set[0] and theirs
        ]
        keys = dict.fromkeys(key for theirs in same_system for key in theirs)
        apart[pin_set] = {
            key: facts.get(key, ABSENT)
            for key in keys
            if facts and len({theirs.get(key) for theirs in same_system}) > 1
        }
    return apart


def differing(a: Mapping[str, str], b: Mapping[str, str]) -> list[str]:
    """Return `torch 2.12.1, then 2.13.0` for each fact that differs."""
    return [
        f"{key} {a.get(key, ABSENT)}, then {b.get(key, ABSENT)}"
        for key in dict.fromkeys((*a, *b))
        if a.get(key) != b.get(key)
    ]
