"""Every module of node/ runs on a node's oldest Python, and needs the standard library alone."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runner.base.paths import PROJECT
from tests.interpreters import python

NODE = sorted((PROJECT / "node").rglob("*.py"))
# Run by an environment's own Python, or beside a trainer.
OLDER = sorted(
    [*(PROJECT / "node" / "checks").glob("*.py")]
    + [PROJECT / "node" / f"{name}.py" for name in ("__init__", "answer", "bootstrap")]
)


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PROJECT).with_suffix("").parts)


def at_import(path: Path) -> set[str]:
    """The modules outside of node/ that a module imports when it is itself imported."""
    found = set()
    ahead: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while ahead:
        here = ahead.pop()
        if isinstance(here, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or (
            isinstance(here, ast.If) and ast.unparse(here.test) == "TYPE_CHECKING"
        ):
            continue
        if isinstance(here, ast.Import):
            found |= {each.name.partition(".")[0] for each in here.names}
        if isinstance(here, ast.ImportFrom) and not here.level:
            found.add(str(here.module).partition(".")[0])
        ahead += ast.iter_child_nodes(here)
    return found - {"node"}


@pytest.mark.parametrize("path", NODE, ids=name_of)
def test_its_syntax_is_of_3_8_and_its_imports_are_the_standard_librarys(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
    assert at_import(path) <= set(sys.stdlib_module_names)


@pytest.mark.parametrize(("version", "paths"), [("3.8", NODE), ("3.6", OLDER)])
def test_it_is_imported_by_an_older_python(version: str, paths: list[Path], tmp_path: Path) -> None:
    older = python(version, needs="sys")
    names = [name_of(path).removesuffix(".__init__") for path in paths]
    code = "import sys, importlib\nfor name in sys.argv[2:]: importlib.import_module(name)\n"
    code = f"import sys; sys.path.insert(0, sys.argv[1])\n{code}"
    env = {**os.environ, "PYTHONPATH": "", "PYTHONPYCACHEPREFIX": str(tmp_path)}
    argv = [older, "-S", "-B", "-c", code, str(PROJECT), *names]
    ran = subprocess.run(argv, env=env, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
