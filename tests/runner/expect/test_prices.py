"""Files of prices, bad ones too, and what a cell costs: each figure worked out by hand."""

from pathlib import Path
from typing import Any

import pytest

from runner.base.errors import UserError
from runner.expect.cost import NO_PRICE, Interval95, PricedJob, break_even, cell_cost
from runner.expect.prices import MachinePrice, check_prices, read_prices
from runner.matrix.dialect import read_yaml

GOOD = """\
prices:
  currency: EUR
  node_hour: 8
  machines:
    NVIDIA H200: {device_hour: 3}
    H100 SXM: {node_hour: 16}
  kwh: 0.2
  pue: 1.5
  node_w: 1000
"""
JOB = PricedJob(
    device="NVIDIA H200",
    devices=8,
    nodes=1,
    tokens_per_s=Interval95(80_000.0, 79_000.0, 81_000.0),
    joules_per_token=0.07,
    seconds_to_target=Interval95(7200.0, 7000.0, 7500.0),
    joules_to_target=Interval95(40e6, 39e6, 41e6),
)


def figures(of: Interval95 | None) -> list[float | None]:
    assert of is not None
    return [of.value, of.low, of.high]


def prices(text: str) -> Any:
    return check_prices(read_yaml(text, "p.yaml"), "p.yaml")


