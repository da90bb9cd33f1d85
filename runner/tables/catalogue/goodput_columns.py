"""Columns of what failures and checkpoints cost (figures/goodput.py)."""

from collections.abc import Callable, Iterator, Sequence

from runner.figures.goodput import Goodput, Mean
from runner.tables.catalogue.column import Column, Text, Value
from runner.tables.formatting import MISSING, number_text
from runner.tables.row import Row

DEFINITION = (
    "goodput: time of steps that counted (less checkpoints' stalls, and what a fault held up), of"
    " all time from the first launcher's start to the last step; docs/how-to/goodput.md"
)
# What a failure costs: title, worth, note.
_RECOVERY = {
    "notice_s": (
        "notice\ns",
        330,
        "notice: seconds from a failure until it was noticed; means over the failures, ± half of"
        " the 95 % interval",
    ),
    "running_s": (
        "running\nagain s",
        335,
        "running again: seconds from a failure to the next step's begin",
    ),
    "lost_steps": ("lost\nsteps", 328, ""),
}
_NO_FAULT = "no failure was followed by another attempt"


def _has_goodput(table: Sequence[Row]) -> bool:
    return any(row.goodput for row in table)


def _recovered(table: Sequence[Row]) -> bool:
    return any(row.goodput and row.goodput.recoveries for row in table)


def _of(read: Callable[[Goodput], float | None]) -> Value:
    return lambda row: read(row.goodput) if row.goodput else None


def _mean(read: Callable[[Goodput], Mean | None]) -> tuple[Value, Text]:
    """Return the mean's value, and its text with half of the 95 % interval."""

    def value(row: Row) -> float | None:
        goodput = read(row.goodput) if row.goodput else None
        return None if goodput is None else goodput.value

    def text(row: Row) -> str:
        goodput = read(row.goodput) if row.goodput else None
        if goodput is None:
            return MISSING
        places = 2 if goodput.value < 10 else 1
        text_of = number_text(goodput.value, places)
        if goodput.half is None:
            return text_of
        return f"{text_of} ±{number_text(goodput.half, places)}"

    return value, text


def _recovery(name: str) -> Callable[[Goodput], Mean | None]:
    return lambda goodput: goodput.mean(name)


def _columns() -> Iterator[Column]:
    def percent_of_time(row: Row) -> str:
        goodput = row.goodput
        if goodput is None:
            return MISSING
        half = "" if goodput.half_percent is None else f" ±{number_text(goodput.half_percent, 1)}"
        return number_text(goodput.percent, 1) + half

    yield Column(
        "goodput_percent",
        _of(lambda goodput: goodput.percent),
        title="good-\nput %",
        place=260.1,
        worth=540,
        shown=percent_of_time,
        better=1,
        machine_if=_has_goodput,
        people_if=_recovered,
        note=DEFINITION,
    )

    yield Column(
        "effective_tokens_per_s",
        _of(lambda goodput: goodput.tokens_per_s),
        title="effective\ntokens/s",
        place=260.3,
        worth=290,
        better=1,
        machine_if=_has_goodput,
        people_if=_recovered,
        note="effective tokens/s: tokens of all iterations that were reached, over that time",
    )
    yield Column(
        "faults",
        _of(lambda goodput: goodput.faults),
        "integer",
        decimals=0,
        machine_if=_has_goodput,
    )
    for name, (title, worth, note) in _RECOVERY.items():
        value, text = _mean(_recovery(name))
        yield Column(
            f"recovery_{name}",
            value,
            title=title,
            place=260.4,
            worth=worth,
            shown=text,
            better=-1,
            machine_if=_has_goodput,
            people_if=_recovered,
            missing=lambda row: _NO_FAULT if row.goodput else "",
            note=note,
        )
    value, text = _mean(lambda goodput: goodput.stall_s)
    yield Column(
        "checkpoint_stall_s",
        value,
        title="save\nstall s",
        place=260.6,
        worth=280,
        shown=text,
        better=-1,
        machine_if=_has_goodput,
        people_if=lambda table: any(row.goodput and row.goodput.stall_s for row in table),
        note="save stall: how long training stood still for a checkpoint",
    )
    yield Column(
        "checkpoint_bytes",
        _of(lambda goodput: goodput.checkpoint_bytes),
        "integer",
        decimals=0,
        machine_if=_has_goodput,
    )


GOODPUT = tuple(_columns())
