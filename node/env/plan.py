"""Find an environment's faults and plan its repair, from pins, lock and record."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from .lock import drifted, header, parsed
from .pins import pins_of, short_of

if TYPE_CHECKING:
    from .pins import Packages, Spec


def compiled(step: Spec) -> bool:
    """Whether a step's result hangs on more than versions: on a tree, a build, variables."""
    return "tree" in step or "built" in step or bool(step.get("environment"))


def digest(step: Spec) -> str:
    """Hash what distinguishes a step's result from another with the same versions."""
    tree, built, wheel = (step.get(kind) or {} for kind in ("tree", "built", "wheel"))
    fields = [
        tree.get("identity"),
        tree.get("editable"),
        built.get("identity"),
        wheel.get("sha256"),
        step.get("environment") or {},
    ]
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def unmet(step: Spec, packages: Packages, record: Spec) -> list[str]:
    """What a step lacks, in words; empty for one that is there."""
    recorded = record.get("steps", {}).get(step["name"])
    faults = short_of(pins_of([step]), packages)
    if faults:
        return faults
    if recorded is None and record.get("pending"):
        return [f"{step['name']} was not installed to the end"]
    if recorded is None:
        # An environment of an older TrainBench has pins, and no record.
        return [f"{step['name']} is not there"] if compiled(step) else []
    if recorded["digest"] != digest(step):
        return [f"{step['name']} has another source, patch or build than the pin"]
    for name, version in recorded["holds"].items():
        have = packages.get(name, {}).get("version", "")
        if have != version:
            return [f"{name} is {have or 'not there'}, not {version} as it was installed"]
    torch = packages.get("torch", {}).get("version", "")
    if compiled(step) and recorded["torch"] != torch:
        built = f"with torch {recorded['torch']}" if recorded["torch"] else "without torch"
        return [f"{step['name']} was built {built}, not with torch {torch}"]
    return []


def plan(
    spec: Spec, packages: Packages, version: str, lock: list[str], record: Spec
) -> tuple[list[str], list[Spec]]:
    """What is wrong, in words, and what is to do about it, in order."""
    steps: list[Spec] = spec["steps"]
    lacking = {step["name"]: unmet(step, packages, record) for step in steps}
    wrong = {name for name, faults in lacking.items() if faults}
    # After an interrupted run the lock is older than the environment: differences are not drift.
    drift = drifted(lock, packages) if lock and not record.get("pending") else {}
    # Packages that a step will install again need no other repair; those of a tree or wheel are
    # repaired by their step.
    locked = parsed(lock)
    holders = {
        name: step
        for step, record_of_step in record.get("steps", {}).items()
        for name in record_of_step["holds"]
    }
    renewed = set(pins_of([step for step in steps if step["name"] in wrong]))
    renewed |= {name for name, step in holders.items() if step in wrong}
    drift = {name: fault for name, fault in drift.items() if name not in renewed}
    install, remove = [], []
    for name in drift:
        if name not in locked:
            remove.append(name)
        elif holders.get(name) in lacking:
            wrong.add(holders[name])
        elif not locked[name][1]:
            install.append(f"{name}=={locked[name][0]}")
    if any("torch" in pins_of([step]) for step in steps if step["name"] in wrong):
        wrong |= {step["name"] for step in steps if compiled(step)}
    todo: list[Spec] = []
    if install or remove:
        summary = f"repair {', '.join([*install, *(f'remove {name}' for name in remove)])}"
        todo.append({"what": "repair", "words": summary, "install": install, "remove": remove})
    for step in steps:
        if step["name"] in wrong and step["name"] not in spec["later"]:
            summary = ", ".join(step.get("requirements", [])) or step["name"]
            todo.append({"what": "install", "words": f"install {summary}", "name": step["name"]})
    faults = [
        *(fault for record_of_step in lacking.values() for fault in record_of_step),
        *drift.values(),
    ]
    if lock and version and lock[0] != header(version):
        faults.append(f"python is {version}, not {lock[0].rpartition(' ')[2]} as in the lock")
    unfinished = bool(wrong & set(spec["later"]))
    if (todo or faults or not lock or record.get("pending")) and not unfinished:
        todo.append({"what": "lock", "words": "write down what is there"})
    return faults, todo
