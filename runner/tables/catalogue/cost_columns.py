"""Columns of what training costs, where a person gave prices."""

import math
from collections.abc import Callable, Iterator, Sequence

from runner.expect.cost import PER_MILLION, TO_TARGET, Interval95
from runner.tables.catalogue.column import Column, Text, Value
from runner.tables.formatting import MISSING, decimals, number_text
from runner.tables.row import Row

MOST_DECIMALS = 9
_PARTS = {PER_MILLION: "per_million_tokens", TO_TARGET: "to_target"}


def _has_cost(table: Sequence[Row]) -> bool:
    return any(row.cost for row in table)


def _has(name: str) -> Callable[[Sequence[Row]], bool]:
    return lambda table: any(_interval(row, name) for row in table)


def _interval(row: Row, name: str) -> Interval95 | None:
    return getattr(row.cost, _PARTS[name], None)


def _value(name: str, end: str) -> Value:
    return lambda row: getattr(_interval(row, name), end, None)


def _text(name: str) -> Text:
    """Show the cost and, where the runs tell it, its interval."""

    def text(row: Row) -> str:
        cost = _interval(row, name)
        if cost is None:
            return MISSING
        places = decimals(cost.value) if cost.value >= 1 else _small(cost.value)
        figure = number_text(cost.value, places)
        if cost.low is None or cost.high is None:
            return figure
        return f"{figure} ({number_text(cost.low, places)}-{number_text(cost.high, places)})"

    return text


def _small(value: float) -> int:
    """Say how many decimals show four significant digits of a value below 1."""
    return min(3 - math.floor(math.log10(value)), MOST_DECIMALS) if value > 0 else 0


def _missing(name: str) -> Text:
    return lambda row: row.cost.missing.get(name, "") if row.cost else ""


def of_costs(table: Sequence[Row]) -> Iterator[str]:
    """Yield what the costs are of, once for each price."""
    costs = {(row.device, row.cost.price): row.cost for row in table if row.cost}
    for (device, price), cost in costs.items():
        if price:
            yield (
                f"cost: in {cost.currency}, of the time of counted steps at {price}"
                f"{f' ({device})' if device else ''}"
                f"{f', and {cost.electricity}' if cost.electricity else ''}; in brackets the 95 %"
                " interval. Start, evaluation and waiting are not in it."
            )


def _columns() -> Iterator[Column]:
    yield Column(
        "cost_currency",
        lambda r: r.cost.currency if r.cost else None,
        "string",
        machine_if=_has_cost,
    )
    titles = {
        PER_MILLION: ("cost per\nM tokens", 456, 545),
        TO_TARGET: ("cost to\ntarget", 205, 544),
    }
    for name, (title, position, worth) in titles.items():
        yield Column(
            name,
            _value(name, "value"),
            title=title,
            place=position,
            worth=worth,
            shown=_text(name),
            machine_if=_has_cost,
            people_if=_has(name),
            note=of_costs,
            missing=_missing(name),
        )
        for end in ("low", "high"):
            yield Column(f"{name}_ci_{end}", _value(name, end), machine_if=_has_cost)


COST = tuple(_columns())
