"""The keys `faults` and `recovery` of a cell: what fails on purpose, and how it goes on. Pure.

`kill_rank@25`, `stop:1.0@12s`, several with blanks between, or a list of mappings.
"""

import re
from typing import Any

from node.schema import UnfitError
from node.supervisor.fault_kinds import KILL_NODE, KINDS, POWER_OFF, SLOW, STOP
from runner.base.dataclass_schema import read
from runner.base.errors import UserError
from runner.base.suggest import nearest
from runner.matrix.keys import CELL_KEYS
from runner.terms.faults import MOST_FAULTS, RESTART, Fault, FaultPlan

EXAMPLE = "write faults: kill_rank@25, or faults: [{kind: kill_node, node: 1, iteration: 25}]"
KEYS = ("kind", "node", "rank", "iteration", "after_s", "for_s")
_WORD = re.compile(
    r"(?P<kind>[a-z_]{1,20})(?::(?P<node>\d{1,6})(?:\.(?P<rank>\d{1,6}))?)?"
    r"@(?:(?P<iteration>\d{1,9})|(?P<after_s>\d{1,6}(?:\.\d{1,3})?)s)"
    r"(?:\+(?P<for_s>\d{1,6}(?:\.\d{1,3})?)s)?"
)


def read_faults(value: Any, where: str) -> FaultPlan | None:
    """Read it. Raises UserError that names what is wrong and shows how it is written."""
    where = f"{where}: faults"
    if value is None or value == "none" or value == []:
        return None
    if isinstance(value, str):
        planned = [_word(word, where) for word in value.split()]
    elif isinstance(value, list):
        planned = [
            _word(item, where) if isinstance(item, str) else _mapping(item, where) for item in value
        ]
    else:
        raise UserError(f"{where} is {str(value)[:80]!r}; {EXAMPLE}")
    if len(planned) > MOST_FAULTS:
        raise UserError(f"{where} has {len(planned)} faults, more than {MOST_FAULTS}")
    return FaultPlan(planned=tuple(planned))


def read_recovery(value: Any, faults: FaultPlan | None, where: str) -> str:
    """Read how a run goes on; "" for not at all."""
    policy = CELL_KEYS["recovery"].read(value, where)
    if policy is None:
        return RESTART if faults else ""
    return "" if policy == "none" else str(policy)


def _word(word: str, where: str) -> Fault:
    _refuse_power_off(re.split(r"[:@+]", word, maxsplit=1)[0], where)
    match = _WORD.fullmatch(word)
    if not match:
        raise UserError(
            f"{where}: {word[:80]!r} is not KIND@ITERATION, KIND:NODE.RANK@SECONDSs or"
            f" KIND@ITERATION+SECONDSs; {EXAMPLE}"
        )
    numbers = {"node": int, "rank": int, "iteration": int, "after_s": float, "for_s": float}
    content = {key: number(match[key]) for key, number in numbers.items() if match[key] is not None}
    return _mapping({"kind": match["kind"], **content}, where)


def _mapping(value: Any, where: str) -> Fault:
    if not isinstance(value, dict):
        raise UserError(f"{where}: {str(value)[:80]!r} cannot be read; {EXAMPLE}")
    _refuse_power_off(value.get("kind"), where)
    for key in value:
        if key not in KEYS:
            raise UserError(
                f"{where}: {str(key)[:80]!r}{nearest(str(key), KEYS)}; it has {', '.join(KEYS)}"
            )
    if (kind := value.get("kind")) not in KINDS:
        raise UserError(
            f"{where}: {str(kind)[:80]!r} is not one of {', '.join(KINDS)}"
            f"{nearest(str(kind), KINDS)}"
        )
    try:
        fault = read(Fault, value, where)
    except UnfitError as error:
        raise UserError(str(error)) from None
    if bool(fault.iteration) == bool(fault.after_s):
        raise UserError(f"{where}: {fault.kind}: give either iteration or after_s; {EXAMPLE}")
    _lasts(fault.kind, fault.for_s, where)
    return fault


def _lasts(kind: str, for_s: float, where: str) -> None:
    """Refuse a fault that would never end, and a length of one that has none."""
    if kind == SLOW and not for_s:
        raise UserError(f"{where}: {kind} needs for_s, the seconds after which it is undone")
    if for_s and kind not in (SLOW, STOP):
        raise UserError(f"{where}: {kind} has no length; leave for_s out")


def _refuse_power_off(kind: Any, where: str) -> None:
    """Refuse it before all else: a person who writes it names the host, as no other fault does."""
    if kind == POWER_OFF:
        raise UserError(
            f"{where}: {POWER_OFF} needs an engine that can switch a node off and on again, and"
            f" neither ssh nor Slurm can; take {KILL_NODE}, which ends all of the run on a node"
        )
