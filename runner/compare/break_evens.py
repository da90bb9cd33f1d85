"""At which price a second machine is as cheap as the first, for each cell of a comparison. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from node.printable import printable
from runner.compare.quantity import Measure
from runner.expect.cost import BreakEven, Interval95, PricedJob, break_even
from runner.expect.prices import Prices
from runner.tables.formatting import number_text


def cell_break_even(
    prices: Prices, a: Mapping[str, Any], b: Mapping[str, Any], speed: Measure
) -> BreakEven:
    """Return the break-even of two rows of `collect --format json`, by their samples/s."""
    length = (a.get("tokens_per_s") or 0) / speed.a
    return break_even(
        prices,
        _job(a, speed.a * length),
        _job(b, speed.b * length),
        speed.noise_percent,
    )


def _job(row: Mapping[str, Any], tokens_per_s: float) -> PricedJob:
    return PricedJob(
        device=row.get("device") or "",
        devices=row.get("devices") or 1,
        nodes=row.get("nodes") or 1,
        tokens_per_s=Interval95(tokens_per_s) if tokens_per_s else None,
        joules_per_token=row.get("energy_per_token_j"),
    )


def break_even_lines(cells: Mapping[str, BreakEven]) -> Iterator[str]:
    """Yield for each cell what a device-hour of the second machine may cost."""
    for name, result in cells.items():
        cell, second = printable(name), printable(result.second or "the second machine")
        if result.device_hour is None:
            yield f"break-even of {cell}: not known: {printable(result.missing)}"
            continue
        price, low, high = result.device_hour.value, result.device_hour.low, result.device_hour.high
        within = ""
        if low is not None and high is not None:
            within = f" (95 % interval {number_text(low)} to {number_text(high)})"
        yield (
            f"break-even of {cell}: a device-hour of {second} may cost {number_text(price)}"
            f" {result.currency}{within} for the same cost per token"
        )
