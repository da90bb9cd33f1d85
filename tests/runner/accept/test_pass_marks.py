"""What is too low to be chance, whatever the number of nodes."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node.probe import reference
from runner.accept.acceptance import AcceptState, StageReport
from runner.accept.marks import against_earlier, against_marks, load_marks
from runner.base.errors import UserError
from runner.doctor.outliers import is_low, low, spread
from runner.doctor.probe_tests import FLOORS
from runner.doctor.slow_figures import Figure, judge_figures, slowing

CLUSTERS = int(os.environ.get("TRAINBENCH_SIMULATED", "300"))
# Standard deviations of single figures and between healthy nodes, as clean acceptances of the test
# nodes had them (docs/how-to/accept.md), with a tail: one measurement in a hundred is disturbed.
NOISES = {"devices": 0.011, "cpu": 0.05, "network": 0.02}


def failing_clusters(nodes: int, clusters: int, kind: str, tries: int = 3) -> int:
    """How many healthy clusters have a figure that is called low; each low one is tried again."""
    rng = np.random.default_rng(nodes)
    noise, failing = NOISES[kind], 0
    for _ in range(clusters):
        level = 1 + noise / 2 * rng.standard_normal(nodes)
        best = np.zeros(nodes)
        found: list[int] = []
        for _ in range(tries):
            tail = np.where(rng.random(nodes) < 0.01, 0.6, 1.0)
            best = np.maximum(best, level * tail * (1 + noise * rng.standard_normal(nodes) / 2))
            found = low(best.tolist(), [noise] * nodes, FLOORS[kind])
            if not found:
                break
        failing += bool(found)
    return failing


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("nodes", [4, 64, 1024])
def test_a_healthy_cluster_of_any_size_passes(nodes: int, kind: str) -> None:
    assert failing_clusters(nodes, CLUSTERS, kind) <= 0.01 * CLUSTERS


@pytest.mark.parametrize("nodes", [4, 64, 1024])
def test_a_node_30_percent_slower_is_found_among_any_number(nodes: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        values = 1 + 0.01 * rng.standard_normal(nodes)
        values[nodes // 2] *= 0.7
        assert low(values.tolist(), [0.01] * nodes, 0.05) == [nodes // 2]


def test_a_spread_between_healthy_nodes_is_no_fault() -> None:
    values = [1 + 0.02 * number for number in range(-8, 9)]
    assert spread(values) > 0.1
    assert low(values, [0.001] * len(values), 0.05) == []
    assert is_low(0.5, reference(values), 0.001, 0.001, 0.05, len(values))


def test_a_slow_figure_that_is_unsteady_as_well_is_slow() -> None:
    lost_packets = [100.0, 101.0, 99.0, 10.0]
    assert low(lost_packets, [0.02, 0.02, 0.02, 0.9], 0.1) == [3]


def state(value: float, test: str = "memory", **options: object) -> AcceptState:
    figure = {"nodes": ["n1"], "device": 0, "value": value, "noise": 0.01, "slow": False}
    result = {"test": test, "figures": [figure]}
    return AcceptState(1.0, options, stages=(StageReport("devices", 1.0, 1.0, tests=(result,)),))


def test_a_disk_forty_times_slower_is_found_whatever_the_noise_of_the_others() -> None:
    """As planted: 8.4 MB/s among 230 to 330, whose medians are known to a quarter."""
    floor = FLOORS["storage"]
    assert is_low(8.4, 330.0, noise=0.03, common=0.3, floor=floor, count=4)
    assert not is_low(100.0, 330.0, noise=0.3, common=0.3, floor=floor, count=4)


def test_a_mark_names_the_figure_and_its_source(tmp_path: Path) -> None:
    file = tmp_path / "marks.yaml"
    file.write_text('memory: {at_least: 20, source: "contract, table 2"}\n')
    (fault,) = against_marks(state(15.0), load_marks(file))
    assert fault.nodes == ("n1",)
    assert fault.words == (
        "n1 device 0: memory bandwidth 15 GB/s, the mark is 20 (contract, table 2)"
    )
    assert against_marks(state(21.0), load_marks(file)) == []


@pytest.mark.parametrize("text", ["memroy: {at_least: 1}", "memory: {at_most: 1}", "7"])
def test_a_file_of_marks_with_a_mistake_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "marks.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=r"marks\.yaml"):
        load_marks(file)


def test_what_became_slower_since_an_earlier_acceptance_is_a_fault() -> None:
    (fault,) = against_earlier(state(10.0), [state(20.0), state(20.5)])
    assert (fault.test, fault.nodes) == ("regression", ("n1",))
    assert "in earlier acceptances 20.2" in fault.words
    assert against_earlier(state(19.0), [state(20.0)]) == []
    assert against_earlier(state(10.0), [state(20.0, quick=True)]) == []  # no measure


def test_copies_may_differ_from_earlier_ones_as_those_of_a_healthy_gpu_do() -> None:
    """As two acceptances of an H200 had them, five minutes apart; half is a link of half width."""
    before = [state(54.7, "to_device", device="cuda")]
    assert against_earlier(state(47.7, "to_device", device="cuda"), before) == []
    assert against_earlier(state(27.3, "to_device", device="cuda"), before) != []


def test_a_device_that_slowed_down_and_stays_slow_is_found() -> None:
    """As planted: full speed in the first half of its first try, a third of it ever after."""
    steady = (28.1, 27.0, 31.1, 27.7, 29.1, 30.2, 32.0, 27.8)
    fell = (29.3, 28.1, 30.2, 22.6, 8.8, 9.8, 9.6, 9.0)
    stays = (9.8, 7.9, 10.9, 7.4, 10.7, 10.6, 11.9, 10.8)
    figures = [
        *(Figure((f"node{at}",), 0, (steady, steady[::-1])) for at in (1, 2, 4)),
        Figure(("node3",), 0, (fell, stays)),
    ]
    found = slowing(judge_figures("sustained", figures, "cpu"), "cpu")
    assert [one.nodes for one in found] == [("node3",)]
    assert "it slows down from 28.7 to 10.6" in found[0].words


def test_a_slow_device_is_suspected_and_another_try_shows_it() -> None:
    """As planted: 30 % less of a processor, missed in one try by 1 % of the noise."""
    tries = {
        "node1": (20.9, 22.0, 26.5, 20.5, 17.1, 17.5, 20.8, 22.7),
        "node2": (21.2, 24.0, 24.7, 18.2, 17.7, 22.0, 18.9, 18.2),
        "node3": (17.4, 13.5, 12.9, 12.6, 14.8, 10.4, 11.4, 14.7),
        "node4": (20.5, 21.6, 25.0, 17.4, 17.6, 19.2, 21.3, 19.0),
    }
    once = [Figure((node,), 0, (samples,)) for node, samples in tries.items()]
    row = judge_figures("sustained", once, "cpu")
    assert (row.slow, row.suspected, row.reason) == ((), True, "")
    twice = [Figure((node,), 0, (samples, samples)) for node, samples in tries.items()]
    row = judge_figures("sustained", twice, "cpu")
    assert [figure.nodes for figure in row.slow] == [("node3",)]
    assert not row.suspected


def test_a_device_that_recovers_did_not_slow_down() -> None:
    fell = (29.3, 28.1, 30.2, 22.6, 8.8, 9.8, 9.6, 9.0)
    steady = (28.1, 27.0, 31.1, 27.7, 29.1, 30.2, 32.0, 27.8)
    figures = [Figure(("node1",), 0, (fell, steady)), Figure(("node2",), 0, (steady, steady))]
    assert slowing(judge_figures("sustained", figures, "cpu"), "cpu") == []


def test_a_device_that_falls_as_all_do_did_not_slow_down() -> None:
    """As recorded, where node3 had 30 % less of a processor: in the last try all nodes fell."""
    tries = {
        "node1": [
            (18.4, 15.6, 18.0, 16.2, 17.4, 25.6, 17.2, 16.9),
            (15.1, 19.6, 15.5, 17.0, 19.6, 21.2, 19.4, 18.9),
            (25.0, 22.3, 18.0, 18.1, 21.6, 16.4, 15.9, 19.6),
        ],
        "node2": [
            (22.8, 15.5, 16.4, 21.2, 15.7, 20.1, 18.5, 20.0),
            (16.2, 17.7, 19.4, 19.0, 18.3, 19.3, 24.3, 22.8),
            (24.0, 24.3, 17.0, 20.7, 21.9, 19.9, 17.1, 20.7),
        ],
        "node3": [
            (15.2, 12.0, 10.0, 11.0, 12.3, 12.8, 10.5, 14.2),
            (9.6, 12.9, 9.1, 14.8, 10.5, 13.9, 15.2, 11.4),
            (15.4, 16.0, 10.8, 15.2, 11.0, 13.5, 11.8, 9.2),
        ],
        "node4": [
            (22.1, 17.1, 16.4, 16.8, 15.0, 25.6, 17.1, 16.6),
            (15.6, 19.6, 19.2, 17.9, 18.0, 23.6, 22.5, 20.9),
            (28.2, 24.4, 17.7, 18.1, 22.4, 18.7, 14.7, 16.7),
        ],
    }
    figures = [Figure((node,), 0, tuple(samples)) for node, samples in tries.items()]
    assert slowing(judge_figures("sustained", figures, "cpu"), "cpu") == []


def test_most_devices_that_slow_down_are_each_found() -> None:
    """A limit of power of the whole rack: their median falls with them."""
    fell, steady = (30.0,) * 4 + (10.0,) * 4, (30.0,) * 8
    figures = [
        *(Figure((f"node{at}",), 0, (fell,)) for at in (1, 2, 4)),
        Figure(("node3",), 0, (steady,)),
    ]
    found = slowing(judge_figures("sustained", figures, "cpu"), "cpu")
    assert [one.nodes for one in found] == [("node1",), ("node2",), ("node4",)]


def test_a_device_that_slows_down_among_unsteady_ones_is_found_beside_the_others() -> None:
    """As planted: noise of all nodes hid it in its own eight samples."""
    tries = (
        (16.0, 12.9, 23.5, 21.0, 18.0, 17.2, 20.4, 20.7),
        (15.0, 13.5, 23.3, 18.0, 16.1, 17.1, 22.7, 18.8),
        (18.4, 13.3, 19.8, 20.1, 10.2, 4.2, 7.1, 5.6),
        (15.2, 15.0, 21.1, 18.1, 17.1, 18.8, 20.8, 19.8),
    )
    figures = [Figure((f"node{at}",), 0, (one,)) for at, one in enumerate(tries, 1)]
    (found,) = slowing(judge_figures("sustained", figures, "cpu"), "cpu")
    assert found.words == (
        "node3 device 0: it slows down from 109% to 32% of the median of all devices while it"
        " computes"
    )


FULL, HALF = (1000.0, 1001.0) * 4, (500.0, 501.0) * 4


@pytest.mark.parametrize(
    ("tries", "slow"),
    [
        # Devices that became faster do not make steady ones slower.
        (
            {"a": [(750.0,) * 2 + (1000.0,) * 6], "b": [FULL], "c": [(750.0,) * 2 + (1000.0,) * 6]},
            [],
        ),
        # What others did in one try makes no other try the best one.
        ({"a": [HALF, FULL], "b": [HALF, FULL], "c": [(700.0,) * 8] * 2, "d": [FULL] * 2}, ["c"]),
        # Two are compared by their own samples, and so are tries that one of them lacks.
        ({"a": [HALF, FULL], "b": [FULL, FULL]}, []),
        ({"a": [HALF, FULL], "b": [FULL, FULL], "c": [FULL]}, []),
        # A stalled sample is 0, at which nothing is relative.
        ({name: [(0.0, *FULL[1:])] for name in "abc"}, []),
    ],
)
def test_devices_that_measure_at_once(tries: dict[str, list[Any]], slow: list[str]) -> None:
    figures = [Figure((name,), 0, tuple(map(tuple, each))) for name, each in tries.items()]
    row = judge_figures("sustained", figures, "cuda")
    assert [figure.nodes[0] for figure in row.slow] == slow
    assert slowing(row, "cuda") == []


def test_one_unsteady_device_is_too_noisy_to_tell() -> None:
    figure = Figure(("node1",), 0, ((1.0, 9.0, 2.0, 30.0, 4.0, 17.0, 1.0, 25.0),))
    assert judge_figures("sustained", [figure], "cpu").noisy
