"""node/checks/compiler.py: what torch.compile would not find on a GPU's node, in a sentence."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from node.answer import ProgramError
from node.checks import compiler


@pytest.fixture
def headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Python.h of this Python, in a folder of the test's own."""
    monkeypatch.setattr(sysconfig, "get_paths", lambda scheme: {"include": str(tmp_path)})
    (tmp_path / "Python.h").touch()
    return tmp_path / "Python.h"


def programs(folder: Path, *names: str) -> dict[str, str]:
    """Variables of a run that finds these programs, and no other."""
    for name in names:
        path = folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.touch(mode=0o755)
    return {"PATH": str(folder / "bin")}


@pytest.mark.parametrize(
    ("there", "named", "words"),
    [
        (["gcc"], {}, ""),
        (["clang"], {}, ""),
        (["g++"], {}, "no C compiler (gcc or clang); install one, or name it by CC in cluster_env"),
        (["gcc"], {"CC": "gcc-14"}, "no C compiler (gcc-14); install one, or name it by"),
        (["gcc-14"], {"CC": "gcc-14"}, ""),
    ],
)
def test_a_compiler_is_looked_for_as_triton_looks(
    headers: Path, there: list[str], named: dict[str, str], words: str
) -> None:
    found = compiler.lacking({**programs(headers.parent, *there), **named})
    assert found.startswith(f"torch.compile finds {words}" if words else "")
    assert bool(found) == bool(words)


def test_headers_of_the_python_that_runs_are_looked_for(headers: Path) -> None:
    variables = programs(headers.parent, "gcc")
    assert compiler.check({"variables": variables}) == {}
    headers.unlink()
    with pytest.raises(ProgramError, match=rf"finds no Python\.h in {headers.parent}; install the"):
        compiler.check({"variables": variables})
