"""NeMo's lines, as its own ProgressPrinter printed them, and its progress bar."""

from pathlib import Path
from typing import Any

import pytest

from runner.commands.parse import parse
from runner.logs.kinds import readers_of_family
from runner.logs.measure import measure
from runner.terms.record import Interval, Measurement
from tests.runner.logs.made_lines import nemo, nemo_bar

pytestmark = pytest.mark.made_log

PRINTED = Path(__file__).resolve().parents[2] / "data" / "nemo" / "progress_printer.log"


def of(*texts: str) -> Measurement:
    return measure(readers_of_family("nemo"), {0: ["".join(texts).encode()]})


def test_what_its_own_printer_printed() -> None:
    found = measure(readers_of_family("nemo"), {0: [PRINTED.read_bytes()]})
    assert [step.iteration for step in found.intervals] == [5, 10, 15, 20, 25, 30]
    assert found.intervals[1] == Interval(
        iteration=10,
        iterations=5,
        step_time_ms=26920,
        samples_per_s=512 / 26.92,
        loss=10.5,
        grad_norm=1.833,
        tflop_per_s=470.7,
        global_batch_size=512,
    )
    assert found.memory_allocated_mib == 53930270720 / 2**20
    assert found.memory_reserved_mib == 57466159104 / 2**20
    assert found.train_iters == 30


def test_parse_knows_it() -> None:
    result = parse([PRINTED], None, warmup_iters=5)
    assert (result["family"], result["status"]) == ("nemo", "ok")
    assert (result["logged_lines"], result["counted_lines"], result["nan"]) == (6, 5, 1)
    assert (result["first_iteration"], result["last_iteration"]) == (5, 30)
    assert (result["step_time_ms_median"], result["last_loss"]) == (26990, 9.5)
    assert result["step_time_ms"] == 27022


def test_the_bar_is_drawn_many_times_a_step(read: Any) -> None:
    bars = [nemo_bar(step) for step in (1, 1, 2, 2, 2, 3)]
    found = of(*bars, "\n")
    assert [step.iteration for step in found.intervals] == [1, 2, 3]
    assert found.intervals[1].step_time_ms == 3590
    assert (found.intervals[1].loss, found.intervals[1].iterations) == (7.31, 1)
    assert found.train_iters == 100
    result = read("".join((*bars, "\n")).encode(), global_batch_size=256)
    assert (result["family"], result["samples_per_s"]) == (
        "nemo",
        pytest.approx(256 / 3.59, rel=1e-6),
    )


def test_a_bar_whose_step_is_rounded_says_its_own_count_in_a_first_epoch() -> None:
    assert [step.iteration for step in of(nemo_bar(7, step="1.23e+5"), "\n").intervals] == [7]
    assert of(nemo_bar(7, step="1.23e+5", epoch=2), "\n").intervals == ()
    (step,) = of(nemo_bar(7, step="99.00", epoch=2), "\n").intervals
    assert step.iteration == 100


def test_a_bar_of_nemo_1_has_no_time() -> None:
    bar = (
        "\rEpoch 0:   1%|          | 795/77225 [9:07:58<878:01:48, 41.36s/it, loss=3.1, v_num=,"
        " reduced_train_loss=3.090, global_step=794.0, consumed_samples=1.63e+6]\n"
    )
    (step,) = of(bar).intervals
    assert (step.iteration, step.loss, step.step_time_ms) == (795, 3.09, None)
    waits = bar.replace("3.090", "").replace("=794.0", "=").replace("=1.63e+6", "=")
    assert of(waits).intervals == ()


def test_a_validation_is_no_step_and_nan_no_loss() -> None:
    assert of("Validation: iteration 3/30\n", "Training epoch 0, iteration 3/29\n").intervals == ()
    (step,) = of(nemo(3, loss="nan"), "\n").intervals
    assert (step.loss, step.nan) == (None, 1)
