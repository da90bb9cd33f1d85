"""modded-nanogpt's parser on cuts of the logs that it publishes as its records (f411b3d, 8 H100s):
2024-10-14_ModernArch/dabaaddd (with losses, the clock set back), 2026-07-17_FP8DownProjection/
baseline/1d7c6c03 (without losses), and track 3's results/1bd8db7a (validations alone, in s).
"""

from typing import Any

import pytest

from runner.base.paths import PROJECT
from runner.logs.kinds import readers_of_family
from runner.logs.measure import measure
from runner.terms.record import Measurement

DATA = PROJECT / "tests" / "data" / "modded_nanogpt"


def measured(name: str) -> Measurement:
    return measure(readers_of_family("modded_nanogpt"), {0: [(DATA / name).read_bytes()]})


def test_a_clock_that_is_set_back_has_no_time_there() -> None:
    found = measured("2024-10-14.log")
    by_step = {step.iteration: step for step in found.intervals}
    assert by_step[1].step_time_ms == 42703 - 278
    assert by_step[10].step_time_ms == 54881 - 54704
    assert by_step[11].step_time_ms is None
    assert by_step[12].step_time_ms == 353 - 176
    assert (by_step[1].loss, by_step[5100].loss) == (16.0026, 3.2686)
    assert found.train_iters == 5100
    assert len(found.intervals) == len(by_step)  # validations are no steps of their own


def test_steps_are_counted_from_a_validations_time() -> None:
    """The host had run ahead: 8061 ms at the step, 8095 when the devices were waited for."""
    found = measured("2026-07-17.log")
    by_step = {step.iteration: step for step in found.intervals}
    assert (by_step[250].step_time_ms, by_step[251].step_time_ms) == (36, 8118 - 8095)
    assert by_step[248].iterations == 229
    assert {step.loss for step in found.intervals} == {None}
    assert (found.memory_allocated_mib, found.memory_reserved_mib) == (30908, 46472)


def test_validations_alone_are_windows() -> None:
    found = measured("track_3.log")
    assert [step.iterations for step in found.intervals] == [125] * 11
    assert found.intervals[1].step_time_ms == pytest.approx((41354 - 22870) / 125)
    assert {step.loss for step in found.intervals} == {None}


def test_auto(read: Any) -> None:
    result = read((DATA / "2024-10-14.log").read_bytes())
    assert (result["system"], result["last_iteration"]) == ("command", 5100)
    assert (result["last_loss"], result["runs"]) == (3.2686, 1)
    assert result["step_time_ms_median"] == pytest.approx(177, abs=1)


def test_the_tail_of_a_log_makes_no_average_since_the_start() -> None:
    text = b"step:500/5100 train_time:90000ms step_avg:180.00ms\n"
    (step,) = measure(readers_of_family("modded_nanogpt"), {0: [text]}).intervals
    assert step.step_time_ms is None
