"""The systems, one file each; `load` finds them by name."""

from __future__ import annotations

import importlib
import pkgutil

from runner.errors import UserError
from runner.suggest import nearest
from runner.systems.base import System

_NOT_SYSTEMS = {"base", "estimates", "gpt", "launchers", "pins"}


def names() -> list[str]:
    """Every system's name, in alphabetical order."""
    return sorted(
        module.name for module in pkgutil.iter_modules(__path__) if module.name not in _NOT_SYSTEMS
    )


def load(name: str) -> System:
    """The system of that name. Raises UserError naming the nearest one."""
    if name not in names():
        hint = nearest(name, names())
        raise UserError(f"there is no system {name!r}{hint}; `runner systems` lists them")
    system: System = importlib.import_module(f"runner.systems.{name}").SYSTEM
    return system
