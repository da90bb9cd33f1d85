"""A row's costs by a person's prices. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from runner.expect.cost import Interval95, PricedJob, cell_cost
from runner.expect.prices import Prices
from runner.figures.target import Middle, TimeToTarget
from runner.tables.row import NO_LENGTH, Row


def with_costs(table: Sequence[Row], prices: Prices | None) -> Sequence[Row]:
    """Set beside each row that ended ok what it costs; the same rows without prices."""
    if prices is None:
        return table
    return [
        replace(row, cost=cell_cost(prices, job_of(row), _reasons(row))) if row.finished else row
        for row in table
    ]


def job_of(row: Row) -> PricedJob:
    """Return what of a row decides its cost."""
    length, rate = row.record.sample_length, row.statistics.samples_per_s
    speed = None
    if length and rate is not None:
        ends = (None if end is None else end * length for end in (rate.ci_low, rate.ci_high))
        speed = Interval95(rate.value * length, *ends)
    return PricedJob(
        device=row.device,
        devices=row.record.world_size,
        nodes=row.record.nodes,
        tokens_per_s=speed,
        joules_per_token=row.power.joules_per_token,
        seconds_to_target=_target(row.target, "seconds"),
        joules_to_target=_target(row.target, "joules"),
    )


def _target(target: TimeToTarget | None, name: str) -> Interval95 | None:
    middle: Middle | None = target.figures.get(name) if target else None
    return None if middle is None else Interval95(middle.median, middle.low, middle.high)


def _reasons(row: Row) -> Mapping[str, str]:
    target = row.target.missing if row.target else {}
    without = "the matrix has no target_loss"
    return {
        "tokens_per_s": row.statistics.missing.get("samples_per_s") or NO_LENGTH,
        "joules_per_token": f"electricity has a price, but {row.power.missing}",
        "seconds_to_target": target.get("seconds", without),
        "joules_to_target": f"electricity has a price, but {target.get('joules', without)}",
    }
