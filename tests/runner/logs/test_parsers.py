"""Megatron's and DeepSpeed's lines: each trap of real logs is a test of its own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runner.commands.parse import parse
from runner.figures.counted_steps import late_intervals
from runner.logs.kinds import readers_of, readers_of_family
from runner.logs.measure import measure
from runner.logs.patterns import LinePattern, readers_of_patterns
from tests.runner.logs.made_lines import (
    PREFIXES,
    deepspeed,
    megatron,
    overflow,
    pipe,
    v115,
)

pytestmark = pytest.mark.made_log


def test_elapsed_time_in_seconds_and_in_milliseconds(read: Any) -> None:
    assert read([megatron(1, ms=1500.0)])["step_time_ms"] == 1500
    assert read([megatron(1, seconds=1.5)])["step_time_ms"] == 1500


@pytest.mark.parametrize("label", ["lm loss", "lm-loss"])
def test_both_spellings_of_the_loss(read: Any, label: str) -> None:
    assert read([megatron(1, label=label, loss=7.75)])["last_loss"] == 7.75


def test_a_nan_loss_drops_its_field(read: Any) -> None:
    result = read([megatron(1), megatron(2, loss=None), megatron(3, loss=None)])
    assert (result["nan"], result["skipped"], result["last_loss"]) == (2, 0, None)


def test_a_window_of_skipped_steps_only_is_no_nan(read: Any) -> None:
    result = read([megatron(10, loss=None, skipped=10), megatron(20, skipped=9), megatron(30)])
    assert (result["nan"], result["skipped"]) == (0, 19)


def test_the_sum_of_no_losses_is_no_loss(read: Any) -> None:
    result = read([megatron(1, loss=9.0), megatron(2, loss=0.0, skipped=1)])
    assert (result["last_loss"], result["nan"], result["skipped"]) == (9.0, 0, 1)


def test_a_time_that_rounds_to_nothing_comes_from_the_rate(read: Any) -> None:
    result = read([megatron(1, seconds=0.0, batch=16, rate=3265.306)])
    assert result["step_time_ms"] == pytest.approx(4.9)
    assert read([megatron(1, seconds=0.25, batch=16, rate=63.9)])["step_time_ms"] == 250


@pytest.mark.parametrize("apart", [False, True])
def test_megatron_cores_first_iteration_is_on_the_second_line_again(
    apart: bool, tmp_path: Path
) -> None:
    """core_v0.18.2 megatron/training/training.py:2387: the first line begins no new window."""
    stamp = " [2026-07-16 12:00:0{}.123456]"
    lines = [
        stamp.format(1) + megatron(1, ms=20000, skipped=1, loss=None),
        stamp.format(2) + megatron(10, ms=2450, skipped=3),
        stamp.format(3) + megatron(20, ms=500),
    ]
    blocks = [(line + "\n").encode() for line in lines]
    read = measure(readers_of("megatron_core"), {0: blocks if apart else [b"".join(blocks)]})
    found = [(step.iteration, step.iterations, step.skipped) for step in read.intervals]
    assert found == [(1, 1, 1), (10, 10, 2), (20, 10, 0)]


def test_a_batch_that_grows_is_that_of_its_line() -> None:
    """`--rampup-batch-size` (bigscience e52bdab megatron/training.py:787-820 has it on each line)."""
    lines = [megatron(1, batch=16), megatron(2, batch=32), v115(3)]
    read = measure(readers_of("megatron_lm"), {0: ["\n".join((*lines, "")).encode()]})
    assert [step.global_batch_size for step in read.intervals] == [16, 32, None]


SAVED = [
    "(min, max) time across ranks (ms):",
    "    save-checkpoint ................................: (1990.50, 2000.00)",
]


@pytest.mark.parametrize(
    ("between", "time_ms", "paused_ms"),
    [
        (["time (ms) | save-checkpoint: 2000.00"], 500, 2000),
        (SAVED, 500, 2000),
        ([*SAVED, "time (ms) | save-checkpoint: 3000.00"], 200, 5000),
        (["time (ms) | save-checkpoint: 7000.00"], 700, 0),  # no part of 7 s
        (["    evaluate .......................................: (9.0, 9.0)", *SAVED], 700, 0),
    ],
)
def test_a_checkpoint_in_a_lines_time_is_taken_out(
    read: Any, between: list[str], time_ms: float, paused_ms: float
) -> None:
    """bigscience 0035f06a megatron/training.py:840, microsoft 7632408b :1202; NVIDIA's evaluate is
    printed by those that stop the clock (b60ca1a8).
    """
    lines = [megatron(10, ms=500.0), *between, megatron(20, ms=700.0, rate=10.0)]
    step = measure(readers_of("megatron_lm"), {0: ["\n".join((*lines, "")).encode()]}).intervals[1]
    assert step.step_time_ms == pytest.approx(time_ms)
    assert step.paused_ms == paused_ms
    assert step.samples_per_s == pytest.approx(10.0 * 700 / time_ms)
    said = (
        f"{paused_ms / 1000:g} s of evaluations and checkpoints, as the log states, are taken out"
    )
    assert (said in read(lines)["reason"]) == (paused_ms > 0)
    stamped = [
        line.replace(" iteration ", " [2026-07-16 12:00:01] iteration ", 1) for line in lines
    ]
    core = measure(readers_of("megatron_core"), {0: ["\n".join((*stamped, "")).encode()]})
    assert core.intervals[1].step_time_ms == 700


def test_a_checkpoint_of_the_run_before_is_in_no_time() -> None:
    lines = [megatron(10, ms=500.0), *SAVED, megatron(10, ms=700.0)]
    read = measure(readers_of("megatron_lm"), {0: ["\n".join((*lines, "")).encode()]})
    assert [step.step_time_ms for step in read.intervals][-1] == 700


def test_what_a_lines_time_is_of_is_said(read: Any) -> None:
    assert (
        "a line's time is the mean over its iterations; evaluations"
        in read([megatron(1)])["reason"]
    )


def test_a_nan_among_skipped_steps_is_one(read: Any) -> None:
    lines = [megatron(10), megatron(20, loss=None, skipped=3)]
    assert read(lines)["nan"] == 1


def test_a_loss_printed_as_nan_is_counted(read: Any) -> None:
    result = read([megatron(1), megatron(2, loss=float("nan")), megatron(3, loss=float("inf"))])
    assert (result["nan"], result["last_loss"]) == (2, None)


def test_half_a_line_is_a_step_without_its_missing_values_and_no_nan(read: Any) -> None:
    half = megatron(2).split(" lm loss")[0]
    result = read([megatron(1), half, "[INFO] another writer", megatron(3)])
    assert (result["logged_lines"], result["nan"]) == (3, 0)


def test_overflow_lines_are_skipped_steps_where_the_counter_stays_0(read: Any) -> None:
    lines = [megatron(1, scale=65536), overflow(), megatron(2), overflow(package="deepscale")]
    assert read(lines)["skipped"] == 2


def test_deepspeeds_own_counter_of_skips_counts_too(read: Any) -> None:
    step = "[INFO] [logging.py:68:log_dist] [Rank 0] step={}, skipped={}, lr=[0.0001], mom=[(0.9, 0.999)]"
    lines = [step.format(2, 1), megatron(2), step.format(4, 3), megatron(4)]
    assert read(lines)["skipped"] == 3
    # A run that goes on from a checkpoint begins again, here with 2 of its own.
    assert read([*lines, step.format(2, 2), megatron(4)])["skipped"] == 5
    # One that begins anew is a run of its own.
    assert read([*lines, step.format(2, 2), megatron(2)])["skipped"] == 2


def test_overflow_lines_of_every_rank_are_one_step(read: Any) -> None:
    lines = [megatron(1), *(overflow(rank) for rank in range(8)), megatron(2)]
    assert read(lines)["skipped"] == 1


@pytest.mark.parametrize(
    "words",
    [
        "[deepspeed] fp16 dynamic loss scale overflow! Skipping step. Attempted loss scale: 8.0, reducing to 4.0",
        "[2023-01-01 10:00:00,000] [INFO] [fused_optimizer.py:383:step] [Rank 0] Overflow detected."
        " Skipping step. Attempted loss scale: 8.0, reducing to 4.0",
    ],
)
def test_other_spellings_of_overflow(read: Any, words: str) -> None:
    assert read([megatron(1), words, megatron(2)])["skipped"] == 1


def test_overflow_is_not_counted_twice_beside_a_counter_that_works(read: Any) -> None:
    assert read([megatron(1), overflow(), megatron(2, skipped=1)])["skipped"] == 1


def test_deepspeeds_mean_since_the_start_is_the_difference_of_two(read: Any) -> None:
    """10 s were lost between the first two lines: the third still says 11.7, which was a figure."""
    seconds = {10: 4.0, 20: 19.0, 30: 24.0}  # of the timer, which leaves two steps out
    lines = [f"0/{n}, SamplesPerSec={10 * (n - 2) / s}, " for n, s in seconds.items()]
    steps = measure(readers_of_family("deepspeed"), {0: ["\n".join(lines).encode() + b"\n"]})
    rates = [step.samples_per_s for step in steps.intervals]
    assert rates == pytest.approx([20.0, 100 / 15, 20.0])


def test_a_rate_that_the_line_itself_contradicts_is_no_figure(read: Any) -> None:
    """bigscience's tr8b chronicles print samples per second a thousand times too small."""
    result = read([megatron(1, ms=423042.3, batch=2048, rate=0.005)])
    assert result["samples_per_s"] is None
    assert "rate x time of the log's lines make 2.115" in result["reason"]


