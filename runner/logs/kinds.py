"""Every kind of step lines, found in the modules of `families`: adding a module adds its kinds.

Kinds that most systems print are tried first, and those that a trainer's own lines accompany last.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping

from runner.logs import families as modules
from runner.logs.kind import Kind


def _every_kind() -> Iterator[type[Kind]]:
    """Yield the kinds, module by module, in the order of definition."""
    for module in sorted(pkgutil.iter_modules(modules.__path__), key=lambda info: info.name):
        loaded = importlib.import_module(f"{modules.__name__}.{module.name}")
        for item in vars(loaded).values():
            defined_here = isinstance(item, type) and item.__module__ == loaded.__name__
            if defined_here and issubclass(item, Kind) and "name" in vars(item):
                yield item


KINDS: Mapping[str, type[Kind]] = {
    kind.name: kind
    for kind in sorted(_every_kind(), key=lambda kind: (not kind.own_rate, -len(kind.systems())))
}


def kinds_of(system: str | None) -> tuple[str, ...]:
    """Return the kinds to try for a system, best first, or all of them."""
    return tuple(name for name, kind in KINDS.items() if system is None or system in kind.systems())


def families() -> tuple[str, ...]:
    """Return the families' names, in alphabetical order."""
    return tuple(sorted({kind.family() for kind in KINDS.values()}))


def readers_of(system: str | None) -> Mapping[str, type[Kind]]:
    """Return what reads the logs of a system, or every kind."""
    return {name: KINDS[name] for name in kinds_of(system)}


def readers_of_family(family: str) -> Mapping[str, type[Kind]]:
    """Return what reads the lines of a family."""
    return {name: kind for name, kind in KINDS.items() if kind.family() == family}


def every(attribute: str) -> tuple[bytes, ...]:
    """Return the regular expressions that kinds have as `attribute`: step, error or success."""
    return tuple(pattern for kind in KINDS.values() if (pattern := getattr(kind, attribute)))


def counts_from_zero(step: bytes) -> bool:
    """Return whether what `step` of a kind matched counts iterations from 0."""
    kinds = (kind for kind in KINDS.values() if kind.step and re.match(kind.step, step))
    return any(kind.from_zero for kind in kinds)
