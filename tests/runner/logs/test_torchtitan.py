"""torchtitan's lines: what its own logger printed, older and newer ones, several ranks."""

import re
from pathlib import Path
from typing import Any

import pytest

from runner.commands.parse import parse
from runner.logs.decoding import ANSI
from runner.logs.kinds import readers_of_family
from runner.logs.measure import measure
from runner.logs.run_sizes import Known
from runner.terms.record import Interval, Measurement
from tests.runner.logs.made_lines import torchtitan

pytestmark = pytest.mark.made_log

DATA = Path(__file__).resolve().parents[2] / "data" / "torchtitan"
PRINTED = DATA / "metrics_0.2.2.log"


def of(*lines: str, known: Known | None = None) -> Measurement:
    text = "".join(f"{line}\n" for line in lines).encode()
    return measure(readers_of_family("torchtitan"), {0: [text]}, known or Known())


def steps(found: Measurement) -> list[tuple[int, int]]:
    return [(step.iteration, step.iterations) for step in found.intervals]


def test_what_its_own_logger_printed() -> None:
    """Colours around and inside the line; a validation's line is no step; NaN is a loss."""
    found = measure(readers_of_family("torchtitan"), {0: [PRINTED.read_bytes()]})
    assert steps(found) == [(1, 1), (10, 9), (20, 10), (30, 10)]
    assert found.intervals[2] == Interval(
        iteration=20,
        iterations=10,
        step_time_ms=4 * 1000 / (8666 * 4 / 8192),
        samples_per_s=8666 * 4 / 8192,
        loss=9.22166,
        grad_norm=8.4212,
        tflop_per_s=441.96,
        tokens_per_s=8666 * 4,
        device_tokens_per_s=8666,
        global_batch_size=4,
    )
    assert (found.intervals[3].loss, found.intervals[3].nan) == (None, 1)
    assert found.memory_allocated_mib is None
    assert found.memory_reserved_mib == 84.26 * 1024
    assert found.train_iters == 30
    assert found.facts == {"devices": "4", "tokens_per_sample": "8192", "train_iters": "30"}


@pytest.mark.parametrize(
    ("name", "tokens", "devices", "loss", "gib"),
    [("h200_8b_fsdp2", 8833.4, 2, 6.48931, 80.97), ("h200_pp2", 39529, 2, 7.4055, 1.23)],
)
def test_runs_on_two_gpus(name: str, tokens: float, devices: int, loss: float, gib: float) -> None:
    """With stages the one rank that knows the loss is shown, and its line is of one device, too."""
    found = measure(readers_of_family("torchtitan"), {0: [(DATA / f"{name}.log").read_bytes()]})
    assert steps(found) == [(number, 1) for number in range(1, 26)]
    assert found.intervals[-1].loss == loss
    assert found.memory_allocated_mib is None
    assert found.memory_reserved_mib == gib * 1024
    assert found.facts["devices"] == str(devices)
    result = parse([DATA / f"{name}.log"], None, warmup_iters=10)
    assert (result["system"], result["status"]) == ("torchtitan", "ok")
    assert result["tokens_per_s_per_device"] == pytest.approx(tokens, rel=1e-3)
    assert result["tokens_per_s"] == pytest.approx(tokens * devices, rel=1e-3)


def test_parse_knows_it_and_its_speed() -> None:
    result = parse([PRINTED], None, warmup_iters=1)
    assert (result["system"], result["status"]) == ("torchtitan", "diverged")
    assert (result["logged_lines"], result["counted_lines"], result["runs"]) == (4, 3, 1)
    assert result["tokens_per_s_per_device"] == pytest.approx(8685.54, abs=0.01)
    assert result["last_loss"] is None


def test_the_made_line_is_the_printed_one_without_colours() -> None:
    printed = ANSI.sub(b"", PRINTED.read_bytes()).decode().splitlines()
    (line,) = [one for one in printed if " step: 20  loss:" in one and "validate" not in one]

    def shape(text: str) -> str:
        return re.sub(r"\d+", "0", text)

    assert shape(line) == shape(torchtitan(20, rank=0)).replace("0,0.0", "0.0")


