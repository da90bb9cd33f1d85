"""nanoGPT's parser on its own output: nanoGPT 3adf61e on torch 2.13, one CPU process, 2 layers of
64, 12 sequences of 64 tokens, log_interval 5, eval_interval 10, max_iters 40.
"""

from typing import Any

from runner.base.paths import PROJECT
from runner.logs.kinds import readers_of_family
from runner.logs.measure import measure
from runner.logs.run_sizes import Known

RECORDED = (PROJECT / "tests" / "data" / "nanogpt" / "cpu.log").read_bytes()


def test_a_recorded_log() -> None:
    found = measure(readers_of_family("nanogpt"), {0: [RECORDED]})
    steps = found.intervals
    assert [step.iteration for step in steps] == [1, 6, 11, 16, 21, 26, 31, 36, 41]
    assert [step.iterations for step in steps] == [1] * 9  # the time is of that one alone
    assert (steps[0].loss, steps[-1].loss) == (4.8801, 4.0962)
    # Those after `step 10: train loss ..` hold an evaluation.
    assert [step.step_time_ms for step in steps[1::2]] == [88.27, 68.05, 54.10, 67.35]
    assert all(step.step_time_ms is step.tokens_per_s is None for step in steps[::2])
    assert steps[1].tokens_per_s == 768 * 1000 / 88.27
    assert steps[1].samples_per_s == 12 * 1000 / 88.27  # of block_size 64
    assert found.train_iters == 41


def test_auto(read: Any) -> None:
    result = read(RECORDED)
    assert (result["system"], result["logged_lines"], result["last_loss"]) == ("command", 9, 4.0962)
    assert (result["step_time_ms_median"], result["runs"]) == (67.7, 1)
    assert "nanoGPT's `iter N" in result["reason"]


def test_lines_of_2023_and_a_loss_that_is_nan() -> None:
    old = (
        b"iter 0: loss 10.9, time 1234.50ms\niter 1: loss nan, time 100.00ms\niter 2: loss 1.0, ti"
    )
    found = measure(readers_of_family("nanogpt"), {0: [old]}, Known(64, 1))
    assert [(step.iteration, step.nan) for step in found.intervals] == [(1, 0), (2, 1)]
    assert found.intervals[1].step_time_ms == 100
    assert found.intervals[1].tokens_per_s is None  # nothing says them


def test_what_one_process_took_is_not_the_jobs() -> None:
    """553f949f: `total number of tokens per iteration:` was of a process."""
    text = RECORDED.replace(
        b"tokens per iteration will be: ", b"total number of tokens per iteration: "
    )
    found = measure(readers_of_family("nanogpt"), {0: [text]})
    assert {step.tokens_per_s for step in found.intervals} == {None}
