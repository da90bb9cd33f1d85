"""What devices did while the counted steps ran: energy, heat, gaps in their samples, and curves."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.results.sample_table import CPU, read_samples
from runner.results.sampled import MOST_POINTS, Curve, over_time
from runner.results.window import Window
from tests.runner.results.made_samples import Sample, energy, sampled, tabled, telemetry


def device(watts: float = 100.0, seconds: int = 20, name: str = "0") -> list[Sample]:
    """Make a sample a second of a device that takes `watts` all the time."""
    return [
        Sample(float(t), name, 90, 1024, watts, 5000 + watts * t, 40 + t, 1980 - t, 0)
        for t in range(seconds + 1)
    ]


def test_the_counter_is_read_between_the_samples_about_each_edge() -> None:
    found = energy([sampled(device(), Window(2.5, 12.25, 10))])
    assert found.method == "counter"
    assert found.joules == pytest.approx(975)
    assert found.iterations == 10


def test_devices_and_nodes_add_up() -> None:
    nodes = [
        sampled(device() + device(50, name="1"), Window(0.0, 10.0, 10)),
        sampled(device(200), Window(5.0, 10.0, 10)),
    ]
    assert energy(nodes).joules == pytest.approx(1000 + 500 + 1000)


def test_a_counter_that_was_reset_is_replaced_by_the_integral() -> None:
    samples = [replace(s, energy_j=(s.energy_j or 0) % 500) for s in device()]
    found = energy([sampled(samples, Window(2.5, 12.5, 10))])
    assert found.method == "integrated"
    assert found.joules == pytest.approx(1000)


def test_a_reset_outside_of_the_counted_steps_changes_nothing() -> None:
    samples = [
        replace(s, energy_j=(s.energy_j or 0) - (5000 if s.time > 18 else 0)) for s in device()
    ]
    assert energy([sampled(samples, Window(1.0, 10.0, 10))]).method == "counter"


def test_a_gap_within_costs_the_counter_nothing_and_the_integral_all() -> None:
    gappy = [s for s in device() if not 4 < s.time < 11]
    assert energy([sampled(gappy, Window(2.0, 14.0, 10))]).joules == pytest.approx(1200)
    found = energy([sampled([replace(s, energy_j=None) for s in gappy], Window(2.0, 14.0, 10))])
    assert (found.joules, found.method) == (None, None)
    assert "gap of more than 5 s" in found.missing


@pytest.mark.parametrize(
    ("samples", "window", "why"),
    [
        (device(), None, "when the counted steps ran is not known"),
        (device(), Window(1.0, 4.0, 10), "took less than 5 s"),
        (device(), Window(1.0, 11.0, 9), "the nodes logged other steps"),
        ([], Window(1.0, 9.0, 10), "a node was not sampled"),
        (device(), Window(5.0, 50.0, 10), "do not span the counted steps"),
        (
            [s for s in device() if not 4 < s.time < 14],
            Window(5.0, 19.0, 10),
            "a gap of more than 5 s",
        ),
        (
            [replace(s, energy_j=None, power_w=None) for s in device()],
            Window(5.0, 10.0, 10),
            "neither its energy counter nor its power can be read",
        ),
    ],
)
def test_what_is_not_known_is_missing_with_the_reason(
    samples: list[Sample], window: Window | None, why: str
) -> None:
    found = energy([sampled(device(), Window(0.0, 10.0, 10)), sampled(samples, window)])
    assert found.joules is None
    assert why in found.missing


def test_a_device_that_was_idle_about_an_edge_took_no_more_than_its_counter_says() -> None:
    samples = [replace(s, energy_j=100 * max(s.time - 5, 0)) for s in device()]
    assert energy([sampled(samples, Window(3.5, 12.0, 10))]).joules == pytest.approx(700)


def test_what_the_device_did_beyond_an_edge_does_not_come_in() -> None:
    """The line between the samples about an edge was half of it: 4 % of 5 s at 700 W."""
    samples = [replace(s, energy_j=100 * min(s.time, 9.5)) for s in device()]
    assert energy([sampled(samples, Window(4.0, 9.5, 10))]).joules == pytest.approx(550)


def test_a_window_that_is_known_too_coarsely_gives_none_and_says_how_long_it_would_take() -> None:
    found = energy([sampled(device(), Window(2.0, 12.0, 10, 0.5, 0.5))])
    assert found.joules is None
    assert found.missing == (
        "samples and polls leave ±10.0 % open of what 10 s of counted steps took; about 34 s of"
        " them leave 3 %"
    )
    tied = energy([sampled(device(), Window(2.0, 12.0, 10, 0.5, 0.5, tied=True))])
    assert tied.joules == pytest.approx(1000)
    assert tied.within_percent == pytest.approx(0, abs=1e-6)


def test_power_that_may_be_the_mean_of_the_second_before_is_as_open_as_that_leaves_it() -> None:
    """nvmlDeviceGetPowerUsage, NVML r580: averaged over 1 s on Ampere (but GA100) and later."""
    samples = [replace(s, energy_j=None, power_w=700.0 if s.time > 5 else 300.0) for s in device()]
    short = energy([sampled(samples, Window(4.9, 11.0, 10))])
    assert short.joules is None
    assert "samples and polls leave ±" in short.missing
    found = energy([sampled(samples, Window(5.9, 12.0, 10))])
    assert found.joules == pytest.approx(700 * 6.1)
    falling = [replace(s, energy_j=None, power_w=720.0 - 2 * s.time) for s in device()]
    open_ = energy(
        [sampled(falling, Window(2.0, 12.0, 10))]
    )  # trapezoids less the later of each pair
    assert open_.joules == pytest.approx(7060)
    assert open_.within_percent == pytest.approx(10 / 7060 * 100)


def test_idle_is_before_the_launcher_and_heat_within_the_window() -> None:
    samples = [replace(s, power_w=84.0 if s.time < 5 else 700.0) for s in device()]
    samples[9] = replace(samples[9], clock_events=0x4 | 0x40)
    found = telemetry([sampled(samples, Window(6.0, 10.0, 10), 5.0)])
    assert (found.idle_power_w, found.mean_power_w) == (84, 700)
    assert (found.temperature_c, found.sm_clock_mhz) == (50, 1970)
    assert found.throttled == ("power cap", "temperature (hardware)")
    assert telemetry([sampled(samples, Window(10.0, 12.0, 10))]).throttled == ()
    assert telemetry([sampled([], None)]).throttled is None


@given(st.lists(st.floats(900, 1000), min_size=6, max_size=30), st.data())
def test_both_ways_agree_where_power_changes_evenly(
    power: list[float], data: st.DataObject
) -> None:
    """The counter is the exact integral of the same line; only the edges are interpolated."""
    counter, samples = 0.0, [Sample(0.0, "0", None, None, power[0], 0.0)]
    for time, (before, after) in enumerate(pairwise(power), 1):
        counter += (before + after) / 2
        samples.append(Sample(float(time), "0", None, None, after, counter))
    first = data.draw(st.integers(0, len(power) - 6))
    last = data.draw(st.integers(first + 5, len(power) - 1))
    window = Window(float(first), float(last), 3)
    by_counter = energy([sampled(samples, window)])
    integrated = energy([sampled([replace(s, energy_j=None) for s in samples], window)])
    assert by_counter.joules == pytest.approx(integrated.joules)


WINDOW = Window(10.0, 40.0, 100)


def looks(*times: float, device: str = "0", used: float = 4.0) -> list[Sample]:
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
    steady = looks(*range(50), device="1")
    found = telemetry([sampled([*looks(*times), *steady], WINDOW, 5.0, ["0", "1"])])
    assert found.gap_s == gap


def test_what_cannot_be_known_says_why() -> None:
    node = sampled(looks(*range(50)), WINDOW, 5.0, ["0"])
    assert telemetry([node, sampled([], WINDOW, None, ["0"])]).missing == (
        "a node's devices were not sampled"
    )
    unknown = telemetry([sampled(looks(1.0), None, 5.0, ["0"])])
    assert (unknown.gap_s, unknown.missing) == (None, "when the counted steps ran is not known")


def test_what_was_on_a_device_before_its_launcher_started() -> None:
    node = [*looks(1.0, 2.0, used=700.0), *looks(*range(6, 50), used=60_000.0)]
    assert telemetry([sampled(node, WINDOW, 5.0, ["0"])]).before_mib == 700.0
    assert telemetry([sampled(node, WINDOW, None, ["0"])]).before_mib is None
    assert telemetry([sampled(node, WINDOW, 0.5, ["0"])]).before_mib is None


HEAD = "timestamp, index, utilization.gpu [%], memory.used [MiB], power.draw [W]\n"


def smi(*rows: str) -> tuple[Curve, ...]:
    return over_time(read_samples((HEAD + "\n".join(rows)).encode()))


def test_devices_of_one_look_are_summed_up_though_each_has_a_time_of_its_own() -> None:
    busy, power, memory = smi(
        "2026/11/21 10:59:42.133, 0, 10 %, 100 MiB, 80 W",
        "2026/11/21 10:59:42.136, 1, 30 %, 900 MiB, 100 W",
        "2026/11/21 10:59:43.133, 0, 50 %, 500 MiB, 200 W",
        "2026/11/21 10:59:43.137, 1, 70 %, 400 MiB, [N/A]",
    )
    assert [value for _, value in busy] == [20, 60]
    assert [value for _, value in power] == [90, 200]
    assert [value for _, value in memory] == [900, 500]
    assert [round(at, 3) for at, _ in busy] == [0, 1]


def test_what_no_sample_says_has_no_curve() -> None:
    nothing = [Sample(1.0, "0", None, None), Sample(2.0, "0", None, None)]
    assert over_time(tabled([])) == over_time(tabled(nothing)) == ((), (), ())
    cpu = over_time(
        tabled([Sample(5.0, CPU, 50.0, 900.0, 120.0), Sample(6.0, CPU, 70.0, 900.0, None)])
    )
    assert cpu == (((0.0, 50.0), (1.0, 70.0)), ((0.0, 120.0),), ())


def test_a_look_in_which_a_device_says_nothing_is_one_all_the_same() -> None:
    rows = [Sample(float(n), str(n % 12), 10.0 * (n // 12 + 1), 5.0) for n in range(36) if n != 14]
    busy, _, memory = over_time(tabled(rows))
    assert [value for _, value in busy] == [10.0, 20.0, 30.0]
    assert len(memory) == 3


def test_a_long_run_has_a_curve_of_bounded_length() -> None:
    samples = [Sample(float(at), "0", at % 100, 5.0, 100.0) for at in range(10 * MOST_POINTS)]
    curves = over_time(tabled(samples))
    assert [len(curve) for curve in curves] == [MOST_POINTS] * 3
    assert {value for _, value in curves[1]} == {100.0}
