"""The other families, devices, and how systems are told apart: each trap is a test of its own."""

import json
from pathlib import Path
from typing import Any

import pytest

from runner.commands.parse import parse
from runner.logs.kinds import readers_of
from runner.logs.measure import measure
from runner.terms.record import Utilisation
from tests.runner.logs.made_lines import (
    SMI_HEADER,
    libai,
    libai_2022,
    megatron,
    primus,
    smi,
    v115,
)

pytestmark = pytest.mark.made_log

DATA = Path(__file__).resolve().parents[2] / "data"


def test_libai_counts_from_0_and_is_inclusive(read: Any) -> None:
    result = read([libai(step, time=1.0, rate=4.0) for step in (99, 199, 219)])
    assert (result["first_iteration"], result["last_iteration"]) == (100, 220)
    assert result["logged_lines"] == 3


def test_libai_prints_running_averages_and_the_windows_own_time_is_recovered(read: Any) -> None:
    # 98 timed iterations of 2 s, then 100 of 1 s: the second average is 1.4949 s.
    second = (98 * 2.0 + 100 * 1.0) / 198
    lines = [libai(99, time=2.0, rate=2.0), libai(199, time=second, rate=4 / second)]
    result = read(lines, warmup_iters=100)
    assert result["step_time_ms"] == pytest.approx(1000, rel=0.01)
    assert result["samples_per_s"] == pytest.approx(4, rel=0.01)


def test_libai_lines_before_time_is_known_count(read: Any) -> None:
    result = read([libai(0, time=None), libai(1, time=None), libai(2, time=0.5, rate=8.0)])
    assert result["logged_lines"] == 3
    assert result["step_time_ms"] == pytest.approx(500)


def test_libai_nan_loss_is_counted(read: Any) -> None:
    result = read([libai(99, time=1.0), libai(199, time=1.0, loss="nan")])
    assert (result["nan"], result["last_loss"]) == (1, None)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("period", [1, 20, 25])
def test_libai_of_early_2022_counts_from_1_and_its_last_weeks_from_0(
    read: Any, first: int, period: int
) -> None:
    """`time: 0.0710(1801.97)` was no time, and the first iteration the second."""
    steps = [period * number for number in (1, 2, 3)]
    result = read([libai_2022(step - 1 + first, samples=step * 128) for step in steps])
    assert (result["first_iteration"], result["last_iteration"]) == (steps[0], steps[-1])
    assert (result["system"], result["step_time_ms"]) == ("libai", pytest.approx(71))
    assert result["samples_per_s"] == pytest.approx(1801.97, rel=1e-3)


def test_libai_of_2021_prints_its_rate_behind_the_time(read: Any) -> None:
    line = libai_2022(20, samples=2560).replace("(1801.97)", "")
    line = line.replace("data_time: 0.0006  lr", "data_time: 0.0006  tpt: 1802.0 samples/s  lr")
    result = read([line])
    assert result["step_time_ms"] == pytest.approx(71)
    assert result["samples_per_s"] == pytest.approx(1802, rel=1e-3)
    assert read([line.replace("0.0710  ", "0.0710 sec  ")])["step_time_ms"] is None


def test_primus_prints_a_value_and_its_running_average(read: Any) -> None:
    """The lines without an average, of the first iterations, were the only ones with a time."""
    lines = [
        primus(1, "53519.1"),
        primus(2),
        primus(3, "540.1/18200.3"),
        primus(4, "541.0/13785.5"),
    ]
    result = read(lines)
    assert (result["logged_lines"], result["system"]) == (4, "megatron_core")
    assert result["step_time_ms_median"] == pytest.approx(541.45)
    assert result["samples_per_s_median"] == pytest.approx(256 / 0.54145, rel=1e-3)
    assert "as Primus prints them" in result["reason"]


@pytest.mark.parametrize("time", ["541.9:27030.5", "0.54s", "541.9/", "541.9/x", "1/2/3"])
def test_a_time_that_is_no_number_is_named_and_not_half_read(read: Any, time: str) -> None:
    result = read([primus(1, time), primus(2, time)])
    assert (result["logged_lines"], result["step_time_ms"]) == (2, None)
    assert "not measured: 2 times or rates on the lines that are not numbers" in result["reason"]


def test_libai_metrics_json_is_read_object_by_object(read: Any) -> None:
    objects = [{"iteration": step, "time": 0.5, "total_loss": 9.0 - step} for step in (2, 3, 4)]
    text = "".join(json.dumps(item) + "\n" for item in objects) + '{"iteration": 5, "total_lo'
    result = read(text.encode())
    assert (result["system"], result["logged_lines"]) == ("libai", 3)
    assert (result["first_iteration"], result["last_iteration"]) == (3, 5)
    assert (result["step_time_ms"], result["last_loss"]) == (500, 5)
    assert result["samples_per_s"] is None
    assert read(text.encode(), global_batch_size=8)["samples_per_s"] == 16