def test_a_missing_figure_has_its_reason(read: Any) -> None:
    assert "wholly after warm-up (9 iterations)" in read([megatron(5)], warmup_iters=9)["reason"]
    assert (
        "neither step times nor a throughput"
        in read([" iteration        5/      50 | lm"])["reason"]
    )


def test_v115_has_no_batch_size_so_samples_per_s_needs_one(read: Any) -> None:
    result = read([v115(1), v115(2), v115(3)])
    assert (result["system"], result["samples_per_s"]) == ("megatron_lm", None)
    assert "--global-batch-size" in result["reason"]
    result = read([v115(1), v115(2, ms=2000.0), v115(3)], global_batch_size=9)
    assert result["samples_per_s_median"] == pytest.approx(9 * 1000 / 123907.8, abs=1e-6)
    assert result["samples_per_s"] == pytest.approx(3 * 9 * 1000 / (2 * 123907.8 + 2000), abs=1e-6)


def test_v115_counts_no_skipped_step_itself(read: Any) -> None:
    assert read([v115(1), overflow(), overflow(), v115(2)])["skipped"] == 2


def test_samples_per_s_of_ds_config_gives_way_to_the_named_batch_size(read: Any) -> None:
    # ds_config says 2048, 9 are trained (document 002).
    lines = [pipe(1, seconds=2.0, rate=1024.0), pipe(2, seconds=2.0, rate=1024.0)]
    result = read(lines)
    assert result["samples_per_s"] == 1024
    assert "ds_config" in result["reason"]
    assert read(lines, global_batch_size=9)["samples_per_s"] == 4.5


