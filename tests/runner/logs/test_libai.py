"""LiBai's parser on a recorded log of a training on two nodes."""

import pytest

from runner.base.paths import PROJECT
from runner.systems.libai import SYSTEM

RECORDED = (PROJECT / "tests" / "data" / "libai" / "cpu_2_nodes.log").read_bytes()


def test_a_recorded_log() -> None:
    found = SYSTEM.parse({0: [RECORDED]})
    assert [interval.iteration for interval in found.intervals] == list(range(1, 21))
    losses = [interval.loss for interval in found.intervals]
    assert (losses[0], losses[-1]) == (8.329, 7.013)
    # Iterations 3 and 4 took 0.1789 s and, by the difference of the sums, 2 * 0.1713 - 0.1789.
    assert [found.intervals[at].step_time_ms for at in (1, 2, 3)] == [
        None,
        pytest.approx(178.9),
        pytest.approx(163.7),
    ]
    assert found.intervals[3].samples_per_s == pytest.approx(8 / 0.1637)
    assert found.padded_vocab_size == 4096  # of the model that it prints


def test_byte_by_byte() -> None:
    assert SYSTEM.parse({0: (RECORDED[i : i + 1] for i in range(len(RECORDED)))}) == SYSTEM.parse(
        {0: [RECORDED]}
    )
