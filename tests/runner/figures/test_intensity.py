"""FLOPs a byte of a training step, by hand, and when they are not known."""

from dataclasses import replace
from typing import Any

import pytest

from runner.figures.devices import DEVICES, memory_rate
from runner.figures.flops import Decoder
from runner.figures.intensity import flop_per_byte
from runner.figures.training_step import Step
from runner.terms.record import Record

GPT = Decoder(24, 1024, 16, 1024, 50257)


def cell(**more: Any) -> Record:
    fields: dict[str, Any] = {
        "nodes": 1,
        "devices_per_node": 8,
        "micro_batch_size": 8,
        "global_batch_size": 128,
        "model": GPT,
        "arithmetic": "bf16",
        "parallel": {"data_parallel": 8, "tensor_parallel": 1},
        "parameters": {"zero_stage": 0, "activation_checkpointing": "none"},
    }
    return replace(Record("c", "cell", "id", "torch_gpt", "ok", ""), **{**fields, **more})


def test_model_flops_of_an_iteration_over_the_bytes_of_its_passes_and_its_update() -> None:
    intensity, why = flop_per_byte(cell(), 50304)
    step = Step(GPT, 8, 1, 8)
    passes = sum(p.bytes for p in step.parts()) - sum(p.bytes for p in step.update())
    flops = GPT.flops(vocab_size=50304) * 16  # two passes of eight samples
    assert why == ""
    moved = 2 * passes + sum(p.bytes for p in step.update())
    assert intensity == pytest.approx(flops / moved)
    assert 300 < flops / moved < 700  # an H200's ridge is at 206: products limit it


def test_more_samples_a_pass_are_more_flops_a_byte() -> None:
    small, _ = flop_per_byte(cell(micro_batch_size=1, global_batch_size=8), 50304)
    large, _ = flop_per_byte(cell(micro_batch_size=64, global_batch_size=512), 50304)
    assert small is not None
    assert large is not None
    assert small < large / 2


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"model": None}, "kind of model"),
        ({"model": replace(GPT, moe_layers=2, num_experts=8)}, "kind of model"),
        ({"arithmetic": "tf32"}, "bf16 and fp16 alone"),
        ({"arithmetic": None}, "bf16 and fp16 alone"),
        ({"micro_batch_size": None}, "batch sizes"),
        ({"activation_checkpointing": True}, "computed again"),
        ({"parameters": {"activation_checkpointing": "selective"}}, "computed again"),
        ({"parallel": {"pipeline_parallel": 2}}, "with pipeline_parallel 2"),
    ],
)
def test_what_is_not_counted_says_why(more: dict[str, Any], why: str) -> None:
    value, reason = flop_per_byte(cell(**more), 50304)
    assert value is None
    assert why in reason


def test_a_devices_memory_by_its_name() -> None:
    rates = {
        "NVIDIA H200": 4800,
        "NVIDIA A100-SXM4-80GB": 2039,
        "NVIDIA A100 80GB PCIe": 1935,
        "A100-SXM4-40GB": 1555,
        "NVIDIA B200": None,
        "a toaster": None,
    }
    assert {name: memory_rate(name) for name in rates} == rates
    assert all(rate > 0 for device in DEVICES for rate in device.memory.values())
