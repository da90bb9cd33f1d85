"""What a node said of itself, when bench asked it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from node.kinds import FINGERPRINT, RELIED_FILES
from node.schema import MOST_ITEMS, AnyOf, Mapped, Plain, Text, Whole, Words
from runner.terms.orders import Line

ENV = "env"  # name of a node's env.json among the files that were inspected


@dataclass(frozen=True)
class InspectedDevice:
    """An NVIDIA GPU, in nvidia-smi's words."""

    name: Line
    memory_mib: Annotated[str | int, AnyOf(Text(), Whole())]
    driver: Line


@dataclass(frozen=True)
class Sought:
    """What nodes are asked for, each by its name: paths of JSON files, folders, interpreters.

    `apart` are checksums of files that do not count in a folder: the matrix that names it.
    """

    paths: Mapping[str, str]
    folders: Mapping[str, str] = field(default_factory=dict)
    pythons: Mapping[str, str] = field(default_factory=dict)
    apart: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inspected:
    """What a node was when bench asked it; `files` are its JSON files by name, None if missing.

    `relied` says what each folder and interpreter is (node/fingerprint.py), `relied_files` what a
    folder's fingerprint was made of. `unreachable` is why it
    could not be asked, `problem` why what it said cannot be read.
    """

    hostname: Line | None = None
    cpu: Line | None = None
    cpu_count: int | None = None
    memory_mib: int | None = None
    system: Line | None = None
    kernel: Line | None = None
    devices: tuple[InspectedDevice, ...] | None = ()
    files: Annotated[
        Mapping[str, Any], Mapped(Text(), Plain(16, MOST_ITEMS, lines=True), 10_000)
    ] = field(default_factory=dict)
    relied: Annotated[Mapping[str, Any], Mapped(Text(), FINGERPRINT, 10_000)] = field(
        default_factory=dict
    )
    relied_files: Annotated[Mapping[str, Mapping[str, str]], RELIED_FILES] = field(
        default_factory=dict
    )
    unreachable: Annotated[str, Words()] | None = None
    problem: str = ""