def test_deepspeeds_rate_does_not_stand_in_for_a_megatron_line_without_one(read: Any) -> None:
    timer = "[2021-01-01 10:00:00,000] [INFO] [timer.py:163:stop] 0/10, SamplesPerSec=2048.5, MemAllocated=1.6GB, MaxMemAllocated=5.5GB"
    assert read([v115(10), timer, v115(20)])["samples_per_s"] is None


def test_steps_lines_with_more_losses_in_the_middle(read: Any) -> None:
    result = read([pipe(7, more="lm loss: 12.6 aux loss: 0.01 ")])
    assert (result["logged_lines"], result["samples_per_s"]) == (1, 95.775)
    assert result["step_time_ms"] == 2673


@pytest.mark.parametrize(
    ("form", "iteration", "rate"),
    [
        ("0/10, SamplesPerSec=357.3, ", 10, 357.3),
        ("0/10, RunningAvgSamplesPerSec=300.5, CurrSamplesPerSec=358.4, ", 10, 358.4),
        (
            "epoch=0/micro_step=40/global_step=10, RunningAvgSamplesPerSec=3.5, CurrSamplesPerSec=2.5, ",
            10,
            2.5,
        ),
    ],
)
def test_forms_of_the_throughput_timer(read: Any, form: str, iteration: int, rate: float) -> None:
    line = f"[2022-10-29 00:42:31,004] [INFO] [timer.py:198:stop] {form}MemAllocated=1.64GB, MaxMemAllocated=5.5GB"
    result = read([line])
    assert (result["logged_lines"], result["last_iteration"]) == (1, iteration)
    assert result["samples_per_s"] == rate
    assert result["memory_mib"] == 5.5 * 1024


