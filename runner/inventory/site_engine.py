"""Which container engine a site has, where its inventory names none."""

import shutil
import subprocess
from functools import cache

from runner.terms.container_engines import ENGINES, Containers
from runner.terms.engines.engine_settings import EngineSettings

LIMIT_S = 10.0


def engine_named(name: str, starts: EngineSettings | type[EngineSettings]) -> str:
    """Return the engine that is named, else where jobs give the nodes, what this one has."""
    return name or (engine_found(starts.starter) if starts.in_jobs else Containers.engine)


@cache
def engine_found(starter: str) -> str:
    """Return the engine that `starter` lists an option of, else the first of the others on PATH;
    the default without one, so that the command that needs one says so.
    """
    options = _help_of(starter)
    there = (
        engine.name
        for engine in sorted(ENGINES.values(), key=lambda engine: (not engine.starter, engine.kept))
        if engine.filed
        and (engine.option in options if engine.starter else shutil.which(engine.program))
    )
    return next(there, Containers.engine)


def _help_of(starter: str) -> str:
    if not starter:
        return ""
    try:
        return subprocess.run(
            [starter, "--help"],  # where PATH says
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
