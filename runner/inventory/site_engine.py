"""Which container engine a site has, where its inventory names none."""

import shutil
import subprocess
from functools import cache

from runner.terms.container_engines import ENGINES, Containers

LIMIT_S = 10.0
PYXIS = "--container-image"  # srun knows it where the plugin is there


def named(name: str, *, slurm: bool) -> str:
    """Return the engine that is named; on Slurm else the one that this login node has."""
    return name or (found() if slurm else Containers.engine)


@cache
def found() -> str:
    """Return pyxis where srun lists it, else the first of the others on PATH; the default where
    there is none, so that whoever needs one is told of it.
    """
    if PYXIS in _srun_help():
        return "pyxis"
    there = (
        each.name
        for each in sorted(ENGINES.values(), key=lambda engine: engine.kept)
        if each.filed and not each.by_srun and shutil.which(each.program)
    )
    return next(there, Containers.engine)


def _srun_help() -> str:
    try:
        return subprocess.run(
            ["srun", "--help"],  # Slurm lies where PATH says
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