def test_a_file_names_machines_as_nvidia_smi_or_the_table_of_devices_does(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(GOOD)
    read = read_prices(tmp_path / "p.yaml")
    assert read.of("NVIDIA H200") == MachinePrice(device_hour=3.0)
    assert read.of("NVIDIA H100 80GB HBM3") == MachinePrice(node_hour=16.0)
    assert read.of("NVIDIA L4") == MachinePrice(node_hour=8.0)
    assert (read.currency, read.kwh, read.pue, read.node_w) == ("EUR", 0.2, 1.5, 1000.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prices: {", "p.yaml is not valid YAML"),
        ("price: {}", "must have one key, `prices:`"),
        ("prices: 3", "prices must be a mapping"),
        ("prices: {}", "has no price; give device_hour or node_hour, machines, or kwh"),
        ("prices: {device_huor: 3}", "there is no key 'device_huor' (did you mean 'device_hour'?)"),
        ("prices: {device_hour: cheap}", "device_hour is cheap; it must be a number"),
        ("prices: {device_hour: -1}", "device_hour is -1; it must be a number of 0 to"),
        ("prices: {device_hour: true}", "device_hour is True; it must be a number"),
        ("prices: {device_hour: 1, node_hour: 8}", "must have one of device_hour and node_hour"),
        ("prices: {machines: [H200]}", "machines must be a mapping"),
        ("prices: {machines: {H200: 3}}", "H200 must be a mapping, such as {device_hour: 2.5}"),
        ("prices: {machines: {H200: {}}}", "must have one of device_hour and node_hour"),
        ("prices: {machines: {H200: {hour: 3}}}", "there is no key 'hour'"),
        (
            "prices: {machines: {H200: {node_hour: 3}, NVIDIA H200: {node_hour: 3}}}",
            "NVIDIA H200 is a second name of H200 SXM; leave one of the two",
        ),
        ("prices: {device_hour: 3, pue: 1.3}", "pue needs kwh, the price of electricity; add it"),
        ("prices: {device_hour: 3, node_w: 900}", "node_w needs kwh"),
        ("prices: {kwh: 0.2, pue: 0.9}", "pue is 0.9; it must be a number of 1 to 10"),
        ("prices: {kwh: 0.2, currency: much too long}", "currency must be up to 8 letters"),
        ("prices: {kwh: 0.2, kwh: 0.3}", "the key 'kwh' is given twice"),
    ],
)
def test_bad_prices_are_refused_in_one_sentence(text: str, expected: str) -> None:
    with pytest.raises(UserError) as caught:
        prices(text)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_million_tokens_by_hand_without_electricity() -> None:
    cost = cell_cost(prices("prices: {device_hour: 3}"), JOB, {})
    # 8 devices x 3 an hour = 24; 80,000 tokens/s are 288 million an hour.
    assert figures(cost.per_million_tokens) == pytest.approx([24 / 288, 24 / 291.6, 24 / 284.4])
    assert figures(cost.to_target) == pytest.approx([24 * 2, 24 * 7000 / 3600, 24 * 7500 / 3600])


def test_a_million_tokens_by_hand_with_electricity_and_the_rest_of_the_node() -> None:
    cost = cell_cost(prices(GOOD), JOB, {})
    # Devices: 0.07 J x 10^6 = 70,000 J. The node's 1,000 W for 10^6 / 80,000 = 12.5 s: 12,500 J.
    # 82,500 J are 0.0229167 kWh; with a PUE of 1.5 0.034375 kWh; at 0.2 0.006875.
    assert cost.per_million_tokens is not None
    assert cost.per_million_tokens.value == pytest.approx(24 / 288 + 0.006875)
    # 40 MJ of devices and 7.2 MJ of the node: 47.2 / 3.6 x 1.5 x 0.2 kWh-euros.
    assert cost.to_target is not None
    assert cost.to_target.value == pytest.approx(48 + 47.2 / 3.6 * 0.3)
    assert cost.currency == "EUR"


def test_a_node_hour_is_of_all_devices_and_electricity_can_be_all_there_is() -> None:
    node = cell_cost(prices("prices: {node_hour: 16}"), JOB, {})
    assert node.per_million_tokens is not None
    assert node.per_million_tokens.value == pytest.approx(16 / 288)
    electricity = cell_cost(prices("prices: {kwh: 0.36}"), JOB, {})
    assert electricity.per_million_tokens is not None
    assert electricity.per_million_tokens.value == pytest.approx(70_000 / 3.6e6 * 0.36)


def test_what_is_not_known_has_no_cost_but_a_reason() -> None:
    unknown = PricedJob("NVIDIA L4", 1, 1, None)
    other = prices("prices: {machines: {H200: {device_hour: 3}}}")
    assert cell_cost(other, unknown, {}).missing["cost_per_million_tokens"] == NO_PRICE
    idle = PricedJob("NVIDIA H200", 1, 1, Interval95(1000.0))
    cost = cell_cost(prices("prices: {device_hour: 3, kwh: 0.2}"), idle, {"joules_per_token": "no"})
    assert cost.per_million_tokens is None
    assert cost.missing == {
        "cost_per_million_tokens": "no",
        "cost_to_target": "seconds_to_target is not known",
    }
    # One run has no interval, and neither has its cost.
    alone = cell_cost(prices("prices: {device_hour: 3}"), idle, {}).per_million_tokens
    assert alone is not None
    assert (alone.low, alone.high) == (None, None)
    assert alone.value == pytest.approx(3 / 3.6)


def test_break_even_is_the_price_at_which_a_token_costs_the_same() -> None:
    first = PricedJob("NVIDIA H100 80GB HBM3", 8, 1, Interval95(60_000.0))
    second = PricedJob("NVIDIA H200", 8, 1, Interval95(80_000.0))
    found = break_even(prices("prices: {device_hour: 3}"), first, second, 5.0)
    # A third faster, so worth a third more: 4; within 5 % of the first's 60,000 tokens/s.
    assert figures(found.device_hour) == pytest.approx([4.0, 3.85, 4.15])
    paid = cell_cost(prices("prices: {device_hour: 4}"), second, {}).per_million_tokens
    before = cell_cost(prices("prices: {device_hour: 3}"), first, {}).per_million_tokens
    assert paid is not None
    assert before is not None
    assert paid.value == pytest.approx(before.value)


def test_break_even_takes_electricity_off_and_needs_both_energies() -> None:
    first = PricedJob("A", 1, 1, Interval95(1000.0), joules_per_token=0.7)
    second = PricedJob("B", 1, 1, Interval95(1000.0), joules_per_token=0.2)
    # 0.5 J less a token at 1,000 tokens/s: 0.5 kWh an hour less, at 0.2.
    both = prices("prices: {device_hour: 3, kwh: 0.2}")
    found = break_even(both, first, second, None)
    assert figures(found.device_hour)[0] == pytest.approx(3.1)
    unknown = PricedJob("B", 1, 1, Interval95(1000.0))
    assert "energy was not measured" in break_even(both, first, unknown, None).missing
    free = prices("prices: {machines: {B: {device_hour: 3}}}")
    assert "no price of A" in break_even(free, first, second, None).missing
