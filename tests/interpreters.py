"""Pythons of other versions, where this machine has them."""

import shutil
import subprocess
from pathlib import Path

import pytest


def python(version: str, needs: str = "ensurepip") -> str:
    """An interpreter of this machine, which the nodes have too; skips where there is none.

    `needs` is a module that it must have; Debian has ensurepip, for venv, in a package of its own.
    """
    found = [shutil.which(f"python{version}")]
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True).stdout.strip()
        versions = Path(root, "versions")
        found += sorted(str(path) for path in versions.glob(f"{version}.*/bin/python{version}"))
    for path in found:
        words = [path or "false", "-c", f"import {needs}, sys; print(sys.version)"]
        ran = subprocess.run(words, capture_output=True, text=True)
        if path and ran.stdout.startswith(version + "."):
            return path
    pytest.skip(f"this machine has no Python {version} with {needs}")
