"""A node's samples as curves: look by look, whatever a device says."""

from runner.results.sample_table import CPU, read_samples
from runner.results.sampled import Curve, over_time
from tests.runner.results.made_samples import Sample, tabled

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
