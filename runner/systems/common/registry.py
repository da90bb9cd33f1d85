"""The systems by name: every module of runner/systems is one."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from runner import systems
from runner.base.errors import UserError
from runner.base.suggest import nearest

if TYPE_CHECKING:  # the names alone are asked for by the command line, which starts in no time
    from runner.systems.common.system import System


def system_names() -> list[str]:
    """List every system's name, in alphabetical order."""
    return sorted(
        module.name for module in pkgutil.iter_modules(systems.__path__) if not module.ispkg
    )


def load_system(name: str) -> System:
    """Load the system of that name. Raises UserError naming the nearest one."""
    if name not in system_names():
        hint = nearest(name, system_names())
        raise UserError(f"there is no system {name!r}{hint}; `runner systems` lists them")
    system: System = importlib.import_module(f"runner.systems.{name}").SYSTEM
    return system