@pytest.mark.parametrize("config", [True, False])
def test_the_timer_counts_micro_steps_and_the_engine_steps(read: Any, config: bool) -> None:
    """Accumulation 2, as its configuration says, else as its own counter shows: 0/8 is step 4."""
    lines = [deepspeed(0, accumulation=2)] if config else []
    lines += [deepspeed(0), deepspeed(2), deepspeed(0, 4), deepspeed(0, 6), deepspeed(0, 7)]
    result = read([*lines, deepspeed(4), deepspeed(0, 8)])
    assert (result["logged_lines"], result["runs"]) == (3, 1)
    assert (result["first_iteration"], result["last_iteration"]) == (2, 4)


def test_the_engines_counter_says_more_than_its_configuration(read: Any) -> None:
    lines = [deepspeed(0, accumulation=4), deepspeed(10), deepspeed(0, 10), deepspeed(0, 20)]
    assert read(lines)["last_iteration"] == 20
    second = [deepspeed(0, accumulation=2), deepspeed(0, 10)]
    assert (read([*lines, *second])["last_iteration"], read(second)["runs"]) == (5, 1)


def test_the_line_of_an_engine_that_is_set_up_is_no_step(read: Any) -> None:
    """A run that died silently behind it was `ok` with one step."""
    result = read([deepspeed(0)])
    assert (result["logged_lines"], result["status"]) == (0, "no_step")
    assert read([deepspeed(0), deepspeed(10)])["logged_lines"] == 1


def test_optimizer_lines_alone_count_steps_and_skips_but_no_time(read: Any) -> None:
    line = "[2022-10-29 00:42:31,004] [INFO] [logging.py:68:log_dist] [Rank 0] step={}, skipped={}, lr=[1e-07], mom=[(0.9, 0.95)]"
    result = read([line.format(step, skips) for step, skips in ((10, 2), (20, 3))])
    assert (result["logged_lines"], result["skipped"], result["step_time_ms"]) == (2, 3, None)


def test_several_runs_in_one_file(read: Any) -> None:
    lines = [*(megatron(step, ms=100.0) for step in (1, 2, 3)), *(megatron(1, ms=300.0),) * 1]
    result = read([*lines, megatron(2, ms=300.0)])
    assert (result["runs"], result["logged_lines"]) == (2, 2)
    assert (result["first_iteration"], result["last_iteration"]) == (1, 2)
    assert result["step_time_ms"] == 300
    assert "holds 2 runs; the last one is read" in result["reason"]


MEMORY = (
    "[Rank 0] (after 2 iterations) memory (MB) | allocated: 1.0 | max allocated: {} | reserved: 1.0"
)


