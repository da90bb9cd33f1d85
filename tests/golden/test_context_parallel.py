"""Twenty-two mistakes with context_parallel through the whole command: one sentence each."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runner.__main__ import main
from tests.golden.places import inventory

GPT = {"system": "torch_gpt", "context_parallel": 2}
LLAMA = {**GPT, "model": "llama3-8b", "precision": "bf16"}
TITAN = {"system": "torchtitan", "flavor": "8B", "context_parallel": 2}
CORE = {
    **{"system": "megatron_core", "pin": "core_v0.18.2-te", "model": "llama3-8b"},
    **{"transformer_impl": "transformer_engine", "context_parallel": 2},
}
BAD: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "no number": ({**GPT, "context_parallel": "two"}, "context_parallel is 'two'"),
    "none": (
        {**GPT, "context_parallel": 0},
        "context_parallel is 0; it must be a whole number of at least 1",
    ),
    "misspelt": ({"system": "torch_gpt", "contex_parallel": 2}, "did you mean 'context_parallel'?"),
    "more than the devices": (
        {**GPT, "context_parallel": 16, "seq_length": 1024},
        "context_parallel 16 does not divide the 8 devices",
    ),
    "with others more than the devices": (
        {**LLAMA, "context_parallel": 4, "tensor_parallel": 4},
        "tensor_parallel 4 x context_parallel 4 does not divide the 8 devices",
    ),
    "samples that do not divide": (
        {**LLAMA, "seq_length": 8190},
        "seq_length 8190 is not a multiple of 2 x context_parallel 2; change one",
    ),
    "tokens that a tensor group cannot share": (
        {**LLAMA, "tensor_parallel": 4, "seq_length": 8196, "micro_batch_size": 1},
        "does not divide micro_batch_size x seq_length / context_parallel 4098; change one",
    ),
    "a batch that does not divide": (
        {**LLAMA, "global_batch_size": 6},
        "global_batch_size 6",
    ),
    "the other engine": (
        {**GPT, "engine": "deepspeed", "pin": "deepspeed-0.19"},
        "engine deepspeed does not go with context_parallel 2; leave one of them out",
    ),
    "CUDA graphs": ({**LLAMA, "cuda_graphs": True}, "cuda_graphs does not go with context_paral"),
    "another kernel": (
        {**LLAMA, "attention_backend": "efficient"},
        "attention_backend efficient does not go with context_parallel 2",
    ),
    "windows": (
        {**LLAMA, "model": "gpt-oss-20b"},
        "model gpt-oss-20b, which has windows, does not go with context_parallel 2",
    ),
    "float8 in odd sizes": (
        {**LLAMA, "precision": "fp8", "seq_length": 40, "micro_batch_size": 1},
        "micro_batch_size x seq_length / context_parallel is 20; change it",
    ),
    "torchtitan's samples": (
        {**TITAN, "seq_length": 2046},
        "seq_length 2046 is not a multiple of 4, 2 x tensor_parallel x context_parallel",
    ),
    "a model of torchtitan's that cannot": (
        {**TITAN, "model": "gpt_oss", "flavor": "20b"},
        "model gpt_oss cannot split samples; leave context_parallel out",
    ),
    "an exchange without it": (
        {**TITAN, "context_parallel": 1, "context_parallel_rotate_method": "alltoall"},
        "context_parallel_rotate_method alltoall needs context_parallel of at least 2",
    ),
    "an exchange that a release lacks": (
        {**TITAN, "pin": "0.3.0", "context_parallel_rotate_method": "alltoall"},
        "pin 0.3.0 has no context_parallel_rotate_method; use pin 0.2.2",
    ),
    "Megatron's local attention": (
        {**CORE, "pin": "core_v0.18.2", "transformer_impl": "local"},
        "context_parallel 2 needs Transformer Engine, whose attention alone has it; set",
    ),
    "Megatron's unfused attention": (
        {**CORE, "attention_backend": "unfused"},
        "context_parallel 2 needs fused attention; set attention_backend: auto, flash or fused",
    ),
    "Megatron's exchange without it": (
        {**CORE, "context_parallel": 1, "cp_comm_type": "p2p"},
        "cp_comm_type p2p needs context_parallel of at least 2; leave it out",
    ),
    "Megatron's heads": (
        {**CORE, "context_parallel": 8, "cp_comm_type": "a2a", "num_query_groups": 4},
        "tensor_parallel x context_parallel 8 does not divide num_query_groups 4",
    ),
    "a system without it": (
        {"system": "megatron_lm", "context_parallel": 2},
        "'context_parallel' is not a key of megatron_lm",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_one_sentence_and_exit_code_2(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cell, words = BAD[name]
    hosts = {"nodes": {"hosts": {"gpus": {"ansible_host": "10.0.0.1"}}}}
    place = inventory(
        tmp_path / "cluster", hosts, cluster_device="cuda", cluster_devices_per_node=8
    )
    matrix = tmp_path / "matrix.yaml"
    matrix.write_text(f"defaults: {json.dumps(cell)}\n")
    line = ["bench", "--matrix", str(matrix), "-i", str(place), "--dry-run"]
    assert main([*line, "--runs", str(tmp_path / "runs")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert words in said.err
    assert not (tmp_path / "runs").exists()
