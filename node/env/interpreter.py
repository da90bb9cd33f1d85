"""Pythons: what one says of itself, and which of the node's can make an environment."""

from __future__ import annotations

import glob
import os
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING

from node import parsing
from node.schema import Fields, List, Text

from .pins import fits

if TYPE_CHECKING:
    from .pins import Spec

PLACES = ["/usr/local/bin", "/usr/bin", "/opt/*/bin", "~/.local/bin"]
PROBE = (
    "import json, platform, sys; print(json.dumps({'version': platform.python_version(), "
    "'prefix': sys.prefix, 'base': sys.base_prefix, 'path': sys.path}))"
)
PROBED = Fields({**dict.fromkeys(("version", "prefix", "base"), Text()), "path": List(Text())})
WITHOUT = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")


def clean(variables: dict[str, str]) -> dict[str, str]:
    """This process's variables without those that bend a Python, and the given ones."""
    environment = {name: text for name, text in os.environ.items() if name not in WITHOUT}
    environment.update(PYTHONNOUSERSITE="1", LC_ALL="C.UTF-8", PIP_ROOT_USER_ACTION="ignore")
    return {**environment, **variables}


def probe(python: str) -> Spec:
    """What an interpreter says of itself; empty when it does not run."""
    argv = [python, "-I", "-c", PROBE]
    try:
        process = subprocess.run(argv, capture_output=True, text=True, env=clean({}), timeout=60)
        return dict(parsing.parse(process.stdout, PROBED)) if process.returncode == 0 else {}
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {}


def config_program(facts: Spec) -> str:
    """Text of a venv's python3-config: venv makes none, and what builds helpers calls it by name.

    Without it the next one on PATH answers, which is of another Python. A link would not do: the
    program takes the folder above its own for the prefix. Empty where there is nothing to write: a
    conda environment has its own, and a Python without headers has none.
    """
    version = ".".join(facts["version"].split(".")[:2])
    program = os.path.join(facts["base"], "bin", f"python{version}-config")
    if facts["base"] == facts["prefix"] or not os.path.exists(program):
        return ""
    return f'#!/bin/sh\nexec {shlex.quote(program)} "$@"\n'


def candidates(spec: Spec) -> list[str]:
    """Interpreters that the node may have: the usual one, the named ones, those in known places."""
    if not spec["python"]:
        return [spec["interpreter"]]
    pythons = [spec["interpreter"]]
    for pattern in spec["interpreters"]:
        pythons += sorted(glob.glob(os.path.expanduser(pattern)))
    for name in (f"python{'.'.join(spec['python'].split('.')[:2])}", "python3"):
        pythons += [shutil.which(name) or ""]
        for folder in PLACES:
            pythons += sorted(glob.glob(os.path.join(os.path.expanduser(folder), name)))
    return [path for path in dict.fromkeys(pythons) if path]


def interpreter(spec: Spec) -> tuple[str, str]:
    """A Python of the node that can make the environment; or "", and why it is missing."""
    problems: dict[str, str] = {}
    for path in candidates(spec):
        answer = probe(path)
        if not answer:
            problems[path] = f"{path} does not run"
        elif not fits(answer["version"], spec["python"]):
            problems.setdefault(answer["version"], f"{path} is Python {answer['version']}")
        else:
            argv = [path, "-I", "-c", "import ensurepip, venv"]
            if subprocess.run(argv, capture_output=True, env=clean({})).returncode == 0:
                return path, ""
            problems[path] = f"{path} makes no environments (install python3-venv)"
    return "", "; ".join(problems.values())