def test_older_lines_have_wps_and_no_norm(read: Any) -> None:
    start = (
        "2024-07-30 10:00:00,123 - root - INFO - Training starts at step 1, with local batch"
        " size: 8, sequence length: 2048, total steps: 1000(200), "
    )
    mesh = " - root - INFO - Building 2-D device mesh with ['dp', 'tp'], [4, 2]"
    found = of(mesh, start, torchtitan(1, old=True), torchtitan(10, old=True, tps=12345))
    assert (found.intervals[1].device_tokens_per_s, found.intervals[1].grad_norm) == (12345, None)
    assert found.intervals[1].samples_per_s == 12345 * 8 / 2048
    assert found.intervals[1].step_time_ms is None  # the batch is of one rank: which, it says not
    assert found.train_iters == 1000
    assert read([torchtitan(10, old=True)])["system"] == "torchtitan"


def test_newer_ones_count_tokens() -> None:
    sizes = (
        "Trainer is initialized with 16384 tokens per DP rank, 131072 tokens per train step,"
        " gradient accumulation steps 2, maximum context length 8192, total steps 1000 (warmup 5)"
    )
    mesh = (
        "Building device mesh with parallelism: pp=2, dp_replicate=1, dp_shard=4, cp=1, tp=1, ep=1"
    )
    found = of(mesh, sizes, torchtitan(10, tps=8192, mfu="N/A"))
    (step,) = found.intervals
    assert (step.samples_per_s, step.step_time_ms) == (8.0, 2000.0)
    assert (
        of(mesh, sizes.replace("131072", "131073"), torchtitan(10)).intervals[0].step_time_ms
        is None
    )


def test_without_their_sizes_lines_have_a_devices_rate_alone() -> None:
    (step,) = of(torchtitan(10)).intervals
    assert (step.device_tokens_per_s, step.tokens_per_s, step.samples_per_s) == (8666, None, None)
    (step,) = of(torchtitan(10), known=Known(tokens_per_sample=4333, devices=2)).intervals
    assert (step.tokens_per_s, step.samples_per_s, step.step_time_ms) == (17332, 4.0, None)


def test_of_steps_1_and_10_alone_the_second_is_the_speed(read: Any) -> None:
    """The median of both was printed without a word, half of it compilation: 45,368 tokens/s.

    With all lines counted it is the tokens of ten iterations over their time.
    """
    both = [torchtitan(1, tps=10_880), torchtitan(10, tps=79_856)]
    found = read(both, warmup_iters=None)
    assert (found["tokens_per_s_per_device"], found["counted_lines"]) == (79_856, 1)
    assert "compilation" not in found["reason"]
    alone = read(both[:1], warmup_iters=None)
    assert (alone["tokens_per_s_per_device"], alone["counted_lines"]) == (10_880, 1)
    assert "compilation and warm-up are in its times: it has one line" in alone["reason"]
    slow = 10 / (1 / 10_880 + 9 / 79_856)
    assert read(both, warmup_iters=0)["tokens_per_s_per_device"] == pytest.approx(slow)


def test_several_ranks_print_the_same_step() -> None:
    start = "[rank{}]:[titan] 2026-01-01 00:00:00,000 - root - INFO - Training starts at step 1"
    lines = [start.format(0), start.format(1), torchtitan(1, rank=0), torchtitan(1, rank=1)]
    lines += [torchtitan(step, rank=rank) for step in (10, 20, 30) for rank in (1, 0)]
    assert steps(of(*lines)) == [(1, 1), (10, 9), (20, 10), (30, 10)]
    late = [torchtitan(10, rank=0), torchtitan(20, rank=0), torchtitan(10, rank=1)]
    assert steps(of(*late)) == [(10, 10), (20, 10)]


def test_a_rank_without_the_last_pipeline_stage_has_no_loss() -> None:
    alone = of(*(torchtitan(step, loss=-8.0) for step in (1, 10)))
    assert [(step.loss, step.nan) for step in alone.intervals] == [(None, 0), (None, 0)]
    lines = [
        torchtitan(step, loss=loss, rank=rank)
        for step in (1, 10, 20)
        for rank, loss in ((0, -1.0), (7, 9.5))
    ]
    assert [(step.iteration, step.loss) for step in of(*lines).intervals] == [
        (1, None),
        (10, 9.5),
        (20, 9.5),
    ]


def test_a_run_that_goes_on_says_from_where() -> None:
    start = "[titan] 2026-01-01 00:00:00,000 - root - INFO - Training starts at step {}"
    again = [start.format(1), torchtitan(1), torchtitan(10), start.format(6), torchtitan(10)]
    assert steps(of(*again)) == [(1, 1), (10, 9), (10, 5)]


