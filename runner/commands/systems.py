"""`python -m runner systems`: what can be benchmarked, and what a matrix may set for it."""

import argparse
from collections.abc import Sequence
from typing import Any

from runner.base.options import Commands, new_command
from runner.base.program_name import CALLED
from runner.base.streams import say, say_json, terminal_width
from runner.terms.printed_answers import SystemEntry, SystemKey, SystemsAnswer

DESCRIPTION = """\
List the systems that can be benchmarked; with a NAME, what a matrix may set for that one.

  python -m runner systems                 every system, its launcher and its pin sets
  python -m runner systems torch_gpt       its keys, their defaults and what they may be

Documents 000 to 004 are the write-ups that TrainBench reproduces: docs/documents.md.

exit codes: 0 listed, 2 there is no such system
"""

REPRODUCTIONS = "Reproductions of documented benchmarks (docs/documents.md)"


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    listing = new_command(
        commands,
        "systems",
        "what can be benchmarked, and its parameters",
        DESCRIPTION,
        answers=("systems",),
    )
    listing.add_argument("name", nargs="?", help="show its parameters")


def run(chosen: argparse.Namespace) -> int:
    """Print the list, as wide as the terminal."""
    if chosen.format == "json":
        say_json(_answer(chosen.name))
        return 0
    width = terminal_width()
    say(_all(width) if chosen.name is None else _system_text(chosen.name, width))
    return 0


def _answer(name: str | None) -> SystemsAnswer:
    """Return all systems; one that is named with its keys. Raises UserError."""
    from runner.matrix.keys import CELL_KEYS
    from runner.systems.common.registry import load_system, system_names

    entries = []
    for system_name in (name,) if name else system_names():
        system = load_system(system_name)
        items = (*CELL_KEYS.values(), *system.parameters) if name else ()
        keys = tuple(
            SystemKey(name=k.name, default=k.default, may_be=k.wanted(), meaning=k.help)
            for k in items
        )
        entries.append(
            SystemEntry(
                name=system.name,
                summary=system.summary,
                launcher=system.launcher,
                pins=tuple(system.pins),
                historic=system.historic,
                keys=keys,
            )
        )
    return SystemsAnswer(systems=tuple(entries))


def _all(width: int) -> str:
    from runner.base.grid import grid
    from runner.systems.common.registry import load_system, system_names

    listed = []
    systems = [load_system(name) for name in system_names()]
    for title, historic in (("Trainers of today", False), (REPRODUCTIONS, True)):
        rows = [
            (item.name, item.launcher, ", ".join(item.pins), item.summary)
            for item in systems
            if item.historic is historic
        ]
        listed.append(
            f"{title}\n\n{grid(('system', 'launcher', 'pins', 'what it is'), rows, width)}"
        )
    return "\n\n".join([*listed, f"`{CALLED} systems NAME` lists a system's parameters."])


def _system_text(name: str, width: int) -> str:
    from runner.base.grid import filled, grid
    from runner.matrix.keys import CELL_KEYS
    from runner.systems.common.registry import load_system

    system = load_system(name)
    rows = [
        (item.name, _default(item.default), item.wanted(), item.help)
        for item in (*CELL_KEYS.values(), *system.parameters)
    ]
    above = (
        f"{system.name}: {system.summary}",
        f"launcher: {system.launcher}",
        f"pins: {_pins(system.pins)}",
    )
    keys = grid(("key", "default", "may be", "what it is"), rows, width)
    return "\n".join([*(filled(line, width) for line in above), "", keys])


def _pins(names: Sequence[str]) -> str:
    if not names:
        return "those that an inventory declares; none is the default"
    return f"{', '.join(names)} (the first is the default)"


def _default(value: Any) -> str:
    """Write a default as a matrix writes it."""
    if value is None:
        return "–"
    return str(value).lower() if isinstance(value, bool) else str(value)
