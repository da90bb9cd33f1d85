"""llm.c's parsers: `python_cpu.log` is train_gpt2.py of f1e2ace on torch 2.13, on a CPU (d12, 32
tokens, total batch size 64, its tokenizer replaced: it would be downloaded); `h100_8_devices.log`
is what its author published of the CUDA trainer (discussion 677), shortened; `main.log` the start of
modded-nanogpt's records/track_1_short/2024-10-13_llmc/main.log (f411b3d).
"""

from typing import Any

import pytest

from runner.base.paths import PROJECT
from runner.logs.kinds import readers_of_family
from runner.logs.measure import measure

DATA = PROJECT / "tests" / "data" / "llm_c"
READERS = readers_of_family("llm_c")
CUDA = (DATA / "h100_8_devices.log").read_bytes()


def test_cuda() -> None:
    found = measure(READERS, {0: [CUDA]})
    assert [step.iteration for step in found.intervals] == [1, 2, 3, 4, 5]
    third = found.intervals[2]
    assert (third.step_time_ms, third.loss, third.grad_norm) == (2753.25, 9.894109, 23.2229)
    # It prints 381259: an average. The line's own follows from the tokens of a step.
    assert third.tokens_per_s == pytest.approx(1048576 / 2.75325)
    assert third.samples_per_s == pytest.approx(1024 / 2.75325)
    assert found.facts == {"tokens_per_sample": "1024", "devices": "8", "train_iters": "32000"}
    without = measure(READERS, {0: [CUDA[CUDA.index(b"val loss") :]]})
    assert without.intervals[2].tokens_per_s is None


@pytest.mark.made_log
@pytest.mark.parametrize("sizes", [b"", b"total desired batch size: 4096\n"])
def test_a_running_average_that_remembers_slow_first_steps_is_no_speed(
    read: Any, sizes: bytes
) -> None:
    """Case 27 in llm.c's words: 60 steps of 44.57 ms behind two of 31 s were 87.0 samples/s."""
    text, average = sizes + b"val loss 11.0\n", 0.0
    for step in range(1, 61):
        ms = 31_000.0 if step < 3 else 44.57
        average = 0.95 * average + 0.05 * 4096 * 1000 / ms if step > 1 else 0.0
        rate = average / (1 - 0.95 ** (step - 1)) if step > 1 else 4096 / 31
        text += b"step %4d/60 | loss 4.1 (+nanz)| norm 1.4 (+nanz)| lr 3.00e-04 |" % step
        text += b" %.2f ms | 49.1%% bf16 MFU | %.0f tok/s\n" % (ms, rate)
    result = read(text, warmup_iters=5, tokens_per_sample=1024)
    assert result["step_time_ms"] == pytest.approx(44.57)
    assert (result["samples_per_s"] is None) == (not sizes)
    assert result["samples_per_s"] in (None, pytest.approx(4 / 0.04457))
    assert ("--global-batch-size N" in result["reason"]) == (not sizes)


def test_auto(read: Any) -> None:
    result = read(CUDA)
    assert (result["system"], result["logged_lines"]) == ("command", 5)
    assert (result["step_time_ms_median"], result["last_loss"]) == (2752.07, 9.482848)


def test_python_and_the_steps_whose_time_holds_an_evaluation() -> None:
    found = measure(READERS, {0: [(DATA / "python_cpu.log").read_bytes()]})
    steps = found.intervals
    assert [step.iteration for step in steps] == list(range(1, 9))
    assert [step.step_time_ms is None for step in steps] == [True, *[False] * 3, True, *[False] * 3]
    assert (steps[-1].loss, steps[-1].grad_norm, steps[-1].step_time_ms) == (
        *(6.682589, 5.5558, 5886.39),
    )
    assert steps[-1].tokens_per_s == pytest.approx(64 / 5.88639)
    assert found.memory_allocated_mib is None  # a CPU's 0 MiB is none


def test_main_log_has_losses_and_no_time(read: Any) -> None:
    result = read((DATA / "main.log").read_bytes())
    assert (result["logged_lines"], result["first_iteration"]) == (11, 1)
    assert (result["step_time_ms"], result["last_loss"]) == (None, 9.9353)


@pytest.mark.made_log
@pytest.mark.parametrize(
    ("line", "first", "time", "tokens"),
    [
        ("step    1/74: train loss 4.1 (acc 4.2) (44.570000 ms, 91886 tok/s)", 1, 44.57, 91886),
        ("step    1/74: train loss 4.1 norm 1.4 lr 3.00e-04 (44.57 ms, 91886 tok/s)", 1, 44.57, 91886),
        ("step    1/74 | train loss 4.1 | norm 1.4 | lr 3.00e-04 | 44.57 ms | 49.1% A100 fp16 MFU | 91886 tok/s", 1, 44.57, 91886),
        ("step 1/74: train loss 4.1 (44.570000 ms)", 1, 44.57, None),
        ("step 0: train loss 4.1 (took 44.570000 ms)", 1, 44.57, None),
        ("iteration 0, loss: 4.1, time: 44.570ms", 1, 44.57, None),
        ("iteration 1, loss: 4.1, time: 44.570ms, tok/s: 91886.00, norm: 1.400", 1, 44.57, 91886),
    ],
)  # fmt: skip
def test_older_lines(line: str, first: int, time: float, tokens: float | None) -> None:
    (step,) = measure(READERS, {0: [f"val loss 3.9\n{line}\n".encode()]}).intervals
    assert (step.iteration, step.step_time_ms, step.loss) == (first, time, 4.1)
    assert step.tokens_per_s == tokens
    assert step.grad_norm in (None, 1.4)


@pytest.mark.made_log
def test_a_skipped_update_is_said_before_its_line() -> None:
    text = CUDA.replace(
        b"step    2/", b"skipping update due to loss z-score of 9.100000\nstep    2/"
    )
    found = measure(READERS, {0: [text]})
    assert [step.skipped for step in found.intervals] == [0, 1, 0, 0, 0]
