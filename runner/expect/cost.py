"""What training costs, from prices and what was measured, with intervals. Pure.

A cell's job is paid for by the hour: all its devices, or all its nodes, while its counted steps
run. Start, evaluation and waiting in a queue are in no figure. A million tokens cost

    (hourly price / 3600 / tokens per s + electricity) * 10^6

where electricity is (J/token of the devices + node_w * nodes / tokens per s) * PUE / 3.6e6 * kwh.
Its interval is that of the speed. The way to a target loss costs the same by its seconds and
joules.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from runner.expect.prices import Prices

MILLION = 1e6
HOUR_S = 3600.0
NO_PRICE = "the file of prices names no machine with this device"


@dataclass(frozen=True)
class Interval95:
    """A figure with its 95 % interval; None where the runs do not tell it."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class PricedJob:
    """What of a cell decides its cost: `joules_per_token` are of all devices, None if unknown."""

    device: str
    devices: int
    nodes: int
    tokens_per_s: Interval95 | None
    joules_per_token: float | None = None
    seconds_to_target: Interval95 | None = None
    joules_to_target: Interval95 | None = None


@dataclass(frozen=True)
class CellCost:
    """A cell's costs in `currency`; each that is None has its reason in `missing`.

    `price` and `electricity` say for people what is paid for.
    """

    currency: str
    price: str = ""
    electricity: str = ""
    per_million_tokens: Interval95 | None = None
    to_target: Interval95 | None = None
    missing: Mapping[str, str] = field(default_factory=dict)


PER_MILLION, TO_TARGET = "cost_per_million_tokens", "cost_to_target"


def cell_cost(prices: Prices, job: PricedJob, reasons: Mapping[str, str]) -> CellCost:
    """Return what a cell costs; `reasons` say why `tokens_per_s`, `joules_per_token`,
    `seconds_to_target` and `joules_to_target` are not known, where they are not.
    """
    machine = prices.of(job.device)
    if machine is None:
        return CellCost(prices.currency, missing=dict.fromkeys((PER_MILLION, TO_TARGET), NO_PRICE))
    hourly = machine.hourly(job.devices, job.nodes)
    token, target = ("tokens_per_s", "joules_per_token"), ("seconds_to_target", "joules_to_target")
    missing: dict[str, str] = {}
    for name, needed in ((PER_MILLION, token), (TO_TARGET, target)):
        for figure in needed if prices.kwh is not None else needed[:1]:
            if getattr(job, figure) is None:
                missing.setdefault(name, reasons.get(figure) or f"{figure} is not known")
    million = way = None
    if PER_MILLION not in missing and job.tokens_per_s is not None:
        speed, energy = job.tokens_per_s, job.joules_per_token or 0.0

        def of_rate(rate: float) -> float:
            joules = energy + prices.node_w * job.nodes / rate
            return (hourly / HOUR_S / rate + prices.electricity(joules)) * MILLION

        million = Interval95(
            of_rate(speed.value),
            of_rate(speed.high) if speed.high else None,
            of_rate(speed.low) if speed.low else None,
        )
    if TO_TARGET not in missing and job.seconds_to_target is not None:
        joules = job.joules_to_target or Interval95(0.0, 0.0, 0.0)
        way = Interval95(
            *(
                None if s is None or j is None else _way(prices, hourly, job.nodes, s, j)
                for s, j in zip(_ends(job.seconds_to_target), _ends(joules), strict=True)
            )  # type: ignore[arg-type]
        )
    price_texts = machine.words, prices.electricity_words
    return CellCost(prices.currency, *price_texts, million, way, missing)


def _way(prices: Prices, hourly: float, nodes: int, seconds: float, joules: float) -> float:
    total = joules + prices.node_w * nodes * seconds
    return hourly * seconds / HOUR_S + prices.electricity(total)


def _ends(of: Interval95) -> tuple[float, float | None, float | None]:
    return of.value, of.low, of.high


@dataclass(frozen=True)
class BreakEven:
    """At which price of a device-hour the second machine's tokens cost what the first's do.

    `missing` says why `device_hour` is None.
    """

    currency: str
    first: str
    second: str
    device_hour: Interval95 | None = None
    missing: str = ""


def break_even(
    prices: Prices, ours: PricedJob, theirs: PricedJob, noise_percent: float | None
) -> BreakEven:
    """Compare two machines at one job; `noise_percent` is half the 95 % interval of the second's
    speed in percent of the first's, None where the runs do not tell it.
    """

    def lacking(why: str) -> BreakEven:
        return BreakEven(prices.currency, ours.device, theirs.device, missing=why)

    machine = prices.of(ours.device)
    if machine is None or not machine.hourly(1, 1):
        return lacking(f"the file of prices has no price of {ours.device or 'the first machine'}")
    if ours.tokens_per_s is None or theirs.tokens_per_s is None:
        return lacking("tokens/s are not known on both")
    if prices.kwh is not None and None in (ours.joules_per_token, theirs.joules_per_token):
        return lacking("kwh is given, and the energy was not measured on both")
    a, b = ours.tokens_per_s.value, theirs.tokens_per_s.value
    paid = machine.hourly(ours.devices, ours.nodes) / HOUR_S / a + _electricity(prices, ours, a)

    def price(rate: float) -> float:
        return (paid - _electricity(prices, theirs, rate)) * rate * HOUR_S / theirs.devices

    half = None if noise_percent is None else a * noise_percent / 100
    ends = (None, None) if half is None else (price(max(b - half, 0.0)), price(b + half))
    return BreakEven(prices.currency, ours.device, theirs.device, Interval95(price(b), *ends))


def _electricity(prices: Prices, job: PricedJob, rate: float) -> float:
    """Return what the electricity of a token costs at that speed."""
    host = prices.node_w * job.nodes / rate if rate else 0.0
    return prices.electricity((job.joules_per_token or 0.0) + host)
