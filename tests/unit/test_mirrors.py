"""plugins/filter/mirrors.py, and programs on the nodes that read mirrors: the longest wins."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

from plugins.filter.mirrors import mirrored
from runner.base.paths import PROJECT

MIRRORS = {
    "git": {
        "https://github.com/": "https://git.example.org/github/",
        "https://github.com/NVIDIA/": "/srv/nvidia/",
    }
}


def test_longest_beginning_wins() -> None:
    assert (
        mirrored("https://github.com/a/b", "git", MIRRORS) == "https://git.example.org/github/a/b"
    )
    assert mirrored("https://github.com/NVIDIA/apex", "git", MIRRORS) == "/srv/nvidia/apex"


@pytest.mark.parametrize("mirrors", [{}, None, {"git": None}, {"data": {"https://": "x"}}])
def test_address_without_a_mirror_stays(mirrors: dict[str, dict[str, str]] | None) -> None:
    assert mirrored("https://github.com/a/b", "git", mirrors) == "https://github.com/a/b"


def test_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="'gti' is no kind of mirror"):
        mirrored("https://github.com/a/b", "gti", MIRRORS)


# --- the same meaning on the nodes ----------------------------------------------------------------

# Programs that run on the nodes cannot import the filter; those that read mirrors have their own.
PROGRAMS = sorted(
    path
    for path in (PROJECT / "roles").glob("*/files/**/*.py")
    if re.search(r"^def mirrored\(", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
)
ADDRESSES = ["https://github.com/a/b", "https://github.com/NVIDIA/apex", "https://h/", ""]


def load(path: Path) -> ModuleType:
    return importlib.import_module(".".join(path.relative_to(PROJECT).with_suffix("").parts))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_programs_on_the_nodes_agree_with_the_filter(path: Path) -> None:
    program = load(path)
    sites: list[dict[str, dict[str, str]]] = [MIRRORS, {"git": {}}, {"git": {"https://": ""}}]
    for address in ADDRESSES:
        for mirrors in sites:
            wanted = mirrored(address, "git", mirrors)
            assert program.mirrored(address, mirrors["git"]) == wanted


def test_there_is_such_a_program() -> None:
    assert PROGRAMS
