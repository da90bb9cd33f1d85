"""What bench would do with a matrix, before it does it: kept, new, hidden, and for how long."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from node.time_words import lasts
from runner.base.escapes import TerminalLine
from runner.base.grid import aligned
from runner.folder.campaign import Campaign
from runner.folder.hidden import Hidden, hidden_of, repeats_that_ran
from runner.launch.bench import finished, left_alone
from runner.launch.repeating import begun, once_more
from runner.matrix.select import select
from runner.plan import checks
from runner.plan.needs import Need, in_words, time_of, too_long
from runner.systems.common.registry import load_system
from runner.terms.cell import Matrix, first_repeat
from runner.terms.cluster import Cluster
from runner.terms.settings import Settings

OWN, OTHERS = "its own finished runs", "the campaign's finished runs"
ESTIMATE = "the estimate"


@dataclass(frozen=True)
class CellOutlook:
    """A cell's repeats: those that are kept, and what the new ones are expected to need."""

    id: str
    kept: int
    need: Need


@dataclass(frozen=True)
class Outlook:
    """What bench would do; `warnings` are of runs that cannot end well as they are asked for."""

    campaign: str
    cells: tuple[CellOutlook, ...]
    hidden: Hidden
    warnings: tuple[str, ...]
    side_by_side: bool
    time_limit_s: float

    @property
    def needs(self) -> list[Need]:
        """What the new runs need, by cell."""
        return [cell.need for cell in self.cells if cell.need.runs]

    def to_json(self) -> dict[str, Any]:
        """Return what `bench --plan --format json` prints."""
        seconds, unknown = time_of(self.needs, self.time_limit_s)
        return {
            "schema": 1,
            "campaign": self.campaign,
            "kept": sum(cell.kept for cell in self.cells),
            "new": sum(cell.need.runs for cell in self.cells),
            "hidden": asdict(self.hidden),
            "expected_s": None if unknown else seconds or 0.0,
            "unknown": unknown,
            "cells": [
                {
                    "cell": cell.need.cell,
                    "id": cell.id,
                    "kept": cell.kept,
                    "new": cell.need.runs,
                    "run_s": cell.need.run_s,
                    "by": cell.need.by,
                    "memory_mib": cell.need.memory_mib,
                }
                for cell in self.cells
            ],
            "warnings": list(self.warnings),
        }

    def words(self) -> str:
        """Say the same for a person."""
        rows = [
            [cell.need.cell, cell.kept, cell.need.runs, _each(cell.need)] for cell in self.cells
        ]
        table = aligned(rows, "simple", ("cell", "kept", "new", "a new run takes"))
        kept, new = (
            sum(numbers)
            for numbers in ([cell.kept for cell in self.cells], [n.runs for n in self.needs])
        )
        lines = [f"campaign {self.campaign}: {kept} kept, {new} new, {self.hidden.runs} hidden"]
        lines += [self.hidden.words] if self.hidden.runs else []
        lines += ["", *table.splitlines(), "", *self.warnings]
        total = in_words(self.needs, self.time_limit_s, side_by_side=self.side_by_side)
        lines.append(total if self.needs else "nothing is left to run")
        return "\n".join(map(TerminalLine, lines))


def _each(need: Need) -> str:
    if not need.runs:
        return ""
    if need.run_s is None:
        return "unknown: nothing like it has run"
    return f"about {lasts(need.run_s)}, {'by' if need.by == ESTIMATE else 'as'} {need.by}"


def look(
    campaign: Campaign,
    matrix: Matrix,
    cluster: Cluster,
    only: Sequence[str] = (),
    again: bool = False,
    failed: bool = False,
) -> Outlook:
    """Look at what a bench would do. Reads the campaign's folder alone; raises UserError as bench
    does.
    """
    growth = campaign.grown(matrix, cluster)
    recorded_matrix = growth.matrix
    cells = select(recorded_matrix, only)
    checks.check_cells(
        [first_repeat(recorded_matrix, cell) for cell in cells], cluster, matrix.warmup_iters
    )
    repeats = begun(campaign, recorded_matrix, cells)
    finished_repeats = left_alone(finished(campaign, repeats), again, failed)
    new = [repeat for repeat in repeats if (repeat[0].id, repeat[1]) not in finished_repeats]
    new = new or once_more(campaign, recorded_matrix, cells)
    took = {cell_id: times for cell_id, times in _took(campaign, growth.settings) if times}
    every = [seconds for times in took.values() for seconds in times]
    outlooks = []
    for cell in cells:
        own_times = took.get(cell.id)
        times, by = (own_times, OWN) if own_times else (every, OTHERS)
        estimate = load_system(cell.system).estimate
        expected = estimate(cell, cluster) if estimate else None
        if not times and expected is not None:
            times, by = [expected.time_s], ESTIMATE
        there = sum((cell.id, number) in finished_repeats for number in recorded_matrix.numbers)
        runs = sum(repeated_cell is cell for repeated_cell, _ in new)
        need = Need(
            cell=cell.name,
            runs=runs,
            run_s=median(times) if times else None,
            by=by if times else "",
            memory_mib=None if expected is None else expected.memory_mib,
            train_iters=cell.parameters.get("train_iters"),
        )
        estimated_s = None if expected is None else expected.time_s
        outlooks.append((CellOutlook(cell.id, there, need), estimated_s))
    return Outlook(
        campaign=campaign.name,
        cells=tuple(outlook for outlook, _ in outlooks),
        hidden=hidden_of(campaign.path, growth.settings),
        warnings=(*_too_long(outlooks, matrix.time_limit_s), *_until(recorded_matrix)),
        side_by_side=cluster.engine.in_jobs,
        time_limit_s=matrix.time_limit_s,
    )


def _until(matrix: Matrix) -> Iterator[str]:
    """Say that there may be more runs than are counted."""
    if matrix.until_percent is not None:
        yield (
            f"{len(matrix.first_numbers)} to {matrix.repeats} repeats of each cell, until"
            f" samples/s is known to {matrix.until_percent:g} %: the number is of those that are"
            " sure to run"
        )


def _too_long(
    found: Sequence[tuple[CellOutlook, float | None]], time_limit_s: float
) -> Iterator[str]:
    """Warn of new runs by what their own cell took, else by the system's estimate."""
    for outlook, estimated_s in found:
        need = outlook.need
        if need.by != OWN:
            need = Need(need.cell, need.runs, estimated_s, ESTIMATE, None, need.train_iters)
        if need.runs:
            yield from too_long([need], time_limit_s)


def _took(campaign: Campaign, settings: Settings) -> Iterator[tuple[str, list[float]]]:
    """Yield how long the runs of each cell took that ended ok, hidden ones too."""
    for cell in (*settings.cells, *settings.hidden):
        numbers = repeats_that_ran(campaign.path, cell.id)
        last_outcomes = [
            campaign.attempts(cell.id, number)[-1].outcome for number in sorted(numbers)
        ]
        yield cell.id, [ended.wall_s for ended in last_outcomes if ended and ended.status == "ok"]
