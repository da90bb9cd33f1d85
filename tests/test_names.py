"""No two things of one name: neither modules of runner/, nor public classes of runner/ or node/."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from runner.base.paths import PROJECT

ROOMS = {room: sorted((PROJECT / room).rglob("*.py")) for room in ("runner", "node")}
NAMED_AFTER = ("commands", "families")


def modules() -> Iterator[tuple[str, Path]]:
    """Those that are not named after something else: a command, or a system whose logs it reads.

    The programs of node/ are packages apart, each of which may have a `look` and a `machine`.
    """
    for path in ROOMS["runner"]:
        if path.stem not in ("__init__", "__main__") and path.parent.name not in NAMED_AFTER:
            yield path.stem, path


def classes(room: str) -> Iterator[tuple[str, Path]]:
    for path in ROOMS[room]:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, path


def shared(named: Iterator[tuple[str, Path]]) -> Mapping[str, list[str]]:
    places = defaultdict(list)
    for name, path in named:
        places[name].append(path.relative_to(PROJECT).as_posix())
    return {name: paths for name, paths in places.items() if len(paths) > 1}


def test_no_two_modules_have_one_name() -> None:
    assert shared(modules()) == {}


@pytest.mark.parametrize("room", ROOMS)
def test_no_two_classes_have_one_name(room: str) -> None:
    assert shared(classes(room)) == {}
