"""nanotron's lines: what its own loggers printed, old and new."""

from pathlib import Path
from typing import Any

import pytest

from runner.commands.parse import parse
from runner.logs.kinds import readers_of_family
from runner.logs.measure import measure
from runner.terms.record import Interval, Measurement
from tests.runner.logs.made_lines import nanotron

pytestmark = pytest.mark.made_log

DATA = Path(__file__).resolve().parents[2] / "data" / "nanotron"


def of(*lines: str) -> Measurement:
    return measure(readers_of_family("nanotron"), {0: ["\n".join((*lines, "")).encode()]})


@pytest.mark.parametrize("name", ["logger_0.4.log", "logger_2026_04.log"])
def test_what_its_own_loggers_printed(name: str) -> None:
    """Names, stamps and what a batch is counted in differ; what was measured does not."""
    found = measure(readers_of_family("nanotron"), {0: [(DATA / name).read_bytes()]})
    assert [step.iteration for step in found.intervals] == [1, 2, 3, 4, 5, 10, 30]
    assert found.intervals[5] == Interval(
        iteration=10,
        iterations=1,  # the time is of this one
        step_time_ms=11600,
        samples_per_s=182_000 / 2048,
        loss=1230,
        grad_norm=2.25,
        tflop_per_s=312,
        tokens_per_s=182_000,
        device_tokens_per_s=22_700,
        global_batch_size=1024,
    )
    assert found.facts == {"tokens_per_sample": "2048", "train_iters": "30"}
    assert found.memory_reserved_mib == (34.1e9 / 2**20 if "0.4" in name else None)


def test_parse_knows_it() -> None:
    result = parse([DATA / "logger_2026_04.log"], None, warmup_iters=1)
    assert (result["system"], result["status"], result["last_loss"]) == ("command", "ok", 7.6)
    assert (result["logged_lines"], result["counted_lines"]) == (7, 6)
    assert (result["step_time_ms"], result["tokens_per_s"]) == (
        11600,
        pytest.approx(180_659.9, abs=0.1),
    )


def test_a_batch_is_that_of_the_start_or_one_that_is_printed_whole() -> None:
    def batch(*lines: str) -> float | None:
        step = of(*lines).intervals[-1]
        return step.samples_per_s

    assert batch(nanotron(2)) is None  # 1.02K: 1,015 to 1,024 samples
    assert batch(nanotron(2, batch="20")) == pytest.approx(20 / 11.6)
    start = "mbs: 2 | grad_accum: 1 | global_batch_size: 1024 | train_steps: 9 | x"
    assert batch(start, nanotron(2)) == pytest.approx(1024 / 11.6)
    new = nanotron(2, batch="20").replace("elapsed_time", "time")
    assert batch(new) is None  # tokens


def test_thousands_of_millions_are_g_or_b() -> None:
    for suffix in "GB":
        line = nanotron(1) + f" | cuda_max_memory_reserved: 34.1{suffix} | hd_total_memory_tb: 1"
        assert of(line).memory_reserved_mib == 34.1e9 / 2**20
    line = "Memory usage: 1.00MiB. Peak allocated 2.00MiB. Peak reserved: 3.50MiB"
    assert of(line, nanotron(1)).memory_reserved_mib == 3.5


def test_a_loss_that_is_nan(read: Any) -> None:
    result = read([nanotron(1), nanotron(2, loss="nan")])
    assert (result["status"], result["nan"], result["last_loss"]) == ("diverged", 1, None)


def test_half_a_line_gives_half_the_values() -> None:
    line = nanotron(1)
    (step,) = measure(readers_of_family("nanotron"), {0: [line.encode()]}).intervals
    assert (step.loss, step.grad_norm) == (11.1, None)
    half = line[: line.index("lm_loss") + 10].encode()
    assert measure(readers_of_family("nanotron"), {0: [half]}).intervals == ()
