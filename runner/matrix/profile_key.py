"""The key `profile` of a cell: `torch`, `nsys`, or {tool, steps, ranks, program}. Pure."""

import re
from typing import Any

from runner.base.errors import UserError
from runner.base.suggest import nearest
from runner.systems.common.system import System
from runner.terms.profile import DEFAULT_NSYS, DEFAULT_STEPS, NSYS, TOOLS, Profile

KEYS = ("tool", "steps", "ranks", "program")
EXAMPLE = "profile: {tool: torch, steps: 10-12, ranks: [0]}"


def read_profile(value: Any, system: System, where: str) -> Profile | None:
    """Read it, with the system's defaults. Raises UserError for what the system cannot do."""
    if value is None or value == "none":
        return None
    options = value if isinstance(value, dict) else {"tool": value}
    for key in options:
        if key not in KEYS:
            there = ", ".join(KEYS)
            raise UserError(f"{where}: profile: {key!r}{nearest(str(key), KEYS)}; it has {there}")
    tool, can = options.get("tool"), system.profiling
    if tool not in TOOLS:
        raise UserError(f"{where}: profile: {tool!r} is not one of {', '.join(TOOLS)}; {EXAMPLE}")
    if can is None or tool not in can.tools:
        has = f"by {' or '.join(can.tools)} alone" if can else "by neither torch nor nsys"
        raise UserError(f"{where}: profile: {system.name} can be profiled {has}; leave it out")
    for key, possible in (("steps", can.steps), ("ranks", can.ranks)):
        if options.get(key) is not None and not possible:
            extent = {"steps": "as a whole", "ranks": "on all ranks"}[key]
            raise UserError(f"{where}: profile: {system.name} is traced {extent}; leave {key} out")
    if options.get("program") is not None and tool != NSYS:
        raise UserError(f"{where}: profile: program is the path of nsys; leave it out")
    first_step, last_step = _steps(options.get("steps"), where) if can.steps else (0, 0)
    return Profile(
        tool=tool,
        first=first_step,
        last=last_step,
        ranks=_ranks(options.get("ranks"), where) if can.ranks else (),
        program=_program(options.get("program"), where) if tool == NSYS else "",
    )


def _steps(value: Any, where: str) -> tuple[int, int]:
    """Read `10-12`, or one number."""
    if value is None:
        return DEFAULT_STEPS
    match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", str(value))
    first_step, last_step = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if isinstance(value, bool) or not 1 <= first_step <= last_step:
        raise UserError(f"{where}: profile: steps is {value!r}; write iterations as 10-12")
    return first_step, last_step


def _ranks(value: Any, where: str) -> tuple[int, ...]:
    if value is None:
        return (0,)
    valid = isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)
    if not valid or not value or len(set(value)) < len(value):
        raise UserError(f"{where}: profile: ranks is {value!r}; list each rank once, such as [0]")
    return tuple(value)


def _program(value: Any, where: str) -> str:
    path = DEFAULT_NSYS if value is None else value
    if not isinstance(path, str) or not re.fullmatch(r"/[\w./+-]{1,1000}", path):
        raise UserError(f"{where}: profile: program is {value!r}; write the absolute path of nsys")
    return path
