"""The systems by name: every module of runner/systems is one."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

from runner import systems
from runner.base.errors import UserError
from runner.base.program_name import CALLED
from runner.base.suggest import nearest

if TYPE_CHECKING:  # the names alone are asked for by the command line, which starts in no time
    from runner.systems.common.system import System


@cache
def system_names() -> tuple[str, ...]:
    """List every system's name, in alphabetical order; the folder is looked into once."""
    modules = pkgutil.iter_modules(systems.__path__)
    return tuple(sorted(module.name for module in modules if not module.ispkg))


def load_system(name: str) -> System:
    """Load the system of that name. Raises UserError naming the nearest one."""
    if name not in system_names():
        hint = nearest(name, system_names())
        raise UserError(f"there is no system {name!r}{hint}; `{CALLED} systems` lists them")
    system: System = importlib.import_module(f"runner.systems.{name}").SYSTEM
    return system
