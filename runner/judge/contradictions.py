"""What a matrix says of a run and its log says otherwise: a sentence each. Pure."""

from collections.abc import Iterator
from statistics import median

from runner.logs.run_sizes import UNKNOWN
from runner.systems.common.registry import load_system
from runner.terms.cell import Cell
from runner.terms.record import Measurement

# Rates of a log may be means of other windows than its times are; a wrong batch is off by more.
TOLERANCE = 1.2


def contradictions(cell: Cell, measured: Measurement) -> Iterator[str]:
    """Yield what a cell of a trainer of the user's own says and its log does not bear out."""
    system = load_system(cell.system)
    if not system.own_keys or not measured.intervals:
        return
    cell = system.typed(cell)
    tokens, logged = system.tokens_per_sample(cell), UNKNOWN.or_by(measured.facts)
    for quantity, ours, theirs in (
        ("tokens_per_sample", tokens, logged.tokens_per_sample),
        ("devices", cell.world_size, logged.devices),
    ):
        if ours and theirs and ours != theirs:
            yield f"the cell says {ours} {quantity}, and its log {theirs}"
    if doubt := rate_doubt(cell, measured):
        yield doubt


def rate_doubt(cell: Cell, measured: Measurement) -> str:
    """Say why no samples/s of a cell of a trainer of the user's own can be right."""
    system = load_system(cell.system)
    return doubt_of(system.batch_size(system.typed(cell)), measured) if system.own_keys else ""


def doubt_of(batch: int | None, measured: Measurement, who: str = "the cell says") -> str:
    """Say why no samples/s can be right: rates and times of the lines make another batch than the
    run has, or, of a run whose batch is not known, than the lines themselves have.
    """
    shares = [
        step.samples_per_s * step.step_time_ms / 1000 / size
        for step in measured.intervals
        if step.samples_per_s and step.step_time_ms and (size := batch or step.global_batch_size)
    ]
    if not shares or 1 / TOLERANCE < (off := median(shares)) < TOLERANCE:
        return ""
    if batch is None:
        return f"no samples/s: rate x time of a line make {off:.4g} times the batch size on it"
    return (
        f"{who} {batch} samples an iteration, and rate x time of the log's lines make"
        f" {off * batch:.4g}: samples_per_step, tokens_per_sample or a unit is wrong"
    )
