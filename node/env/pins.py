"""Exact pins, and what meets them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from node.canonical import canonical

if TYPE_CHECKING:  # Python 3.8 cannot say this when it runs
    Spec = dict[str, Any]
    Packages = dict[str, dict[str, str]]  # canonical name to name, version, origin


def split(pin: str) -> tuple[str, str]:
    """Canonical name and version of an exact pin; extras do not matter."""
    name, _, version = pin.partition("==")
    return canonical(name.partition("[")[0].strip()), version.strip()


def meets(version: str, pin: str) -> bool:
    """Whether a version is the pin's; a local part such as +cpu matters only if the pin has one."""
    return version == pin if "+" in pin else version.partition("+")[0] == pin


def fits(version: str, pin: str) -> bool:
    """Whether a Python is the one wanted: 3.8 takes any 3.8.x, 3.7.9 itself alone."""
    return not pin or version == pin or version.startswith(pin + ".")


def numbers(version: str) -> tuple[int, ...]:
    """The first two numbers of a version, to compare."""
    return tuple(int(digits) for digits in re.findall(r"\d+", version)[:2])


def pins_of(steps: list[Spec]) -> dict[str, str]:
    """Every pinned package and its version, over the steps."""
    pins: dict[str, str] = {}
    for step in steps:
        pins.update(split(pin) for pin in step.get("requirements", []))
        if "wheel" in step:
            pins[canonical(step["wheel"]["project"])] = step["wheel"]["version"]
    return pins


def short_of(pins: dict[str, str], packages: Packages) -> list[str]:
    """Which pins are not met, in words."""
    faults = []
    for name, pin in pins.items():
        have = packages[name]["version"] if name in packages else ""
        if not have:
            faults.append(f"{name} {pin} is not there")
        elif not meets(have, pin):
            faults.append(f"{name} is {have}, not {pin}")
    return faults
