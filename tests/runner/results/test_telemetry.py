"""How whole the samples of a run's devices are, and what was on the devices before it began."""

import pytest

from runner.results.window import Window
from tests.runner.results.made_samples import Sample, sampled, telemetry

WINDOW = Window(10.0, 40.0, 100)


def samples(*times: float, device: str = "0", used: float = 4.0) -> list[Sample]:
    return [Sample(time, device, 90.0, used) for time in times]


@pytest.mark.parametrize(
    ("times", "gap"),
    [
        (range(50), 1.0),
        ([*range(20), *range(29, 50)], 10.0),
        (range(25), 16.0),  # to the window's end
        (range(50, 60), 30.0),
    ],
)
def test_the_longest_time_without_a_sample_of_a_device(times: list[float], gap: float) -> None:
    steady = samples(*range(50), device="1")
    found = telemetry([sampled([*samples(*times), *steady], WINDOW, 5.0, ["0", "1"])])
    assert found.gap_s == gap


def test_what_cannot_be_known_says_why() -> None:
    node = sampled(samples(*range(50)), WINDOW, 5.0, ["0"])
    assert telemetry([node, sampled([], WINDOW, None, ["0"])]).missing == (
        "a node's devices were not sampled"
    )
    unknown = telemetry([sampled(samples(1.0), None, 5.0, ["0"])])
    assert (unknown.gap_s, unknown.missing) == (None, "when the counted steps ran is not known")


def test_what_was_on_a_device_before_its_launcher_started() -> None:
    node = [*samples(1.0, 2.0, used=700.0), *samples(*range(6, 50), used=60_000.0)]
    assert telemetry([sampled(node, WINDOW, 5.0, ["0"])]).before_mib == 700.0
    assert telemetry([sampled(node, WINDOW, None, ["0"])]).before_mib is None
    assert telemetry([sampled(node, WINDOW, 0.5, ["0"])]).before_mib is None