def test_what_was_survived_is_no_failure(read: Any) -> None:
    done = "[titan] 2026-01-01 00:00:00,000 - root - INFO - Training completed"
    error = "RuntimeError: CUDA error: an illegal memory access was encountered"
    trace = ["Traceback (most recent call last):", '  File "x.py", line 1, in <module>', error]
    assert read([torchtitan(1), torchtitan(10), *trace, done])["status"] == "ok"
    assert read([torchtitan(1), torchtitan(10), *trace])["status"] == "device_error"


@pytest.mark.parametrize(
    "line",
    [
        "validate step: 20  loss:  9.4000  memory: 84.26GiB(60.27%)  tps: 14,894",
        "step: 20  loss:  9.4",
        "step: 20 loss: 9.4  memory: 84.26GiB(60.27%)  tps: 14,894",
        "step: 0  loss:  9.4000  memory: 84.26GiB(60.27%)",
        "mystep: 20  loss:  9.4000  memory: 84.26GiB(60.27%)",
    ],
)
def test_what_is_no_step_of_its_is_passed_over(line: str) -> None:
    text = line.encode() if line.endswith("9.4") else f"{line}\n".encode()
    assert measure(readers_of_family("torchtitan"), {0: [text]}).intervals == ()


@pytest.mark.parametrize("tps", ["8,66", "1,2345", "-8,666", "nan", "9" * 30])
def test_a_rate_that_is_no_number_is_none(tps: str) -> None:
    (step,) = of(torchtitan(10).replace("8,666", tps)).intervals
    assert (step.device_tokens_per_s, step.loss) == (None, 9.22166)


@pytest.mark.parametrize("colour", ["\x1b[0m", "\x1b[39m\x1b[32m"])
def test_a_colour_within_a_number_does_not_join_its_halves(colour: str) -> None:
    """A torn line: 9.22166 with a colour's code in place of its dot was a loss of 922166."""
    line = torchtitan(20)
    loss = re.search(r"loss: +(\S+)", line)
    assert loss
    assert of(line.replace(loss[1], loss[1].replace(".", colour))).intervals == ()
    (step,) = of(line.replace(loss[1], f"{colour}{loss[1]}{colour}")).intervals
    assert step.loss == float(loss[1])
    norm = re.search(r"grad_norm: +(\S+)", line)
    assert norm
    (step,) = of(line.replace(norm[1], norm[1].replace(".", colour))).intervals
    assert step.grad_norm is None


SIZES = [
    "[titan] Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=2, cp=1, tp=1,",
    "[titan] Trainer is initialized with local batch size 4, global batch size 8, gradient"
    " accumulation steps 1, sequence length 1000, total steps 30 (warmup 2)",
]


@pytest.mark.parametrize(
    "said", ["the checkpoint (or staging if async is enabled)in", "the checkpoint in"]
)
def test_a_checkpoint_in_a_lines_time_is_taken_out(said: str) -> None:
    """8,000 tokens a step, two devices: ten steps at 4,000 tokens/s per device are 10 s."""
    saved = [
        f"[rank{rank}]:[titan] - root - INFO - Finished saving {said} {took} seconds."
        for rank, took in ((0, 5.00), (1, 4.90))
    ]
    lines = [
        *SIZES,
        torchtitan(10, tps=8000),
        *saved,
        torchtitan(20, tps=4000),
        torchtitan(30, tps=8000),
    ]
    read = of(*lines).intervals
    assert [step.device_tokens_per_s for step in read] == [8000, 8000, 8000]
    assert [step.paused_ms for step in read] == [0, 5000, 0]
    assert [step.step_time_ms for step in read] == [500, 500, 500]
    unknown = of(*lines[2:]).intervals
    assert [(step.device_tokens_per_s, step.paused_ms) for step in unknown][1] == (4000, 0)


def test_a_validation_begins_a_new_window() -> None:
    """torchtitan b5bcd76c torchtitan/components/metrics.py:579."""
    validated = "[titan] validate step: 15  loss:  8.1234  memory: 84.26GiB(60.27%)  tps: 30,000"
    saved = "[titan] Finished saving the checkpoint in 3.00 seconds."
    read = of(*SIZES, torchtitan(10), saved, validated, torchtitan(20), torchtitan(30))
    assert steps(read) == [(10, 10), (20, 5), (30, 10)]
    assert [step.paused_ms for step in read.intervals] == [0, 0, 0]
