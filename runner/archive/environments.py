"""What the cells ran with: pin sets, their packages and patches, as far as the campaign knows."""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from node.facts.kinds import ENVIRONMENT
from node.schema import UnfitError
from node.validated_text import FileName, Pin
from runner.archive.publication import InstalledPin, Lock
from runner.base.paths import PROJECT
from runner.systems.common.pins import pins
from runner.systems.common.registry import system_names
from runner.terms.inspected import ENV, Inspected
from runner.terms.settings import Settings

UNREAD = "no node's packages were recorded: `verify` before bench has nodes read them"
ODD = "a node named packages by what is not a name and a version"
OLDER = "`verify` read the packages of another installation than the one that ran"


def installed(settings: Settings, nodes: Mapping[str, Inspected]) -> list[InstalledPin]:
    """Return each pin set that the campaign's cells name, in the order of their names."""
    pin_names = sorted({(str(cell.system), str(cell.pin)) for cell in settings.cells if cell.pin})
    return [_pin(system, name, settings, nodes) for system, name in pin_names]


def _pin(
    system: str, name: str, settings: Settings, nodes: Mapping[str, Inspected]
) -> InstalledPin:
    FileName(name, "campaign.json: pin")  # it becomes a folder of the bundle
    recorded = (settings.environment or {}).get(f"system {system}/{name}")
    identity = recorded if isinstance(recorded, dict) else {}
    has_pins = (PROJECT / "roles" / system / "vars" / "pins.yml").is_file()
    literals = pins(system).get(name) if system in system_names() and has_pins else None
    patches = dict(_patches(system, literals or {}))
    applied = [
        path for path_in_role, path in patches.items() if path_in_role.startswith("patches/")
    ]
    sums = {hashlib.sha256(path.read_bytes()).hexdigest() for path in applied}
    identity_text = str(identity)
    difference = ""
    if literals is None:
        difference = "this version of TrainBench does not have the pin set"
    elif any(digest not in identity_text for digest in sums):
        difference = "not all patches of this version are those that the nodes named as applied"
    lock = _lock(f"{system}/{name}", identity, nodes)
    return InstalledPin(system, name, literals, identity, lock, patches, difference)


def _patches(system: str, literals: Any) -> Iterator[tuple[str, Path]]:
    """Yield the patches that a pin set names, wherever in it, and constraints, with their files."""
    if isinstance(literals, dict):
        for key, value in literals.items():
            if key == "patches" and isinstance(value, list):
                for name in value:
                    yield from _file(system, "patches", str(name))
            elif key == "constraints" and isinstance(value, str):
                yield from _file(system, "constraints", value)
            else:
                yield from _patches(system, value)


def _file(system: str, folder: str, name: str) -> Iterator[tuple[str, Path]]:
    for role in (system, "apex"):
        path = PROJECT / "roles" / role / "files" / folder / name
        if path.is_file():
            yield f"{folder}/{path.name}", path
            return


def _lock(pin: str, identity: Mapping[str, Any], nodes: Mapping[str, Inspected]) -> Lock:
    """Return the packages that a node's env.json has of the installation that ran."""
    missing = UNREAD
    for inspected in nodes.values():
        try:
            env = ENVIRONMENT.check(inspected.files.get(ENV) or {}, "env.json:")
        except UnfitError:
            continue
        if (installed_pin := (env.get("systems") or {}).get(pin)) and installed_pin.get("lock"):
            if identity and installed_pin.get("identity") != identity:
                missing = OLDER
            elif all(map(_is_pin, installed_pin["lock"].items())):
                return Lock(dict(installed_pin["lock"]))
            else:
                missing = ODD
    return Lock({}, missing)


def _is_pin(package: tuple[str, str]) -> bool:
    """Return whether a package's name and version are a line of lock.txt, not an option."""
    try:
        Pin("==".join(map(str, package)), "lock.txt")
    except UnfitError:
        return False
    return True


def texts(pin: InstalledPin) -> Iterator[tuple[str, str]]:
    """Yield the files of a pin set's folder in the bundle: name and text."""
    if pin.literals is not None:
        yield "pin.yml", yaml.safe_dump({pin.name: dict(pin.literals)}, sort_keys=False)
    if pin.lock.packages:
        lines = [f"{name}=={version}" for name, version in sorted(pin.lock.packages.items())]
        yield "lock.txt", "\n".join(lines) + "\n"
