"""What machines and electricity cost: a person's file. Pure, except reading it.

    prices:
      currency: USD              # three letters, or a sign
      device_hour: 2.50          # of any machine that is not named below; or node_hour
      machines:                  # by device, as nvidia-smi or our table of devices names it
        H200: {device_hour: 3.10}
        H100 SXM: {node_hour: 18}
      kwh: 0.15                  # electricity, where it comes on top
      pue: 1.3                   # power usage effectiveness: what the site takes for each kWh
      node_w: 900                # what a node takes beside its devices

A price is of the machine as it is paid for: rented, or written off. With `kwh` the devices' energy,
as it was measured, is paid for besides. Without any machine's price, electricity is all that
counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from node.printable import printable
from runner.base.errors import UserError
from runner.base.suggest import nearest
from runner.expect.conditions import device_kind
from runner.matrix.dialect import read_file, read_yaml

_HOURS = ("device_hour", "node_hour")
_KEYS = ("currency", *_HOURS, "machines", "kwh", "pue", "node_w")
_WHAT = "a file of prices"
HIGHEST = 1e9  # of any price
HIGHEST_PUE = 10.0
MOST_LETTERS = 8  # of a currency


@dataclass(frozen=True)
class MachinePrice:
    """What an hour costs: of one device, or of a node with all its devices; one of them is None."""

    device_hour: float | None = None
    node_hour: float | None = None

    def hourly(self, devices: int, nodes: int) -> float:
        """Return what an hour of a job costs."""
        return (self.device_hour or 0.0) * devices + (self.node_hour or 0.0) * nodes

    @property
    def words(self) -> str:
        """The price for people."""
        if self.node_hour is not None:
            return f"{self.node_hour:g} per node-hour"
        return f"{self.device_hour or 0:g} per device-hour"


@dataclass(frozen=True)
class Prices:
    """A checked file. `machines` are by device_kind, `any_machine` is for all others.

    `kwh` None: electricity is part of the machine's price.
    """

    currency: str = "USD"
    machines: Mapping[str, MachinePrice] = field(default_factory=dict)
    any_machine: MachinePrice | None = None
    kwh: float | None = None
    pue: float = 1.0
    node_w: float = 0.0

    def of(self, device: str) -> MachinePrice | None:
        """Return the price of machines with such devices; None where the file names none."""
        price = self.machines.get(device_kind(device), self.any_machine)
        if price is None and not self.machines:
            return MachinePrice(0.0)  # electricity alone
        return price

    def electricity(self, joules: float) -> float:
        """Return what so many joules at the devices and nodes cost."""
        return joules / 3.6e6 * self.pue * (self.kwh or 0.0)

    @property
    def electricity_words(self) -> str:
        """What electricity costs, for people; empty where it is included."""
        if self.kwh is None:
            return ""
        more = f" and {self.node_w:g} W per node beside them" if self.node_w else ""
        return f"{self.kwh:g} per kWh of the devices{more}, times a PUE of {self.pue:g}"


def read_prices(path: Path) -> Prices:
    """Read a file. Raises UserError of one sentence that names key and cure."""
    where = printable(str(path))
    return check_prices(read_yaml(read_file(path, _WHAT), where), where)


def check_prices(content: Any, where: str) -> Prices:
    """Check the file's content, which errors call `where`."""
    if not isinstance(content, dict) or set(content) != {"prices"}:
        raise UserError(f"{where} must have one key, `prices:`, with the prices below it")
    prices = _mapping(content["prices"], f"{where}: prices", _KEYS)
    at = f"{where}: prices"
    machines: dict[str, MachinePrice] = {}
    for name, price in _mapping(prices.get("machines", {}), f"{at}: machines").items():
        kind, here = device_kind(printable(str(name))), f"{at}: machines: {printable(str(name))}"
        if kind in machines:
            raise UserError(f"{here} is a second name of {kind}; leave one of the two")
        machines[kind] = _machine(_mapping(price, here, _HOURS), here)
    for_any = any(name in prices for name in _HOURS)
    kwh = _number(prices, "kwh", at, 0.0) if "kwh" in prices else None
    if kwh is None:
        for name in ("pue", "node_w"):
            if name in prices:
                raise UserError(f"{at}: {name} needs kwh, the price of electricity; add it")
    if not machines and not for_any and kwh is None:
        raise UserError(f"{at} has no price; give device_hour or node_hour, machines, or kwh")
    return Prices(
        currency=_currency(prices.get("currency", "USD"), at),
        machines=machines,
        any_machine=_machine({k: prices[k] for k in _HOURS if k in prices}, at)
        if for_any
        else None,
        kwh=kwh,
        pue=_number(prices, "pue", at, 1.0, HIGHEST_PUE) if "pue" in prices else 1.0,
        node_w=_number(prices, "node_w", at, 0.0) if "node_w" in prices else 0.0,
    )


def _mapping(value: Any, where: str, keys: tuple[str, ...] = ()) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise UserError(f"{where} must be a mapping, such as {{device_hour: 2.5}}")
    for key in value:
        if keys and key not in keys:
            hint = nearest(str(key), keys)
            key_text = printable(str(key))[:60]
            raise UserError(
                f"{where}: there is no key {key_text!r}{hint}; keys are {', '.join(keys)}"
            )
    return value


def _machine(price: Mapping[Any, Any], where: str) -> MachinePrice:
    if len(price) != 1:
        raise UserError(f"{where} must have one of device_hour and node_hour")
    (name,) = price
    return MachinePrice(**{name: _number(price, name, where, 0.0)})


def _number(
    mapping: Mapping[Any, Any], name: str, where: str, least: float, most: float = HIGHEST
) -> float:
    value = mapping[name]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not least <= value <= most:
        value_text = printable(str(value))[:60]
        raise UserError(
            f"{where}: {name} is {value_text}; it must be a number of {least:g} to {most:g}"
        )
    return float(value)


def _currency(value: Any, where: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MOST_LETTERS or not value.isprintable():
        raise UserError(f"{where}: currency must be up to {MOST_LETTERS} letters, such as USD")
    return value