def test_nvidia_smi_with_a_header_of_every_process(read: Any) -> None:
    rows = [
        text
        for rank in range(8)
        for text in (SMI_HEADER, *(smi(1000 + 10 * rank + dev) for dev in range(8)))
    ]
    torn = [smi(39999)[:-5], "0 MiB, " + smi(39998), smi(39997) + smi(39996)]
    assert read([libai(99, time=1.0), *rows, *torn])["memory_mib"] == 1077


def test_nvidia_smi_columns_follow_their_header(read: Any) -> None:
    header = "index, timestamp, utilization.gpu [%], utilization.memory [%], memory.total [MiB], memory.used [MiB], memory.free [MiB]"
    row = "0, 2020/11/12 13:48:11.412, 99 %, 52 %, 32480 MiB, 994 MiB, 31486 MiB"
    assert read([megatron(1), header, row])["memory_mib"] == 994
    assert read([megatron(1), row])["memory_mib"] is None


def test_npu_smi_counts_hbm(read: Any) -> None:
    table = [
        "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|",
        "| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |",
        "| 0     910B2C              | OK            | 86.8        35                0    / 0             |",
        "| 0                         | 0000:66:00.0  | 0           0    / 0          59356/ 65536         |",
        "| 0                         | 0000:19:00.0  | 0           0    / 0          59351/ 65536         |",
    ]
    result = read([megatron(1), *table])
    assert (result["memory_mib"], result["system"]) == (59356, result["system"])


def test_the_frameworks_peak_is_the_fullest_rank(read: Any) -> None:
    line = "[Rank {}] (after 1 iterations) memory (MB) | allocated: 882.5 | max allocated: {} | reserved: 14718.0 | max reserved: 14718.0"
    old = "after 10 iterations memory (MB) | allocated: 1.0 | max allocated: 13900.5 | reserved: 2.0 | max reserved: 3.0"
    found = read([megatron(1), line.format(1, 13808.25), line.format(0, 13000.0)])
    assert (found["memory_allocated_mib"], found["memory_reserved_mib"]) == (13808.25, 14718.0)
    assert (found["memory_used_mib"], found["memory_mib"]) == (None, 13808.25)
    found = read([v115(1), old])
    assert (found["memory_allocated_mib"], found["memory_reserved_mib"]) == (13900.5, 3.0)


def test_oneflow_step_lines_count_from_0(read: Any) -> None:
    lines = [
        f"step: {step}, loss: {11 - step / 100:.3f}, throughput: 142.735 1607418413.2"
        for step in (9, 19, 29)
    ]
    result = read(lines)
    assert (result["system"], result["first_iteration"], result["last_iteration"]) == (
        "oneflow_gpt",
        10,
        30,
    )
    assert result["samples_per_s"] == 142.735


def test_oneflow_table_in_both_spellings(read: Any) -> None:
    for first in ("step    ", "batches "):
        lines = [
            f"| {first} | micro_batches   | samples         | throughput | latency    | loss       |",
            "| -------- | --------------- | --------------- | ---------- | ---------- | ---------- |",
            "| 10       | 320             | 5120            | 35.88042   | 14.26962   | 11.23708   |",
            "| 20       | 640             | 10240           | 39.02016   | 13.12142   | 10.43741   |",
        ]
        result = read(lines)
        assert (result["logged_lines"], result["last_iteration"]) == (2, 20)
        assert result["last_loss"] == 10.43741
    record = (
        "step=10,micro_batches=320,samples=5120,throughput=35.88042,latency=14.26962,loss=11.23708,"
    )
    assert read([record])["step_time_ms"] == pytest.approx(14269.62)


def test_torch_gpt_by_campaign_and_by_command() -> None:
    path = DATA / "torch_gpt" / "cpu_2_processes.log"
    result = parse([path], None)
    measured = measure(readers_of("torch_gpt"), {0: [path.read_bytes()]})
    assert result["system"] == "torch_gpt"
    assert result["logged_lines"] == len(measured.intervals) > 0
    assert measured.padded_vocab_size


@pytest.mark.parametrize(
    ("words", "system"),
    [
        ("torch_npu 2.1.0", "ascend_gpt"),
        ("[2022-01-01 10:00:00,000] [INFO] [launch.py:1:main] deepspeed", "megatron_deepspeed"),
        (" iteration 1/ 2 | throughput per GPU (TFLOP/s/GPU): 100.0 |", "megatron_core"),
        ("nothing special", "megatron_lm"),
        ('  File "/opt/megatron/core/optimizer.py", line 5, in step', "megatron_core"),
    ],
)
def test_systems_that_share_a_format_are_told_apart_by_their_marks(
    read: Any, words: str, system: str
) -> None:
    assert read([words, megatron(1), megatron(2)])["system"] == system


def test_a_log_without_steps_is_of_megatron_core_by_its_paths(read: Any) -> None:
    line = '  File "/opt/Megatron-LM/megatron/core/parallel_state.py", line 5, in initialize'
    assert read([line])["system"] == "megatron_core"
    assert read([line, "[launch.py:1:main] deepspeed"])["system"] == "megatron_deepspeed"


