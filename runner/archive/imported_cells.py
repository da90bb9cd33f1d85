"""What a log from elsewhere becomes in a campaign: a cell of `system: command`, and an outcome.

Nothing is made up: what neither the log nor the user says is not there. The lines' own family reads
it again each time, as `log:` of a matrix does; the trainer that was recognised is a name beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from node.printable import printable
from node.validated_text import CellId, InsidePath
from runner.base.errors import UserError
from runner.base.masking import is_secret
from runner.logs.kinds import KINDS, kinds_of
from runner.logs.run_sizes import UNKNOWN, Known
from runner.results.diagnosis.causes import STATUSES
from runner.results.diagnosis.verdict import Verdict, rules
from runner.results.parsed import Reading
from runner.systems.command import SYSTEM as COMMAND
from runner.systems.common.placeholders import NAME
from runner.terms.cell import Cell
from runner.terms.outcome import Outcome, Place

MOST_LETTERS = 1_000  # of a key's value
MODEL = ("model_flops_per_token", "architecture")  # which no column shows
# Keys of a cell that other options say, or that only a start has.
_TAKEN = {
    "log": "--family",
    "samples_per_step": "--global-batch-size",
    "global_batch_size": "--global-batch-size",
    "tokens_per_sample": "--tokens-per-sample",
    "nodes": "--nodes",
    "devices": "--devices",
    "system": "--system",
}
_OF_A_START = ("argv", "cwd", "launcher", "environment", "parameters", "pin", "dataset", "env")


@dataclass(frozen=True)
class Declared:
    """What the user says of logs that are imported; None: what the log says itself."""

    system: str | None = None
    family: str | None = None
    log: Any = None  # a matrix's `log`, in place of a family
    nodes: int = 1
    global_batch_size: int | None = None
    known: Known = UNKNOWN
    device: str = ""
    warmup_iters: int | None = None
    set: Mapping[str, Any] = field(default_factory=dict)


def check_keys(keys: Mapping[str, Any]) -> None:
    """Refuse `--set` of anything that is not a key of such a cell. Raises UserError."""
    for key, value in keys.items():
        if option := _TAKEN.get(key):
            raise UserError(f"--set {key}: use {option} instead")
        if key in _OF_A_START or not NAME.fullmatch(key):
            raise UserError(f"--set {key}: an imported run has no such key; remove it")
        if key not in MODEL and is_secret(key):
            raise UserError(f"--set {key}: it is named like a secret, and is shown; leave it out")
        plain = isinstance(value, str | int | float | bool) and len(str(value)) <= MOST_LETTERS
        if not plain and key not in MODEL:
            raise UserError(
                f"--set {key} is {str(value)[:60]!r}; give a number, true or false, or text of at"
                f" most {MOST_LETTERS} letters"
            )


def cell_of(name: str, log: str, reading: Reading, declared: Declared) -> Cell:
    """Make the cell of a run. Raises UserError that names what is to be said of `log`."""
    devices, tokens = reading.sizes.devices, reading.sizes.tokens_per_sample
    if devices is None:
        raise UserError(f"{log} does not say on how many devices it ran; give --devices N")
    if devices % declared.nodes:
        raise UserError(f"{devices} devices do not spread evenly over {declared.nodes} nodes")
    if reading.tokens_per_s and not reading.statistics.samples_per_s and not tokens:
        raise UserError(
            f"{log} has tokens/s, and does not say how many tokens are in a sample; give"
            " --tokens-per-sample N"
        )
    parameters = {
        "log": declared.log or _family(log, reading, declared),
        "samples_per_step": reading.batch_size,
        "tokens_per_sample": tokens,
        "train_iters": reading.measurement.train_iters,
        **declared.set,
    }
    where = f"cell {name}"
    typed = COMMAND.recorded(parameters, where)
    cell = Cell(
        name=name,
        system=COMMAND.name,
        pin="",
        dataset="",
        nodes=declared.nodes,
        devices_per_node=devices // declared.nodes,
        device_ids=None,
        env={},
        parameters={key: typed[key] for key, value in parameters.items() if value is not None},
        axes={key: value for key, value in declared.set.items() if key not in MODEL},
    )
    CellId(cell.id, where)
    typed_cell = replace(cell, parameters=typed)
    COMMAND.architecture(typed_cell)
    COMMAND.batch_size(typed_cell)
    return cell


def _family(log: str, reading: Reading, declared: Declared) -> str:
    if declared.family:
        return declared.family
    system, family = reading.found.system, reading.found.family
    if family is None and system is None:
        raise UserError(
            f"{log} has no step that a known family of lines logs; name its --family"
            " (docs/parsers.md), if it is a trainer's log"
        )
    return family or KINDS[kinds_of(system)[0]].family()


def printed_by(reading: Reading, cell: Cell) -> str:
    """Name the trainer: a system that was recognised, else the family of its lines."""
    system = reading.found.system
    recognised = system if system != COMMAND.name else None
    family = cell.parameters["log"]
    return recognised or (family if isinstance(family, str) else COMMAND.name)


def outcome_of(verdict: Verdict, reading: Reading) -> Outcome:
    """Say how the run ended: as `parse` has it, in the words of a campaign."""
    status = STATUSES[verdict.status].ends
    if not reading.measurement.intervals:
        status = "did_not_run"
    has_evidence = verdict.path is not None
    return Outcome(
        status=status,
        cause="",
        reason=printable(verdict.sentence),
        last_words=printable(verdict.words)[:300],
        diagnosis=verdict.status if has_evidence else None,
        evidence=Place(InsidePath(verdict.name), verdict.line) if has_evidence else None,
        rules=rules(),
    )


def names_of(logs: Sequence[Path]) -> list[str]:
    """Name a cell for each log: its file without its ending, with folders where two are alike."""
    depth = 1
    while True:
        names = ["/".join([*map(printable, path.parts[-depth:-1]), _stem(path)]) for path in logs]
        if len(set(names)) == len(names) or depth >= max(len(path.parts) for path in logs):
            return names
        depth += 1


def _stem(path: Path) -> str:
    return printable(re.sub(r"\.(log|txt|out|jsonl?)$", "", path.name)).lstrip(".") or "log"
