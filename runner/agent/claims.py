"""What an agent may say of two cells' speed: only what verdicts allow.

`faster` and `slower` need the same work, losses that agree, cells that are publishable, runs that
did what their cells say, and a difference beyond the noise of both. Everything else is `none`, with
why. An agent cannot add a claim, a threshold or a cell of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.compare.verdicts import CampaignComparison
from runner.figures.cell_statistics import runs_that_count
from runner.figures.parity import parity, start_differs, task_differs
from runner.tables.catalogue.every_column import THRESHOLDS
from runner.tables.row import Row

SPEED = "samples_per_s"
FASTER, SLOWER, NO_DIFFERENCE, NONE = "faster", "slower", "no_difference_shown", "none"


@dataclass(frozen=True)
class Claim:
    """What may be said of a cell against another, by samples/s; or why nothing may be said."""

    cell: str
    against: str
    claim: str
    percent: float | None = None
    interval_percent: float | None = None  # the larger half of the 95 % interval
    why: tuple[str, ...] = ()
    work: Mapping[str, Any] | None = None  # what the cell ran, as recorded

    def to_json(self) -> dict[str, Any]:
        """Return the claim as an answer has it."""
        return {
            "cell": self.cell,
            "against": self.against,
            "claim": self.claim,
            "percent": self.percent if self.claim in (FASTER, SLOWER) else None,
            "interval_percent": self.interval_percent if self.claim in (FASTER, SLOWER) else None,
            "why": list(self.why),
            "work": dict(self.work or {}),
        }


Problems = Mapping[tuple[str, int], str]  # cell and repeat, to what its run did otherwise


def of_campaign(table: Sequence[Row], problems: Problems) -> list[Claim]:
    """Return what may be said of each cell against the campaign's baseline."""
    claims = []
    for row in table:
        comparison = row.comparison
        base = comparison.base if comparison and not comparison.is_baseline else None
        if base is None:
            continue
        difference = comparison.differences.get(SPEED) if comparison else None
        why = list(_against(row, base, problems))
        if difference is None:
            claims.append(_claim(row, base, None, None, [*why, "no_speed"]))
            continue
        real = difference.real and abs(difference.percent) >= THRESHOLDS[SPEED]
        half = None if difference.interval is None else difference.half
        claims.append(_claim(row, base, difference.percent, half, why, real))
    return claims


def of_two(
    comparison: CampaignComparison, a: Sequence[Row], b: Sequence[Row], problems: Problems
) -> list[Claim]:
    """Return what may be said of each cell of the second campaign against the first's."""
    before = {row.cell: row for row in a}
    after = {row.cell: row for row in b}
    claims = []
    for cell in comparison.cells:
        row, base = after.get(cell.name), before.get(cell.name)
        if row is None or base is None:
            continue
        speed = cell.measures.get(SPEED)
        why = list(_against(row, base, problems))
        if speed is None:
            claims.append(_claim(row, base, None, None, [*why, "no_speed"]))
            continue
        real = speed.verdict in (FASTER, SLOWER, "better", "worse")
        if speed.verdict in ("cannot_tell", "not_judged"):
            why.append("cannot_tell: too few runs, or too much noise")
        claims.append(_claim(row, base, speed.difference_percent, speed.noise_percent, why, real))
    return claims


def _claim(
    row: Row,
    base: Row,
    percent: float | None,
    half: float | None,
    why: Sequence[str],
    real: bool = False,
) -> Claim:
    word = NONE
    if not why and percent is not None:
        word = NO_DIFFERENCE if not real else FASTER if percent > 0 else SLOWER
    return Claim(row.cell, base.cell, word, percent, half, tuple(why), _work(row))


def _against(row: Row, base: Row, problems: Problems) -> Iterator[str]:
    """Yield what forbids any claim on the two."""
    for cell in (row, base):
        if not cell.finished:
            yield f"not_ok: {cell.cell} has no run that ended ok"
            return
    for cell in (row, base):
        yield from (f"{code}: {cell.cell}: {why}" for code, why in cell.verdict.items())
        for record in cell.records:
            if problem := problems.get((record.cell, record.repeat)):
                yield f"other_work: {cell.cell}, repeat {record.repeat}: {problem}"
    ours, theirs = runs_that_count(row.records)[1], runs_that_count(base.records)[1]
    if difference := task_differs(ours[0], theirs[0]):
        yield f"other_task: {difference}"
    elif ours[0].sample_length != theirs[0].sample_length:
        yield "other_task: tokens per sample differ"
    elif difference := start_differs(ours, theirs):
        yield f"other_start: {difference}"
    else:
        losses = parity(ours, theirs)
        if losses.same is not True:
            yield f"loss_parity: {losses.words}"


def _work(row: Row) -> dict[str, Any]:
    """Return what a cell ran, as recorded, whatever an agent calls it."""
    record = row.record
    return {
        "seeds": [run.parameters.get("seed") for run in row.records],
        "tokens_per_sample": record.sample_length,
        "global_batch_size": record.global_batch_size,
        "train_iters": record.parameters.get("train_iters"),
        "repeats": len(row.records),
    }
