"""Every module of node/ is imported by a node's oldest Python, without any package beside it."""

from __future__ import annotations

import os
import subprocess
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
