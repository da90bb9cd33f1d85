"""A copy of the project, to which a test adds files; and its command line."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from runner.base.paths import PROJECT

FOLDERS = ("runner", "node", "plugins", "roles", "inventory", "playbooks", "templates")


def copy_project(root: Path) -> None:
    """Copy what the runner and its playbooks need to `root`."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in FOLDERS:
        shutil.copytree(PROJECT / name, root / name, ignore=ignored, symlinks=True)
    shutil.copy(PROJECT / "ansible.cfg", root)


def runner(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the copy."""
    return subprocess.run(
        [sys.executable, "-m", "runner", *arguments],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=100,
    )
