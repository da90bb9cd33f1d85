"""Columns of what training costs, where a person gave the price of a device-hour."""

import math
from collections.abc import Iterator, Sequence

from runner.tables.catalogue.column import Column, Text, Value
from runner.tables.formatting import MISSING, decimals, number_text
from runner.tables.row import NO_LENGTH, Row

HOUR_S = 3600.0
MILLION = 1e6
MOST_DECIMALS = 9


def _hourly(row: Row) -> float | None:
    """Return what an hour of the job costs; None without a price, and where no run ended ok."""
    return row.device_hour * row.record.world_size if row.device_hour and row.finished else None


def _per_million_tokens(row: Row) -> float | None:
    hourly, rate = _hourly(row), row.tokens_per_s
    return None if hourly is None or rate is None else hourly / HOUR_S / rate * MILLION


def _to_target(row: Row) -> float | None:
    hourly = _hourly(row)
    seconds = row.target.figures.get("seconds") if row.target else None
    return None if hourly is None or seconds is None else hourly * seconds.median / HOUR_S


def _why_no_speed(row: Row) -> str:
    return row.statistics.missing.get("samples_per_s") or NO_LENGTH


def _why_no_target(row: Row) -> str:
    return (row.target.missing if row.target else {}).get(
        "seconds", "the matrix has no target_loss"
    )


def _places(value: float) -> int:
    """Say how many decimals show four significant digits, of a value below 1, too."""
    return decimals(value) if value >= 1 else min(3 - math.floor(math.log10(value)), MOST_DECIMALS)


def _priced(table: Sequence[Row]) -> bool:
    return any(_hourly(row) for row in table)


def _note(table: Sequence[Row]) -> Iterator[str]:
    price = next((row.device_hour for row in table if _hourly(row)), None)
    if price is not None:
        yield (
            f"cost: of the time of counted steps at {price:g} per device-hour; in percent its 95 %"
            " interval is that of the speed, or of the time to the target. Start, evaluation and"
            " waiting are not in it."
        )


def _cost(key: str, title: str, place: float, worth: float, value: Value, why: Text) -> Column:
    def text(row: Row) -> str:
        cost = value(row)
        return MISSING if cost is None else number_text(cost, _places(cost))

    return Column(
        key,
        value,
        title=title,
        place=place,
        worth=worth,
        shown=text,
        machine_if=_priced,
        people_if=lambda table: any(value(row) is not None for row in table),
        note=_note,
        missing=lambda row: why(row) if _hourly(row) and value(row) is None else "",
    )


COST = (
    _cost(
        "cost_per_million_tokens",
        "cost per\nM tokens",
        456,
        545,
        _per_million_tokens,
        _why_no_speed,
    ),
    _cost("cost_to_target", "cost to\ntarget", 205, 544, _to_target, _why_no_target),
)
