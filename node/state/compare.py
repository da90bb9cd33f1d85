"""The wanted and the present: what differs, and what fixes it: pure."""

from __future__ import annotations

import fnmatch
import json
import re
from dataclasses import dataclass, field
from typing import Any

from .keys import key_fault
from .packages import Package, interrupted, present, satisfies, split
from .repositories import sources
from .spec import Spec, StateError


@dataclass
class MachineState:
    """What was read from the machine: all that the comparison knows."""

    packages: dict[str, Package] = field(default_factory=dict)
    files: dict[str, tuple[str, str] | None] = field(default_factory=dict)  # text and mode
    keys: dict[str, bytes | None] = field(default_factory=dict)
    foreign: set[tuple[str, str]] = field(default_factory=set)  # repositories of other files
    services: dict[str, dict[str, bool] | None] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)  # what a check said
    paths: set[str] = field(default_factory=set)  # of those asked for, the ones that exist
    links: dict[str, str] = field(default_factory=dict)  # those that are links, with their targets
    ledger: dict[str, Any] = field(default_factory=dict)


def own_repositories(spec: Spec, machine: MachineState) -> list[Spec]:
    """Those that nobody else has configured: two files for one would be an error of apt's."""
    return [
        repository
        for repository in spec["repositories"]
        if (repository["uri"].rstrip("/"), repository["suite"]) not in machine.foreign
    ]


def applies(item: Spec, machine: MachineState) -> bool:
    """Whether an item is for this machine."""
    if item.get("only_with") and item["only_with"] not in machine.paths:
        return False
    return not (item.get("unless") and item["unless"] in machine.paths)


def wanted_text(item: Spec, have: str | None) -> str:
    """A file's wanted text; wanted keys of a JSON file are merged into those that are there."""
    if "merge" not in item:
        return str(item["content"])
    try:
        there = json.loads(have) if have and have.strip() else {}
    except ValueError:
        raise StateError(f"{item['path']} is not JSON; correct it and run setup again") from None

    def merge(old: Any, new: Any) -> Any:
        if not isinstance(old, dict) or not isinstance(new, dict):
            return new
        return {**old, **{key: merge(old.get(key), value) for key, value in new.items()}}

    merged = merge(there, item["merge"])
    return str(have) if merged == there and have else json.dumps(merged, indent=2) + "\n"


def last_words(text: str) -> str:
    """The last line of an answer, except Docker's hint at --help."""
    lines = [line for line in text.strip().splitlines() if line and "--help'" not in line]
    return lines[-1] if lines else "no output"


def compare(spec: Spec, machine: MachineState) -> dict[str, Any]:
    """The differences in words, and what fixes them."""
    differences: list[str] = []
    todo: dict[str, Any] = {
        "keys": [], "apt_files": [], "files": [], "packages": [], "unhold": [], "hold": [],
        "after": [], "enable": [], "restart": [], "make": [],
    }  # fmt: skip
    for repository in own_repositories(spec, machine):
        fault = key_fault(machine.keys.get(repository["name"]), repository["fingerprints"])
        if fault:
            differences.append(f"repository {repository['name']}: {fault}")
            todo["keys"].append(repository["name"])
    _compare_packages(spec, machine, differences, todo)
    _compare_files(spec, machine, differences, todo)
    _compare_services(spec, machine, differences, todo)
    for item in spec["made"]:
        if applies(item, machine) and not re.search(item["expect"], machine.made[item["what"]]):
            differences.append(f"{item['what']}: {last_words(machine.made[item['what']])}")
            if item.get("make"):
                todo["make"].append(item["what"])
    return {
        "differences": differences,
        "todo": todo,
        "interrupted": interrupted(machine.packages),
        "there": sorted(machine.paths),
        "links": machine.links,
        "installed": {
            name: package.version
            for name, package in sorted(present(machine.packages).items())
            if name in {name for item in spec["packages"] for name in split(item)[0]}
        },
    }


def to_hold(spec: Spec, machine: MachineState, is_held: bool) -> list[str]:
    """Installed packages that the rules hold; those that are held, or those that are not."""
    names = set()
    for rule in spec["held"]:
        for name, package in present(machine.packages).items():
            matches = any(fnmatch.fnmatchcase(name, pattern) for pattern in rule["names"])
            if (
                matches
                and satisfies(package.version, rule.get("version", ""))
                and package.held == is_held
            ):
                names.add(name)
    return sorted(names)


def _compare_packages(
    spec: Spec, machine: MachineState, differences: list[str], todo: Spec
) -> None:
    there = present(machine.packages)
    for item in spec["packages"]:
        names, version = split(item)
        have = next((there[name] for name in names if name in there), None)
        request = f"{names[0]}={version}" if version else names[0]
        if have is None:
            broken = machine.packages.get(names[0])
            half = broken is not None and names[0] in interrupted(machine.packages)
            differences.append(
                f"package {names[0]}: {broken.state if half and broken else 'not installed'}"
            )
            todo["packages"].append(request)
        elif not satisfies(have.version, version):
            differences.append(f"package {have.name}: {have.version}, not {version}")
            todo["packages"].append(request)
    if todo["packages"]:  # apt moves no held package for one that it is asked for
        ours = {*machine.ledger.get("held", []), *machine.ledger.get("packages", {})}
        todo["unhold"] = sorted(name for name in ours if name in there and there[name].held)
    todo["hold"] = to_hold(spec, machine, is_held=False)
    differences += [f"package {name}: not held" for name in todo["hold"]]


def _compare_files(spec: Spec, machine: MachineState, differences: list[str], todo: Spec) -> None:
    owed = machine.ledger.get("owed", {})
    apt_files = [sources(repository) for repository in own_repositories(spec, machine)]
    changed = set()
    for item in apt_files + spec["files"]:
        if not applies(item, machine):
            continue
        path, mode = item["path"], item.get("mode", "0644")
        have = machine.files.get(path)
        text = wanted_text(item, have[0] if have else None)
        if have is None:
            differences.append(f"file {path}: missing")
        elif have[0] != text:
            differences.append(f"file {path}: differs from what setup writes")
        elif have[1] != mode:
            differences.append(f"file {path}: mode {have[1]}, not {mode}")
        else:
            continue
        changed.add(path)
        # apt's own must be there before it installs, the others after, beside the package's
        kind = "apt_files" if path.startswith("/etc/apt/") else "files"
        todo[kind].append({"path": path, "content": text, "mode": mode})
    for item in spec["files"]:
        if item.get("after") and (
            item["path"] in changed or item["after"] in owed.get("after", [])
        ):
            if item["path"] not in changed:
                differences.append(
                    f"file {item['path']}: {' '.join(item['after'])} has not run since"
                )
            if item["after"] not in todo["after"]:
                todo["after"].append(item["after"])
    for service in spec["services"]:
        stale = changed & set(service.get("files", []))
        if stale or service["name"] in owed.get("restart", []):
            todo["restart"].append(service["name"])
            if not stale:
                differences.append(
                    f"service {service['name']}: not restarted since its file changed"
                )


def _compare_services(
    spec: Spec, machine: MachineState, differences: list[str], todo: Spec
) -> None:
    for service in spec["services"]:
        name = service["name"]
        have = machine.services.get(name)
        if have is None:
            differences.append(f"service {name}: missing")
        elif not have["running"]:
            differences.append(f"service {name}: stopped")
        elif not have["enabled"]:
            differences.append(f"service {name}: not enabled")
        else:
            continue
        todo["enable"].append(name)