@pytest.mark.parametrize("apart", [False, True])
def test_no_figure_is_of_two_runs_in_one_file(apart: bool) -> None:
    """Steps, skipped ones, memory and evaluations of the run before are not the last one's."""
    evaluated = (
        " validation loss at iteration {} | lm loss value: {:.1f}E+00 | lm loss PPL: 1.3E+04 | "
    )
    lines = [
        *(megatron(step, ms=100.0, skipped=1) for step in (1, 2, 3)),
        *(MEMORY.format("900.0"), evaluated.format(3, 9)),
        " log_interval .................................... 1",
        *(megatron(step, ms=300.0) for step in (1, 2)),
        *(MEMORY.format("500.0"), evaluated.format(2, 8)),
    ]
    rows = [f"{line}\n".encode() for line in lines]
    read = measure(readers_of("megatron_lm"), {0: rows if apart else [b"".join(rows)]})
    assert [step.step_time_ms for step in read.intervals] == [300, 300]
    assert sum(step.skipped for step in read.intervals) == 0
    assert (read.memory_allocated_mib, read.validation) == (500, ((2, 8.0),))
    assert read.contradicted == ("its log holds 2 runs; the last one is read",)
    assert read.facts["log_interval"] == "1"


def test_own_patterns_read_the_last_run_too() -> None:
    patterns = readers_of_patterns(
        {"step": LinePattern(r"step (\d+)"), "loss": LinePattern(r"loss (\S+)")}
    )
    text = b"".join(b"step %d loss %d.0\n" % (step, run) for run in (1, 2) for step in (1, 2, 3))
    assert [step.loss for step in measure(patterns, {0: [text]}).intervals] == [2, 2, 2]


def test_a_run_that_goes_on_from_a_checkpoint_goes_back(read: Any) -> None:
    assert read([megatron(step) for step in (10, 20, 30, 20, 30, 40)])["runs"] == 2


def test_warmup_leaves_out_lines_that_cover_it(read: Any) -> None:
    lines = [megatron(step, ms=1000.0 if step <= 10 else 100.0) for step in (5, 10, 15, 20, 25)]
    assert read(lines)["step_time_ms"] == (2 * 1000 + 3 * 100) / 5
    assert read(lines[:3], warmup_iters=10)["step_time_ms"] == 100
    assert read(lines[:3], warmup_iters=11)["step_time_ms"] is None
    assert read(lines[:3], warmup_iters=11)["logged_lines"] == 3


def test_batch_size_on_the_line_gives_samples_per_s(read: Any) -> None:
    assert read([megatron(1, ms=500.0, batch=256)])["samples_per_s"] == 512


def test_the_lines_own_samples_per_s_wins(read: Any) -> None:
    assert read([megatron(1, rate=1.132)], global_batch_size=17)["samples_per_s"] == 1.132


def test_onesflows_patched_field_tpt(read: Any) -> None:
    line = megatron(200, ms=129.7).replace(" loss scale", " tpt: 123.4 samples/s | loss scale")
    assert read([line])["samples_per_s"] == 123.4


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_prefixes_change_nothing(read: Any, prefix: str) -> None:
    lines = [megatron(step, rate=1.1) for step in (1, 2, 3)]
    bare, prefixed = read(lines), read([prefix + line for line in lines])
    assert {**prefixed, "reason": ""} == {**bare, "reason": ""}


def test_carriage_returns_crlf_and_invalid_utf8(read: Any) -> None:
    lines = [megatron(step).encode() for step in (1, 2)]
    for text in (
        b"\r\n".join(lines) + b"\r\n",
        b"\r".join(lines) + b"\r",
        b"\xff\xfe" + lines[0] + b"\xc3\n" + lines[1] + b"\n",
        lines[0] + lines[1] + b"\n",
    ):
        result = read(text)
        assert (result["logged_lines"], result["last_loss"]) == (2, 12.64968)


def test_a_log_split_over_nodes(tmp_path: Path) -> None:
    """DeepSpeed prints on rank 0, Megatron on the last rank, on the other node."""
    first, last = tmp_path / "node0", tmp_path / "node1"
    first.write_text("".join(f"{pipe(step, rate=99.0)}\n{overflow()}\n" for step in (1, 2, 3)))
    last.write_text("".join(megatron(step, rate=1.1) + "\n" for step in (1, 2, 3)))
    for logs in ([first, last], [last, first]):
        result = parse(logs, None)
        assert (result["logged_lines"], result["runs"], result["samples_per_s"]) == (3, 1, 1.1)
        assert (result["system"], result["skipped"]) == ("megatron_deepspeed", 3)
    assert parse([first], None)["samples_per_s"] == 99.0


