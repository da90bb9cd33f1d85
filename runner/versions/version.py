"""A version that a person names, and the cells of a matrix with it. Pure.

`v1.2`, `origin/main`: a revision of the trainer's git repository; `torch==2.13.0`: of a package;
`pin=NAME`: a pin set as it is.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from node.schema import UnfitError
from node.validated_text import FileName
from runner.base.errors import UserError
from runner.base.suggest import nearest
from runner.matrix.cells import label
from runner.matrix.pins_key import NO_COMMIT, package_of, with_commit, with_package
from runner.study.study import PinSets, Seen
from runner.systems.common.pins import pins
from runner.terms.cell import Cell

Kind = Literal["commit", "package", "pin"]
AXIS = "version"
LONGEST_SUFFIX = 48
SHORT = 12  # digits of a commit in names
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Version:
    """One version: what a person calls it, and its commit, NAME==VERSION or pin set."""

    kind: Kind
    value: str
    label: str
    subject: str = ""  # a commit's first line

    @property
    def suffix(self) -> str:
        """What its pin sets are called behind the name of the one that they are made of."""
        if self.kind == "commit":
            return self.value[:SHORT]
        word = _UNSAFE.sub("-", self.value.replace("==", "-"))
        if len(word) <= LONGEST_SUFFIX:
            return word
        return f"{word[:LONGEST_SUFFIX]}-{hashlib.sha256(self.value.encode()).hexdigest()[:8]}"

    @property
    def title(self) -> str:
        """What a person reads: the label, a commit's digits and first line."""
        digits = self.value[:SHORT]
        words = [self.label]
        if self.kind == "commit":
            words = [digits] if self.label in digits else [self.label, digits]
        return " ".join([*words, f'"{self.subject[:60]}"'] if self.subject else words)


def kind_of(word: str) -> Kind:
    """Say what a person's word is."""
    if word.startswith("pin="):
        return "pin"
    return "package" if "==" in word else "commit"


def package(word: str, option: str) -> Version:
    """Read NAME==VERSION. Raises UserError."""
    package_of(word, option)
    return Version("package", word, word)


def pin_set(word: str) -> Version:
    """Read pin=NAME. Raises UserError."""
    name = word.removeprefix("pin=")
    try:
        return Version("pin", FileName(name, word), name)
    except UnfitError as error:
        raise UserError(str(error)) from None


@dataclass(frozen=True)
class VersionCell:
    """A cell with a version, the name that both versions of it share, and its pin set to build;
    None where that is there already.
    """

    cell: Cell
    shared_name: str
    pin_set: Mapping[str, Any] | None


def with_version(
    cell: Cell, version: Version, sets: Mapping[str, Mapping[str, Any]]
) -> VersionCell:
    """Return a cell with a version; `sets` are the pin sets of its matrix. Raises UserError."""
    pin, pin_set = _pin_set(cell, version, sets)
    other_axes = {key: value for key, value in cell.axes.items() if key not in (AXIS, "pin")}
    shared = ",".join(f"{key}={label(value)}" for key, value in other_axes.items()) or cell.system
    if cell.axes and other_axes == dict(cell.axes):
        shared = cell.name
    name = f"{AXIS}={version.label}" + (f",{shared}" if other_axes else "")
    axes = {AXIS: version.label, **other_axes}
    return VersionCell(replace(cell, name=name, pin=pin, axes=axes, id=""), shared, pin_set)


def _pin_set(
    cell: Cell, version: Version, sets: Mapping[str, Mapping[str, Any]]
) -> tuple[str, Mapping[str, Any] | None]:
    """Return the name of the pin set with that version, and what it is."""
    system_sets = {} if cell.system == "command" else pins(cell.system)
    if version.kind == "pin":
        return version.value, sets.get(version.value) or system_sets.get(version.value)
    base = sets.get(cell.pin) or system_sets.get(cell.pin)
    if base is None:
        raise UserError(
            f"cell {cell.name}: its pin set is {cell.pin or 'not named'}, and"
            f" {version.label} can only be had in one of the matrix's `pins`"
            f"{nearest(cell.pin, sets) if cell.pin else ''}; write pins: {{trainer: {{...}}}} and"
            " `pin: trainer` under `defaults`"
        )
    if version.kind == "package":
        return f"{cell.pin}-{version.suffix}", with_package(dict(base), version.value, cell.pin)
    if not isinstance(base.get("source"), dict):
        raise UserError(
            f"cell {cell.name}: pin set {cell.pin} has no source, so that commits do not change it;"
            " give it source: {repository: .}, or compare packages as NAME==VERSION"
        )
    return f"{cell.pin}-{version.suffix}", with_commit(dict(base), version.value)


def refuse_open(cells: Iterable[VersionCell]) -> None:
    """Refuse pin sets whose commit nobody has named. Raises UserError."""
    for version_cell in cells:
        source = (version_cell.pin_set or {}).get("source") or {}
        if isinstance(source, dict) and source and source.get("commit") in (None, NO_COMMIT):
            raise UserError(
                f"pin set {version_cell.cell.pin}: its source names no commit; write commit: with"
                " its 40 digits, or compare commits in place of packages"
            )


def used_by(cells: Iterable[Cell], sets: PinSets) -> dict[str, dict[str, Any]]:
    """Return the pin sets that cells name, by system: those given, and systems' own."""
    by_system: dict[str, dict[str, Any]] = {}
    for cell in cells:
        system_sets = {} if cell.system == "command" else pins(cell.system)
        pin_set = sets.get(cell.pin) or system_sets.get(cell.pin)
        if pin_set is not None:
            by_system.setdefault(cell.system, {})[cell.pin] = pin_set
    return by_system


def to_build(items: Iterable[VersionCell], seen: Seen) -> dict[str, dict[str, Any]]:
    """Return the pin sets of versions that nobody has tried to build, by system."""
    missing = [item for item in items if item.cell.pin not in seen.builds]
    sets = {item.cell.pin: item.pin_set for item in missing if item.pin_set is not None}
    return used_by([item.cell for item in missing], sets)


def failed_builds(items: Iterable[VersionCell], seen: Seen) -> dict[str, str]:
    """Return why, of the pin sets of versions that could not be built."""
    built = {item.cell.pin: seen.builds.get(item.cell.pin) for item in items}
    return {pin: one.failed for pin, one in built.items() if one and one.failed}
