"""Every option that we pass is one that the pinned trainer knows, read from its own source."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.systems.common.pins import pins
from runner.systems.megatron_lm import FOLDER
from tests.runner.builders import small_cluster, small_run
from tests.upstream.mirrors import show, unpacked

# DeepSpeed adds these to a trainer's parser (deepspeed/__init__.py, add_config_arguments).
DEEPSPEED = {"--deepspeed", "--deepspeed_config"}
SAMPLES = {
    **{"train_samples": 10000, "rampup_batch_size": "8 8 1000", "exit_interval": 10},
    **{"train_iters": 10, "lr_decay_samples": 12, "lr_warmup_samples": 5},
}
EVERYTHING: dict[str, Any] = {
    **{"min_lr": 0, "optimizer": "adam", "adam_beta1": 0.9, "adam_beta2": 0.95, "adam_eps": 1e-8},
    **{"weight_decay": 0.1, "activation_checkpointing": True, "partition_activations": True},
    **{"ddp_impl": "local", "distributed_backend": "nccl", "checkpoint": "documented"},
    **{"tensorboard": True, "kill_switch": True, "masked_softmax_fusion": False, "seed": 1},
    **{"devices_per_node": 8, "micro_batch_size": 1, "global_batch_size": 16},
}
LM_ZERO: dict[str, Any] = {
    **{"deepspeed": "on", "devices_per_node": 8, "zero_stage": 1, "checkpoint": "documented"},
    **{"seed": 1},
}
LM = {
    **{**LM_ZERO, "pipeline_parallel": 2, "gradient_accumulation": 2, "tensorboard": True},
    **{"checkpoint_num_layers": 1, "partition_activations": True, "checkpoint_in_cpu": True},
    **{"synchronize_each_layer": True, "contiguous_checkpointing": True, "profile_backward": True},
}
CORE: dict[str, Any] = {
    **{"devices_per_node": 8, "tensor_parallel": 2, "pipeline_parallel": 2, "tensorboard": True},
    **{"sequence_parallel": True, "activation_checkpointing": True, "distributed_optimizer": True},
    **{"overlap_grad_reduce": True, "overlap_param_gather": True},
    **{"transformer_impl": "transformer_engine"},  # sequence_parallel asks for its layer norms
}
LLAMA: dict[str, Any] = {
    **{"devices_per_node": 8, "model": "llama3-8b", "mock_data": True, "tensor_parallel": 2},
    **{"cross_entropy_loss_fusion": True, "distributed_optimizer": True},
}
EXPERTS: dict[str, Any] = {
    **{"devices_per_node": 8, "model": "qwen3-30b-a3b", "mock_data": True, "expert_parallel": 8},
    **{"moe_shared_expert_intermediate_size": 768, "moe_expert_capacity_factor": 1.5},
    **{"routing": "balanced", "distributed_optimizer": True},
}
SIGMOID: dict[str, Any] = {
    **{"devices_per_node": 8, "model": "mixtral-8x7b", "mock_data": True, "tensor_parallel": 2},
    **{"moe_router_score_function": "sigmoid", "moe_router_bias_update_rate": 0.001},
    **{"transformer_impl": "transformer_engine", "expert_tensor_parallel": 1},
    **{"expert_parallel": 4, "sequence_parallel": True, "moe_router_load_balancing_type": "none"},
}
FORK: dict[str, Any] = {
    **{"precision": "bf16", "model": "llama3-8b", "attention_backend": "sdpa"},
}
CASES = [
    ("megatron_deepspeed", "oneflow2022", {**EVERYTHING, "embed_layernorm": True}),
    ("megatron_deepspeed", "e52bdabb", {**EVERYTHING, **SAMPLES, "embed_layernorm": True}),
    ("megatron_deepspeed", "current", {**EVERYTHING, "zero_stage": 3}),
    ("megatron_deepspeed", "current-without-apex", {**EVERYTHING, **SAMPLES, **FORK}),
    ("megatron_lm", "v1.1.5", LM),
    ("megatron_lm", "a79272cc", {**LM_ZERO, "launcher": "deepspeed"}),
    ("megatron_core", "core_v0.13.0", CORE),
    ("megatron_core", "core_v0.13.0", {"devices_per_node": 8, "mock_data": True}),
    ("megatron_core", "core_v0.13.0", LLAMA),
    ("megatron_core", "core_v0.13.0", {**LLAMA, "profile": "torch"}),
    ("megatron_core", "core_v0.13.0", EXPERTS),
    ("megatron_core", "core_v0.13.0", SIGMOID),
    (
        "ascend_gpt",
        "b4d4a0e",
        {"devices_per_node": 8, "tensorboard": True, "checkpoint": "documented"},
    ),
    ("oneflow_gpt", "osdi", {"devices_per_node": 8, "activation_checkpointing": True}),
]
# (system, pin) or the system alone: the script, and the file that says which options there are
WHERE = {
    "megatron_deepspeed": ("pretrain_gpt.py", "megatron/arguments.py"),
    "megatron_lm": ("pretrain_gpt2.py", f"{FOLDER}/megatron/arguments.py"),
    "megatron_lm/a79272cc": ("pretrain_gpt2.py", "Megatron-LM/arguments.py"),
    "ascend_gpt": ("pretrain_gpt.py", "megatron/arguments.py"),
    "megatron_core": ("pretrain_gpt.py", "megatron/training/arguments.py"),
    "oneflow_gpt": ("train.py", "LanguageModeling/gpt-2/src/config.py"),
}


def trainers_argv(system: str, pin: str, values: dict[str, Any], script: str) -> tuple[str, ...]:
    """What stands behind the script's name on our command line."""
    cell = {"system": system, "pin": pin, **values}
    argv = small_run(cell, small_cluster(1, 8, device="cuda")).nodes[0].argv
    at = next(index for index, word in enumerate(argv) if word.endswith(f"/{script}"))
    return argv[at + 1 :]