def test_the_last_rank_may_move_to_another_node(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("".join(megatron(step) + "\n" for step in (3, 4)))
    two.write_text("".join(megatron(step) + "\n" for step in (1, 2)))
    result = parse([one, two], None)
    assert (result["first_iteration"], result["last_iteration"], result["runs"]) == (1, 4, 1)


def test_evaluation_lines_are_no_steps(read: Any) -> None:
    lines = [
        " validation loss at iteration 1000 | lm loss value: 7.174200E+00 | lm loss PPL: 1.305315E+03 | ",
        "valid loss at iteration 1000 | lm loss value: 7.1E+00 |",
        "saving checkpoint at iteration      20 to ckpts/20/",
        "exiting program at iteration 100 | 10:00",
    ]
    assert read(lines)["logged_lines"] == 0
    assert read([megatron(1), *lines])["logged_lines"] == 1


def test_overflows_reach_the_intervals_of_a_campaign() -> None:
    text = "\n".join([megatron(1), overflow(), megatron(2), megatron(3), ""]).encode()
    steps = measure(readers_of("megatron_deepspeed"), {0: [text]}).intervals
    assert [step.skipped for step in steps] == [0, 1, 0]
    assert [step.iterations for step in steps] == [1, 1, 1]
    assert steps[0].samples_per_s == pytest.approx(16 * 1000 / 14131.6)


def test_megatron_lines_in_the_middle_of_a_long_log_are_not_overlooked(read: Any) -> None:
    step = "[t] [INFO] [logging.py:68:log_dist] [Rank 0] step=10, skipped=0, lr=[1e-07], mom=[(0.9, 0.95)]"
    noise = ["building the model"] * 20_000
    result = read([step, *noise, megatron(10, rate=1.1), *noise, step])
    assert (result["logged_lines"], result["samples_per_s"]) == (1, 1.1)


def steps(*iterations: int) -> list[bytes]:
    return [("".join(megatron(n) + "\n" for n in iterations)).encode()]


@pytest.mark.parametrize(
    ("logs", "counted", "apart"),
    [
        ({0: (1, 2, 3)}, [1, 2, 3], []),
        ({0: (), 1: (1, 2, 3)}, [1, 2, 3], []),
        ({0: (3, 4), 1: (1, 2)}, [1, 2, 3, 4], []),
        ({0: (1, 2), 1: (1, 2, 3)}, [1, 2, 3], [0, 1]),
        ({0: (1, 2), 1: (1, 2)}, [1, 2], [0, 1]),
        ({0: range(1, 32), 1: range(20, 51)}, [*range(1, 51)], [0, 1]),
        ({0: range(20, 51), 1: range(1, 32)}, [*range(1, 51)], [0, 1]),
        ({0: (1, 2, 3, 2, 3, 4), 1: (3, 4, 5)}, [1, 2, 3, 2, 3, 4, 5], [0, 1]),
    ],
)
def test_parse_and_collect_count_the_lines_of_several_nodes_alike(
    logs: dict[int, Sequence[int]], counted: list[int], apart: list[int], tmp_path: Path
) -> None:
    text = {rank: b"".join(steps(*iterations)) for rank, iterations in logs.items()}
    found = measure(readers_of("megatron_lm"), {rank: [log] for rank, log in text.items()})
    assert [interval.iteration for interval in found.intervals] == counted
    assert sorted(found.by_node) == apart
    for rank, log in text.items():
        (tmp_path / f"{rank}.log").write_bytes(log)
    result = parse([tmp_path / f"{rank}.log" for rank in logs], "megatron_lm", warmup_iters=1)
    assert result["logged_lines"] == len(counted)
    assert result["counted_lines"] == len(late_intervals(found.intervals, 1)) < len(counted)
    assert (result["first_iteration"], result["last_iteration"]) == (counted[0], counted[-1])
    assert result["runs"] == 1 + (counted.count(2) - 1)
    assert ("repeats the steps of" in result["reason"]) == bool(apart)
