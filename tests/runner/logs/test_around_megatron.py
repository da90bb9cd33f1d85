"""Megatron's line as those print it who wrap Megatron: Primus, Megatron-Bridge; and its options."""

from typing import Any

import pytest

from runner.logs.kinds import readers_of_family
from runner.logs.measure import measure
from runner.terms.record import Measurement
from tests.runner.logs.made_lines import (
    MEGATRON_ARGUMENTS,
    megatron,
    megatron_bridge,
    primus,
    primus_2026,
    primus_torchtitan,
)

pytestmark = pytest.mark.made_log
SIZES = (
    "[20260822][rank-0/8][INFO ] [x.py:1] : [Patch:megatron.training_log]"
    " ThroughputAverageExtension initialized with seq_len: 4096 world_size: 8"
    " log_avg_skip_iterations: 2 log_avg_reset_interval: 10"
)


def of(*lines: str, size: int = 1 << 20) -> Measurement:
    data = "".join(f"{line}\n" for line in lines).encode()
    blocks = [data[at : at + size] for at in range(0, len(data), size)]
    return measure(readers_of_family("megatron"), {0: blocks})


def test_an_iteration_that_two_loggers_wrote_is_one_line(read: Any) -> None:
    """Primus: `runs` was as many as lines."""
    rows = [
        f"[rank-7/8][{logger}] {primus(step, f'541.9/{step * 1000}.5')}"
        for step in range(1, 22)
        for logger in ("INFO ", "stdout")
    ]
    result = read(rows)
    assert (result["runs"], result["logged_lines"], result["last_iteration"]) == (1, 21, 21)
    halves = [("\n".join((*part, ""))).encode() for part in (rows[:21], rows[21:])]
    assert len(measure(readers_of_family("megatron"), {0: halves}).intervals) == 21


def test_a_log_with_step_time_lines_alone_is_named(read: Any) -> None:
    """Megatron-Bridge 067f987d src/megatron/bridge/training/utils/train_utils.py:1050."""
    result = read(["Step Time : 14.26s GPU utilization: 58.2MODEL_TFLOP/s/GPU"] * 3)
    assert (result["system"], result["status"]) == ("megatron_core", "no_step")
    assert "last node's log" in result["reason"]


@pytest.mark.parametrize("line", [primus, primus_2026])
def test_both_generations_of_primus_say_tokens_and_tflops(line: Any) -> None:
    """Of two numbers the first: the iteration's, and not the average of all."""
    found = of(SIZES, line(1, "53519.1"), line(2), line(3, "540.1/18200.3"))
    step = found.intervals[2]
    assert (step.iteration, step.step_time_ms, step.loss) == (3, 540.1, 2.352391)
    assert (step.device_tokens_per_s, step.tokens_per_s) == (12130.4, 12130.4 * 8)
    assert step.tflop_per_s == 210.5
    sizes = {"tokens_per_sample": "4096", "devices": "8", "train_iters": "36000"}
    assert found.facts == sizes


def test_what_primus_says_of_memory_is_in_use_and_of_the_fullest_device() -> None:
    """Its GB are 2^30 bytes: it divides by 1024 three times."""
    assert of(primus(1), primus(2)).memory_used_mib == 227.35 * 1024
    newer = of(primus_2026(1), primus_2026(2))
    assert (newer.memory_used_mib, newer.memory_allocated_mib) == (230.5 * 1024, None)
    older = (
        primus(1).replace("227.35GB", "227.35GiB")
        + " rank-3 max mem usage/usage_ratio: 240.00GiB/9% |"
    )
    assert of(older).memory_used_mib == 240 * 1024


def test_the_time_of_torchtitan_in_primus_is_that_of_its_window(read: Any) -> None:
    lines = [primus_torchtitan(1, 21000.0), *(primus_torchtitan(n) for n in (10, 20))]
    found = of(*lines)
    assert [step.step_time_ms for step in found.intervals] == [21000.0, 19392 / 9, 1939.2]
    step = found.intervals[1]
    assert (step.device_tokens_per_s, step.tflop_per_s, step.loss) == (6759.1, 347.9, 11.89155)
    assert (found.memory_reserved_mib, found.memory_allocated_mib) == (145.4 * 1024, None)
    result = read(lines)
    assert (result["system"], result["family"]) == ("command", "megatron")
    assert "as Primus prints torchtitan's steps" in result["reason"]
    unknown = of(*lines[1:]).intervals
    assert [step.step_time_ms for step in unknown] == [None, 1939.2]  # the first: of how many?


@pytest.mark.parametrize("size", [1 << 20, 7, 333])
def test_megatron_bridge_says_its_tflops_on_a_line_before(size: int) -> None:
    lines = [megatron_bridge(10, 13212.7, energy=True), megatron_bridge(20, energy=True)]
    found = of(*lines, size=size)
    assert [step.iteration for step in found.intervals] == [10, 20]
    assert [step.tflop_per_s for step in found.intervals] == [58.2, 58.2]
    assert [step.energy_j for step in found.intervals] == [9512.4, 9512.4]
    assert found.memory_allocated_mib == 12.712 * 1e9 / 2**20  # its GB are 10^9 bytes
    assert found.memory_reserved_mib == 12.954 * 1e9 / 2**20


@pytest.mark.parametrize("unit", ["TFLOP/s/GPU", " TFLOP/s/GPU"])
def test_older_ones_say_tflops_alone(unit: str) -> None:
    first, line, _ = megatron_bridge(20).splitlines()
    (step,) = of(first.replace("MODEL_TFLOP/s/GPU", unit), line).intervals
    assert step.tflop_per_s == 58.2


def test_a_step_time_is_only_of_the_iteration_that_took_it() -> None:
    """Two ranks print the two lines, and either may be late."""
    first, line, _ = megatron_bridge(10).splitlines()
    _, other, _ = megatron_bridge(20, 13000.0).splitlines()
    assert [step.tflop_per_s for step in of(first, line, other).intervals] == [58.2, None]
    assert [step.tflop_per_s for step in of(line, first, other).intervals] == [None, None]


def test_parse_knows_megatron_bridge(read: Any) -> None:
    result = read([megatron_bridge(step) for step in (10, 20, 30)])
    assert (result["system"], result["logged_lines"]) == ("megatron_core", 3)
    assert (result["step_time_ms"], result["last_loss"]) == (14260.3, 0.08797448)
    assert result["samples_per_s"] == pytest.approx(512 / 14.2603, rel=1e-6)
    assert "as Megatron-Bridge prints them" in result["reason"]


def test_megatrons_arguments_say_its_tokens(read: Any) -> None:
    result = read([*MEGATRON_ARGUMENTS, megatron(10), megatron(20)])
    assert result["tokens_per_s"] == pytest.approx(16 * 1024 / 14.1316, rel=1e-6)
    assert result["tokens_per_s_per_device"] == pytest.approx(16 * 128 / 14.1316, rel=1e-6)
