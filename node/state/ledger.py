"""What was new because of us, and what removes it: pure."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any

from .compare import MachineState, to_hold
from .packages import present, reached, removable, split
from .repositories import keyring
from .spec import Spec

# What Ansible's apt module installs for itself where it is missing: ours to remove again.
TOOLS = ("python3-apt",)


def before(spec: Spec, machine: MachineState, todo: Spec) -> dict[str, Any]:
    """The ledger as it is written before a change."""
    ledger: dict[str, Any] = {
        "schema": 1, "packages": {}, "removed": {}, "changed": {}, "held": [], "files": {},
        "services": {}, "made": {}, **machine.ledger,
    }  # fmt: skip
    ledger["role"] = spec["name"]
    there = {name: package.version for name, package in present(machine.packages).items()}
    ledger.setdefault("before", there)
    held_before = [name for name, package in machine.packages.items() if package.held]
    ledger.setdefault("held_before", held_before)
    for item in todo["apt_files"] + todo["files"]:
        have = machine.files.get(item["path"])
        old = {"content": have[0], "mode": have[1]} if have else None
        ledger["files"].setdefault(item["path"], {"old": old})
        ledger["files"][item["path"]]["sha256"] = sha256(item["content"])
    for name in todo["keys"]:
        path = keyring({"name": name})
        if machine.keys.get(name) is None:
            ledger["files"].setdefault(path, {"old": None})
    for name in todo["enable"]:  # None: it comes with a package
        ledger["services"].setdefault(name, machine.services.get(name))
    for item in spec["made"]:
        if item["what"] in todo["make"]:
            paths = [path for path in item.get("paths", []) if path not in machine.paths]
            entry = {"unmake": item.get("unmake", []), "paths": paths}
            ledger["made"].setdefault(item["what"], entry)
    ledger["owed"] = {"restart": todo["restart"], "after": todo["after"]}
    return ledger


def account(spec: Spec, machine: MachineState, complete: bool) -> dict[str, Any]:
    """The ledger after a change, whole or broken off: what is new because of us."""
    ledger = dict(machine.ledger)
    if "before" not in ledger:  # nothing was begun
        return ledger
    versions_before: dict[str, str] = ledger.pop("before")
    held_before = ledger.pop("held_before")
    now = {name: package.version for name, package in present(machine.packages).items()}
    roots = [name for item in spec["packages"] for name in split(item)[0]] + list(TOOLS)
    new = (set(now) - set(versions_before)) & reached(present(machine.packages), roots)
    ledger["packages"] = {**ledger["packages"], **{name: now[name] for name in sorted(new)}}
    removed_versions = {
        name: version for name, version in versions_before.items() if name not in now
    }
    ledger["removed"] = {**removed_versions, **ledger["removed"]}
    for name, version in versions_before.items():
        if name in now and now[name] != version and name not in ledger["packages"]:
            ledger["changed"].setdefault(name, version)
    newly_held = set(to_hold(spec, machine, is_held=True)) - set(held_before)
    ledger["held"] = sorted(set(ledger["held"]) | newly_held)
    if complete:
        ledger.pop("owed", None)
    else:  # a dependency whose root is not there yet is counted when the change is whole
        ledger.update(before=versions_before, held_before=held_before)
    return ledger


def removed(machine: MachineState) -> list[str]:
    """`name=version` of packages that had to make way for ours, and are still away."""
    there = present(machine.packages)
    made_way = machine.ledger.get("removed", {})
    return sorted(f"{name}={version}" for name, version in made_way.items() if name not in there)


def removal_lines(plan: dict[str, Any]) -> list[str]:
    """Return a line for each kind of thing that a plan of `undo` removes or puts back."""
    titles = {
        "remove": "packages removed", "install": "packages put back", "downgrade": "packages put"
        " back to", "delete": "files removed", "restore": "files restored", "unmake": "removed",
    }  # fmt: skip
    names = {
        **{key: plan[key] for key in titles},
        "restore": [item["path"] for item in plan["restore"]],
        "unmake": [path for item in plan["unmake"] for path in item["paths"]],
    }
    return [f"{title}: {' '.join(names[key])}" for key, title in titles.items() if names[key]]


def undo(machine: MachineState, offered: Collection[str] = ()) -> dict[str, Any]:
    """What removes all that the ledger has, and what stays and why.

    `offered`: those of `removed` that apt still has. Of the others it takes what it has: a newer
    one beside older parts of the same source would be refused where there is a choice.
    """
    ledger = machine.ledger
    there = present(machine.packages)
    going, needed = removable(there, ledger.get("packages", {}))
    stays = [f"package {name}: {by} needs it" for name, by in sorted(needed.items())]
    files, to_delete = [], []
    for path, item in ledger.get("files", {}).items():
        have = machine.files.get(path)
        if item["old"] is None:
            if have is not None or path in machine.paths:
                to_delete.append(path)
        elif have is not None and sha256(have[0]) == item.get("sha256"):
            files.append({"path": path, **item["old"]})
        elif have is not None and have[0] != item["old"]["content"]:
            stays.append(f"file {path}: somebody edited it since")
    held_names = set(ledger.get("held", []))
    services = [
        (name, state)
        for name, state in ledger.get("services", {}).items()
        if machine.services.get(name) not in (None, state)
    ]
    changed = {
        name: version
        for name, version in ledger.get("changed", {}).items()
        if name in there and there[name].version != version
    }
    return {
        "unhold": sorted(name for name in held_names if name in there and there[name].held),
        "remove": sorted(going),
        "install": [spec if spec in offered else split(spec)[0][0] for spec in removed(machine)],
        "downgrade": sorted(f"{name}={version}" for name, version in changed.items()),
        "restore": files,
        "delete": to_delete,
        "stop": [name for name, state in services if state is None],
        "services": [{"name": name, **state} for name, state in services if state is not None],
        "unmake": [
            {"what": name, **item}
            for name, item in ledger.get("made", {}).items()
            if any(path in machine.paths for path in item["paths"])
        ],
        "stays": stays,
        "ledger": bool(ledger),
    }


def sha256(text: str) -> str:
    """Of a file's text."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
