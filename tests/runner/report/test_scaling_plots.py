"""Scaling in the report: rates and efficiencies with their intervals, and the ideal line."""

import re

import pytest

from runner.report.scaling import efficiency_interval, scaling
from runner.terms.record import Interval, Measurement, Record
from tests.runner.documents import rows
from tests.runner.report.test_conclusion import thrice
from tests.runner.report.test_report import record


def at(nodes: int, rate: float, lines: int = 40) -> Record:
    steps = tuple(
        Interval(n, 1, None, rate * (1 + (n * 7 % 5 - 2) / 100), 9.0, 1.0) for n in range(1, lines)
    )
    name, measured = f"nodes={nodes}", Measurement(steps)
    return record(name, nodes=nodes, global_batch_size=64, measurement=measured)


def intervals(svg: str) -> int:
    """How many error bars a plot has."""
    drawn = re.search(r'id="[^"]*LineCollection_1">(.*?)</g>', svg, re.DOTALL)
    return drawn[1].count("<path") if drawn else 0


def test_an_efficiency_has_the_interval_of_both_cells_runs() -> None:
    one, two = rows(thrice([at(1, 100), at(2, 180)]), None)
    assert efficiency_interval("strong", one) is None
    low, high = efficiency_interval("strong", two) or (0, 0)
    assert low < 90 < high
    assert high - low < 5


def test_rate_and_efficiency_are_drawn_with_error_bars_and_the_table_says_the_half() -> None:
    found = scaling(rows(thrice([at(1, 100), at(2, 180), at(4, 330)]), None))
    assert found is not None
    rate, efficiency = (panel["svg"] for panel in found["panels"])
    assert "samples/s over devices, one line per series" in rate
    assert "efficiency, % over devices, one line per series" in efficiency
    assert intervals(rate) == 3
    assert intervals(efficiency) == 2  # 100 % is no measurement
    words = [cell["efficiency"] for cell in found["series"][0]["cells"]]
    assert words[0] == "100.0%"
    assert all(re.fullmatch(r"\d+\.\d% ± \d\.\d", word) for word in words[1:])


@pytest.mark.parametrize("far", [4, 64])
def test_few_lines_have_no_interval(far: int) -> None:
    found = scaling(rows([at(1, 100, 9), at(far, 90.0 * far, 9)], None))
    assert found is not None
    assert not any("LineCollection" in panel["svg"] for panel in found["panels"])
    assert found["series"][0]["cells"][1]["efficiency"] == "90.0%"