@pytest.mark.parametrize(("system", "pin", "values"), CASES, ids=[f"{s}/{p}" for s, p, _ in CASES])
def test_the_trainer_knows_every_option(system: str, pin: str, values: dict[str, Any]) -> None:
    source = pins(system)[pin]["source"]
    script, parser = WHERE.get(f"{system}/{pin}") or WHERE[system]
    text = show(source["repository"], source["commit"], parser)
    known = DEEPSPEED | set(re.findall(r"""["'](--?[A-Za-z][\w-]*)["']""", text))
    argv = trainers_argv(system, pin, values, script)
    passed = {word.split("=")[0] for word in argv if re.match(r"--?[A-Za-z]", word)}
    assert passed - known == set()
    assert len(passed) > 20


# Stood in for: kernels in Triton, which torch for a CPU comes without; a GPU's generation; and, on
# Python 3.11, a decorator of 3.12. What parses and validates is the trainer's own.
PARSE = """
import json, sys, typing
from unittest.mock import MagicMock
typing.override = getattr(typing, "override", lambda method: method)
sys.modules["megatron.core.transformer.moe.paged_stash"] = MagicMock()
from megatron.training import arguments
arguments.get_device_arch_version = lambda: 9
arguments.torch.cuda.get_device_capability = lambda: (9, 0)
answers = []
for argv in json.load(sys.stdin):
    sys.argv[1:] = argv
    args = arguments.parse_args()
    arguments.validate_args(args)
    names = ("tensor_model_parallel_size", "data_parallel_size", "mock_data", "tokenizer_type")
    answers.append([getattr(args, name) for name in names])
print("\\n" + json.dumps(answers))
"""


def test_core_v0_18_2_parses_and_validates_our_command_lines(tmp_path: Path) -> None:
    """It builds its parser from its configuration classes: no text of it says the options."""
    pytest.importorskip("torch", reason="`make setup` brings torch")
    unpacked("megatron_core", "core_v0.18.2", "megatron", tmp_path)
    cells: list[dict[str, Any]] = [
        CORE,
        {"devices_per_node": 8, "mock_data": True, "tensor_parallel": 2, "pipeline_parallel": 2},
        {"devices_per_node": 8, "selective_recompute": True, "precision": "fp16"},
        LLAMA,
        {**LLAMA, "profile": {"tool": "torch", "ranks": [0, 7]}},
        {**LLAMA, "profile": "nsys"},
        EXPERTS,
        SIGMOID,
    ]
    argvs = [trainers_argv("megatron_core", "core_v0.18.2", c, "pretrain_gpt.py") for c in cells]
    # From its folder, so that Megatron is found before any that is installed.
    environment = {**os.environ, "WORLD_SIZE": "8", "CUDA_DEVICE_MAX_CONNECTIONS": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", PARSE],
        cwd=tmp_path,
        env=environment,
        input=json.dumps(argvs),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert json.loads(ran.stdout.splitlines()[-1]) == [
        [2, 2, False, "GPT2BPETokenizer"],
        [2, 2, True, "NullTokenizer"],
        [1, 8, False, "GPT2BPETokenizer"],
        *[[2, 4, True, "NullTokenizer"]] * 3,
        [1, 8, True, "NullTokenizer"],
        [2, 4, True, "NullTokenizer"],
    ]