USAGE = """\
usage: pretrain_gpt2.py [-h] [--num-layers NUM_LAYERS] [--deepspeed]
                        [--deepspeed_config DEEPSPEED_CONFIG] [--deepspeed-activation-checkpointing]
pretrain_gpt2.py: error: unrecognized arguments: --foo"""
# LiBai on OneFlow (its issue 340 has the same handler), with nothing of its own before it.
NCCL = """\
F20220802 12:39:32.804811 201821 eager_nccl_comm_manager.cpp:81] Check failed: ncclCommInitRank(..)
    @ 0x7fced2e9962a oneflow::EagerNcclCommMgr::GetCommForDevice()"""
TRAINER = """\
  File "/opt/conda/lib/python3.10/site-packages/transformers/trainer.py", line 2237, in train
  File "/opt/conda/lib/python3.10/site-packages/deepspeed/runtime/engine.py", line 30, in forward"""


@pytest.mark.parametrize(
    ("log", "system"),
    [
        (USAGE, "megatron_lm"),
        ("python pretrain_gpt2.py --num-layers 24", "megatron_lm"),
        ("./train_gpt2cu -i dev/data/fineweb10B/fineweb_train_*.bin", "command"),
        ("python train_gpt2.py --input_bin dev/data/x.bin", "command"),
        (NCCL, None),
        (f"[08/02 12:39:29 lb.data.datasets.gpt_dataset]: loaded\n{NCCL}", "libai"),
        ("python3 -m oneflow_gpt.training", "oneflow_gpt"),
        (TRAINER, "command"),
        ("[2022-01-01 10:00:00,000] [INFO] DeepSpeed info: version=0.8.0", "megatron_deepspeed"),
    ],
)
def test_a_word_within_another_names_no_system(log: str, system: str | None, read: Any) -> None:
    """An option's name in a usage text, another trainer's file, the framework below a trainer."""
    assert read([*log.split("\n")])["system"] == system


def test_the_first_steps_words_count_far_inside_a_log(read: Any) -> None:
    noise = ["NCCL INFO " + "x" * 90] * 3000
    assert read([*noise, megatron(1), *noise])["system"] == "megatron_lm"
    line = " [2026-07-16 12:00:01.123456]" + megatron(1)
    assert read([*noise, line, *noise])["system"] == "megatron_core"


def test_a_named_system_is_not_second_guessed(read: Any) -> None:
    assert read([megatron(1)], "ascend_gpt")["system"] == "ascend_gpt"
    assert read([megatron(1)], "libai")["logged_lines"] == 0


def test_nothing_has_no_numbers(read: Any) -> None:
    result = read(b"")
    assert (result["system"], result["status"], result["logged_lines"]) == (None, "no_step", 0)
    assert all(result[key] is None for key in ("step_time_ms", "skipped", "nan", "last_loss"))


def test_perplexity_is_of_the_last_evaluation_and_utilisation_the_busiest_reading() -> None:
    log = b"""\
 iteration       10/      20 | consumed samples:           80 | elapsed time per iteration (ms): 100.0 | learning rate: 1.000E-04 | global batch size:     8 | lm loss: 9.0E+00 | number of skipped iterations:   0 | number of nan iterations:   0 |
utilization.gpu [%], memory.used [MiB]
73 %, 5603 MiB
95 %, 5601 MiB
 validation loss at iteration 10 | lm loss value: 9.661073E+00 | lm loss PPL: 1.569461E+04 |
 validation loss at iteration 20 | lm loss value: 9.076966E+00 | lm loss PPL: 8.751377E+03 |
"""
    found = measure(readers_of("megatron_deepspeed"), {0: [log]})
    assert found.perplexity == 8751.377
    assert found.utilisation == Utilisation(95.0, "log")
    assert found.memory_used_mib == 5603.0


def test_a_recorded_run_of_megatron_core_on_four_gpus() -> None:
    """Tensor x pipeline parallel: the last rank logs, in torchrun's `[default3]:` lines."""
    text = (DATA / "megatron_core" / "h200_tp2_pp2.log").read_bytes()
    found = measure(readers_of("megatron_core"), {0: [text]})
    assert [step.iteration for step in found.intervals][-1] == 50
    assert found.intervals[0].loss == pytest.approx(11.02767)
    assert found.padded_vocab_size == 50432  # 50257 to a multiple of 128 x 2 tensor parallel


@pytest.mark.parametrize("prefix", ["", " ", "localhost:  ", "[default0]: "])
@pytest.mark.parametrize("system", ["megatron_deepspeed", "megatron_lm", "ascend_gpt"])
def test_every_megatron_tells_its_padded_vocabulary(prefix: str, system: str) -> None:
    line = f"{prefix}> padded vocab (size: 50257) with 431 dummy tokens (new size: 50688)\n"
    found = measure(readers_of(system), {0: [line.encode()]})
    assert found.padded_vocab_size == 50688
    assert measure(readers_of(system), {0: [line[:-3].encode()]}).padded_vocab_size is None
