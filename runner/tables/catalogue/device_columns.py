"""Columns of the devices: how busy they were, energy, power, temperature, clocks."""

from collections.abc import Iterator, Sequence

from node.printable import printable
from runner.figures.power import LOG
from runner.tables.catalogue.column import Column, Text, Value
from runner.tables.formatting import MISSING
from runner.tables.judged import cell_list
from runner.tables.row import Row

ALIKE_PERCENT = 3.0  # energy by the trainer and by us, which are edged by lines and by samples
_SOURCES = {
    "samples": "mean of all devices' samples while the counted steps ran",
    "log": "the busiest reading that the log shows",
}


def _power(name: str) -> Value:
    return lambda row: getattr(row.power, name)


def _heat(name: str) -> Value:
    return lambda row: getattr(row.power.thermals, name)


def _why(key: str) -> Text:
    return lambda row: row.power.reasons.get(key, "")


def _throttled(row: Row) -> str | None:
    """Return why clocks were lowered, `no` where they were not; None where no sample says it."""
    reasons = row.power.thermals.throttled
    return None if reasons is None else "; ".join(reasons) or "no"


def _no_utilisation(row: Row) -> str:
    missing = row.utilisation is None
    return "the devices were not sampled, and the log shows none" if missing else ""


def _of_utilisation(table: Sequence[Row]) -> Iterator[str]:
    kinds = dict.fromkeys(row.utilisation.source for row in table if row.utilisation)
    if kinds:
        yield f"Utilisation: {'; or '.join(_SOURCES[kind] for kind in kinds)}."


def _of_energy(table: Sequence[Row]) -> Iterator[str]:
    """Yield what energy is of, ± how much, whose is the trainer's own, and where the two differ."""
    if any(row.power.joules_per_token is not None for row in table):
        within = max((row.power.within_percent or 0.0 for row in table), default=0.0)
        uncertainty = (
            f"; samples and polls leave up to ±{within:.1f} % open" if within >= 0.1 else ""
        )
        took = "what the devices took over the counted steps, not their machines"
        yield f"J/token: {took}{uncertainty}."
    cells = [printable(row.cell) for row in table if row.power.method == LOG]
    if cells:
        yield f"Energy of {cell_list(cells)}: by the trainer's own lines."
    for row in table:
        more = row.power.log_difference_percent
        if more is not None and abs(more) > ALIKE_PERCENT:
            yield (
                f"Energy of {printable(row.cell)}: the trainer's own lines say {more:+.1f} % of"
                f" what we measured ({row.power.method})."
            )


LOAD = (
    Column(
        "utilisation_percent",
        lambda r: r.utilisation.percent if r.utilisation else None,
        title="util\n%",
        place=540,
        worth=290,
        decimals=0,
        missing=_no_utilisation,
        note=_of_utilisation,
    ),
    Column(
        "utilisation_source",
        lambda r: r.utilisation.source if r.utilisation else None,
        tuple(_SOURCES),
    ),
    Column(
        "energy_per_token_j",
        _power("joules_per_token"),
        title="devices'\nJ/token",
        place=550,
        worth=300,
        decimals=5,
        missing=_why("energy_per_token_j"),
        note=_of_energy,
    ),
    Column("tokens_per_j", _power("tokens_per_joule"), title="tokens/J of devices"),
    Column("energy_method", _power("method"), "string"),
    Column("energy_within_percent", _power("within_percent")),
    Column("energy_per_token_log_j", _power("log_joules_per_token")),
    Column("energy_log_difference_percent", _power("log_difference_percent")),
    Column(
        "mean_power_w",
        _heat("mean_power_w"),
        title="power\nW/device",
        place=560,
        worth=90,
        decimals=0,
        missing=_why("mean_power_w"),
    ),
    Column(
        "idle_power_w",
        _heat("idle_power_w"),
        title="idle W/device",
        missing=_why("idle_power_w"),
    ),
    Column(
        "temperature_max_c",
        _heat("temperature_c"),
        title="max\n°C",
        place=570,
        worth=80,
        decimals=0,
        missing=_why("temperature_max_c"),
    ),
    Column(
        "sm_clock_min_mhz",
        _heat("sm_clock_mhz"),
        title="min SM MHz",
        missing=_why("sm_clock_min_mhz"),
    ),
    Column(
        "throttled",
        _throttled,
        "string",
        title="throttled",
        place=580,
        worth=95,
        shown=lambda r: ", ".join(r.power.thermals.throttled or ()) or MISSING,
        missing=_why("throttled"),
    ),
)
