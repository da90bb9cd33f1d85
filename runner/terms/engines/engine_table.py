"""All engines: a new one is an entry here, with its module beside this one."""

from runner.terms.engines.engine_settings import EngineSettings
from runner.terms.engines.slurm import Slurm
from runner.terms.engines.ssh import Ssh

ENGINES: dict[str, type[EngineSettings]] = {engine.name: engine for engine in (Ssh, Slurm)}
# What a cell may ask of an engine in place of its inventory.
PLACEMENT = {key: engine for engine in ENGINES.values() for key in engine.cell_keys}


def engine_keys() -> dict[str, str]:
    """Return the keys that inventories have for any engine, each with what it is."""
    return {
        key: text for engine in ENGINES.values() for key, text in engine.inventory_keys().items()
    }


def cures(code: str) -> str:
    """Return what helps against a code on each engine that knows something."""
    return " or ".join(engine.cures[code] for engine in ENGINES.values() if code in engine.cures)
