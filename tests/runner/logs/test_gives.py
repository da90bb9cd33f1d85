"""What each kind's parser reads of recorded logs and of made lines: these figures, no others."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from runner.logs.decoding import whole_lines
from runner.logs.kinds import KINDS
from runner.logs.logged_step import LoggedStep
from runner.logs.measure import measure
from runner.logs.run_sizes import DEVICES, TOKENS_PER_SAMPLE, TRAIN_ITERS
from runner.terms.memory import MEMORY
from tests.runner.logs import made_lines as made

DATA = Path(__file__).resolve().parents[2] / "data"
RECORDED = [path for path in DATA.rglob("*") if path.suffix in (".log", ".txt", ".json", ".out")]
# Where no recorded log is at hand, or none shows all: what one line looks like.
MADE: dict[str, Iterable[str]] = {
    "megatron": [
        *made.MEGATRON_ARGUMENTS,
        made.megatron(1, seconds=1.5, rate=1.1, skipped=1),
        made.primus(2),
    ],
    "torch_gpt": ["torch_gpt step=1/5 skipped=1 memory_reserved_mib=1 memory_used_mib=1"],
    "libai": [made.libai(99, time=1.0, rate=2.0)],
    "libai_metrics": ['{"iteration": 2, "time": 0.5, "total_loss": 9.0}'],
    "deepspeed_pipe": [made.pipe(1)],
    "deepspeed_timer": [made.deepspeed(2, 4)],
    "deepspeed_step": [made.deepspeed(2).replace("skipped=0", "skipped=1")],
    "nemo": [f"{made.nemo(1)} | tokens_per_sec_per_gpu: 9512"],
    "nemo_bar": [made.nemo_bar(2).replace("]", ", tokens_per_sec_per_gpu=9512.0, grad_norm=2.10]")],
    "oneflow_steps": ["step: 19, loss: 9.912, throughput: 142.735 1607418413.2"],
    "oneflow_table": [
        "| 10      | 320             | 5120     | 35.88042   | 14.26962  | 11.23708 |"
    ],
    "nanochat": [
        "step 00001/00030 (3.33%) | loss: 6.9 | grad norm: 1.2345 | lrm: 0.05 | dt: 1.00ms |",
        "Peak memory usage: 12.00MiB",
    ],
    "nanochat_sft": [
        "Tokens / micro-batch / rank: 4 x 128 = 512",
        "Tokens / micro-batch: 1,024",
        "step 00001 (3.33%) | loss: 6.9 | lrm: 0.05 | dt: 1.00ms | tok/sec: 5,391 | mfu: 0.00 |",
    ],
    "llm_c": [
        "device memory usage: 40 MiB / 80 MiB",
        "peak memory consumption: 30 MiB",
        "skipping update due to loss z-score of 5.0",
        "step    1/74: train loss 4.1 norm 1.4 (44.57 ms, 91886 tok/s)",
    ],
    "llm_c_cpu": ["step 0: train loss 5.356185 (took 1452.121000 ms)"],
    "llm_c_iterations": ["iteration 1, loss: 4.3677, time: 44.570ms, tok/s: 1445.79, norm: 1.400"],
    "hf_trainer_after_bars": [
        "Total train batch size (w. parallel, distributed & accumulation) = 8",
        "  5%|5 | 5/100 [00:01<00:20, 4.00it/s]{'loss': 2.5, 'grad_norm': 1.5, 'epoch': 0.15}",
    ],
    "ms_swift": [
        "Total train batch size (w. parallel, distributed & accumulation) = 8",
        "{'loss': 2.5, 'grad_norm': 1.5, 'global_step/max_steps': '5/9', 'elapsed_time': '12s',"
        " 'memory(GiB)': 6.5, 'train_speed(s/it)': 2.4}",
        "{'loss': 2.5, 'grad_norm': 1.5, 'global_step/max_steps': '6/9', 'elapsed_time': '14s',"
        " 'memory(GiB)': 6.5, 'train_speed(s/it)': 2.4}",
    ],
    "llama_factory": [
        '{"current_steps": 10, "total_steps": 60, "loss": 1.52, "throughput": 1000, "total_tokens":'
        " 2000}"
    ],
    "oneflow_records": [
        "step=10,micro_batches=320,samples=5120,throughput=35.88,latency=14.27,loss=11.24,"
    ],
}

# Figures of a step, peaks of memory, and sizes of the run.
GIVES = {
    "megatron": (
        "step_time_ms samples_per_s global_batch loss grad_norm skipped device_tokens_per_s "
        "tflop_per_s energy_j tokens_per_sample devices memory_allocated_mib "
        "memory_reserved_mib memory_used_mib train_iters"
    ),
    "hf_trainer": "loss grad_norm global_batch train_iters step_time_ms",
    "hf_trainer_after_bars": "loss grad_norm global_batch train_iters step_time_ms",
    "hf_trainer_epochs": "loss grad_norm global_batch train_iters",
    "ms_swift": "loss grad_norm global_batch memory_reserved_mib train_iters step_time_ms",
    "libai": "loss train_iters step_time_ms samples_per_s",
    "libai_metrics": "step_time_ms loss",
    "llama_factory": "loss train_iters step_time_ms tokens_per_s",
    "llm_c": (
        "step_time_ms tokens_per_s loss grad_norm skipped memory_allocated_mib "
        "memory_used_mib tokens_per_sample devices train_iters"
    ),
    "llm_c_cpu": "step_time_ms loss",
    "llm_c_iterations": "step_time_ms tokens_per_s loss grad_norm",
    "llm_c_log": "loss grad_norm",
    "mlperf": "global_batch loss tokens_per_sample step_time_ms",
    "modded_nanogpt": "loss memory_allocated_mib memory_reserved_mib train_iters step_time_ms",
    "nanochat": (
        "step_time_ms tokens_per_s loss grad_norm memory_allocated_mib tokens_per_sample "
        "devices train_iters"
    ),
    "nanochat_sft": "step_time_ms tokens_per_s loss tokens_per_sample devices",
    "nanogpt": "step_time_ms loss tokens_per_sample train_iters tokens_per_s",
    "nanotron": (
        "step_time_ms tokens_per_s device_tokens_per_s global_batch loss grad_norm "
        "memory_reserved_mib tflop_per_s tokens_per_sample train_iters"
    ),
    "nemo": (
        "step_time_ms device_tokens_per_s global_batch loss grad_norm memory_allocated_mib "
        "memory_reserved_mib tflop_per_s train_iters"
    ),
    "nemo_bar": "step_time_ms device_tokens_per_s loss grad_norm train_iters",
    "oneflow_steps": "samples_per_s loss",
    "oneflow_table": "step_time_ms samples_per_s loss",
    "oneflow_records": "step_time_ms samples_per_s loss",
    "torch_gpt": (
        "step_time_ms samples_per_s loss grad_norm skipped train_iters memory_allocated_mib "
        "memory_reserved_mib memory_used_mib memory_rss_mib"
    ),
    "torchtitan": (
        "device_tokens_per_s global_batch loss grad_norm tflop_per_s memory_reserved_mib "
        "tokens_per_sample devices train_iters"
    ),
    "deepspeed_pipe": "step_time_ms samples_per_s loss",
    "deepspeed_timer": "samples_per_s memory_allocated_mib",
    "deepspeed_step": "skipped",
}


def figures(step: LoggedStep) -> Iterator[str]:
    """The fields that have something in them."""
    yield from (key for key in ("global_batch", "skipped") if getattr(step, key))
    timed = ("step_time_ms", "samples_per_s", "tokens_per_s", "device_tokens_per_s")
    for key in (*timed, "loss", "grad_norm", "tflop_per_s", "energy_j"):
        if getattr(step, key) is not None:
            yield key


def read(name: str, data: bytes) -> Iterator[str]:
    """What a log of its lines gives; nothing of a log of another kind."""
    parser = KINDS[name]()
    steps = []
    for text in whole_lines([data]):
        steps += parser.feed(text)
        parser.notes.settle(text, None)
    for step in steps:
        yield from figures(step)
    if steps:
        yield from parser.notes.peaks.keys() & MEMORY.keys()
        yield from parser.notes.facts.keys() & {TOKENS_PER_SAMPLE, DEVICES, TRAIN_ITERS}


@pytest.mark.parametrize("name", KINDS)
def test_what_a_kind_gives_is_what_its_parser_reads(name: str) -> None:
    kind, gives = KINDS[name], {*GIVES[name].split()}
    made_log = "".join(f"{line}\n" for line in MADE.get(name, ())).encode()
    logs = [*(path.read_bytes() for path in RECORDED), made_log]
    assert {key for log in logs for key in read(name, log)} == gives
    assert bool(kind.loss_kind) == ("loss" in gives)
    timed = {"step_time_ms", "samples_per_s", "tokens_per_s", "device_tokens_per_s"}
    assert bool(kind.holds) == bool(timed & gives)


def test_a_measurement_says_what_its_losses_are_the_mean_of() -> None:
    logs = {
        made.libai(99, time=1.0, rate=2.0): "running",
        "step    1/74: train loss 4.1 norm 1.4 (44.57 ms, 91886 tok/s)": "iteration",
        made.megatron(1, seconds=1.5): "window",
        "no step": "",
    }
    read = {line: measure(KINDS, {0: [f"{line}\n".encode()]}).loss_kind for line in logs}
    assert read == logs
