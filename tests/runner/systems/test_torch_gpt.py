"""torch_gpt's command line, checks and estimates, as the runner sees them."""

import importlib.util
import sys
from types import ModuleType
from typing import Any

import pytest

from runner.base.errors import UserError
from runner.base.paths import PROJECT
from runner.systems import torch_gpt
from tests.runner.builders import slurm_cluster, small_cluster, small_matrix, small_run

AFTER_THE_SCRIPT = """\
--device cpu --data-path /opt/tb/datasets/default/default_text_document
--num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 128
--micro-batch-size 4 --global-batch-size 16 --tensor-parallel 1 --pipeline-parallel 1
--engine torch --zero-stage 0 --precision fp32 --train-iters 50 --log-interval 1 --lr 0.001
--lr-warmup-iters 0 --weight-decay 0.1 --clip-grad 1.0 --split 900,50,50 --eval-iters 0
--seed 1234"""


def after_the_script(defaults: dict[str, Any], device: str = "cpu") -> list[str]:
    argv = list(small_run(defaults, small_cluster(devices=8, device=device)).nodes[0].argv)
    return argv[14:]


def trainers_arguments() -> ModuleType:
    """The trainer's own argument parser, from the file that nodes run (it needs no torch)."""
    path = PROJECT / "roles" / "torch_gpt" / "files" / "torch_gpt" / "arguments.py"
    spec = importlib.util.spec_from_file_location("torch_gpt_arguments", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_whole_command_line_of_the_defaults() -> None:
    assert " ".join(after_the_script({})) == AFTER_THE_SCRIPT.replace("\n", " ")


@pytest.mark.parametrize(
    ("defaults", "flags"),
    [
        ({"zero_stage": 3}, ["--zero-stage", "3"]),
        ({"lr": 3e-4}, ["--lr", "0.0003"]),
        ({"lr": 1e-8}, ["--lr", "1e-08"]),
        ({"dataset": "wiki"}, ["--data-path", "/opt/tb/datasets/wiki/wiki_text_document"]),
        ({"model": "gpt-1.3b"}, ["--num-layers", "24", "--hidden-size", "2048"]),
        ({"model": "gpt-1.3b", "num_layers": 2}, ["--num-layers", "2", "--hidden-size", "2048"]),
        ({"activation_checkpointing": True}, ["--activation-checkpointing", "full"]),
        ({"split": "98,1,1"}, ["--split", "98,1,1"]),
    ],
)
def test_a_parameter_becomes_a_flag(defaults: dict[str, Any], flags: list[str]) -> None:
    line = after_the_script(defaults)
    at = line.index(flags[0])
    assert line[at : at + len(flags)] == flags


def test_the_model_is_given_by_its_numbers_alone() -> None:
    assert "--model" not in after_the_script({"model": "gpt2-small"})


def test_cuda_is_told_to_the_trainer() -> None:
    assert after_the_script({}, "cuda")[:2] == ["--device", "cuda"]


def test_every_parameter_reaches_the_command_line() -> None:
    line = after_the_script({"activation_checkpointing": True, "vocab_size": 4096})
    flags = {item.name.replace("_", "-") for item in torch_gpt.PARAMETERS}
    flags -= {"model", "launcher"}
    assert {f"--{flag}" for flag in flags} <= set(line)


@pytest.mark.parametrize("name", torch_gpt.MODELS)
def test_named_sizes_have_heads_that_divide_the_width_and_can_be_estimated(name: str) -> None:
    _, hidden, heads, _ = torch_gpt.MODELS[name]
    assert hidden % heads == 0
    cell = small_matrix(defaults={"model": name}).cells[0]
    expected = torch_gpt.estimate(cell, small_cluster(device="cuda"))
    assert expected.memory_mib > 0
    assert expected.time_s > 0


def test_zero_needs_less_memory_the_higher_its_stage() -> None:
    def memory(stage: int) -> float:
        defaults = {"model": "gpt2-medium", "zero_stage": stage, "devices_per_node": 8}
        cell = small_matrix(defaults=defaults).cells[0]
        return torch_gpt.estimate(cell, small_cluster(devices=8, device="cuda")).memory_mib

    sizes = [memory(stage) for stage in range(4)]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 4


def test_the_trainer_takes_the_command_line_that_the_runner_writes() -> None:
    module = trainers_arguments()
    line = after_the_script({"activation_checkpointing": True, "nodes": 2, "lr": 3e-4})
    options = module.parser().parse_args(line)
    assert (options.lr, options.activation_checkpointing, options.zero_stage) == (3e-4, "full", 0)


LAUNCHED = {"nodes": 2, "launcher": "deepspeed", "engine": "deepspeed", "pin": "deepspeed-0.19"}


def test_the_deepspeed_launcher_starts_both_nodes_from_the_first() -> None:
    first, second = small_run(LAUNCHED, small_cluster(nodes=2, devices=2)).nodes
    home = "/opt/tb/systems/torch_gpt/deepspeed-0.19"
    at = first.argv.index("--no_local_rank")
    assert first.argv[0] == f"{home}/env/bin/deepspeed"
    assert first.argv[at + 1 : at + 3] == (f"{home}/src/train.py", "--device")
    assert "--hostfile" in first.argv[:at]
    assert second.argv == ()
    assert first.cwd == first.dir
    for node in (first, second):
        assert "/usr/bin/pdsh" in node.requires
        assert node.files["hostfile"].count(" slots=1\n") == 2
        assert "DS_ACCELERATOR=cpu\n" in node.files[".deepspeed_env"]


def test_on_slurm_the_deepspeed_launcher_has_the_jobs_devices_on_one_node() -> None:
    cluster = slurm_cluster(devices=2, device="cuda", gpus_per_node="2")
    here = {**LAUNCHED, "nodes": 1, "devices_per_node": 2}
    (node,) = small_run(here, cluster).nodes
    assert node.env["CUDA_VISIBLE_DEVICES"] == "0,1"  # the supervisor puts the job's there
    options = node.argv[1 : node.argv.index("--no_local_rank")]
    assert options[:2] == ("--master_port", "{master_port}")
    assert not {"--num_gpus", "--num_nodes", "--include"}.intersection(options)
    cell = small_matrix(defaults=LAUNCHED).cells[0]
    with pytest.raises(UserError, match=r"which Slurm's nodes refuse; take launcher torch\."):
        torch_gpt.check(cell, cluster)


def test_torchrun_starts_the_deepspeed_engine_too() -> None:
    defaults = {"engine": "deepspeed", "pin": "deepspeed-0.19", "zero_stage": 2}
    node = small_run(defaults, small_cluster(devices=2)).nodes[0]
    assert node.argv[2] == "torch.distributed.run"
    assert node.env["DS_ACCELERATOR"] == "cpu"
    assert node.argv[node.argv.index("--engine") + 1] == "deepspeed"


@pytest.mark.parametrize(
    ("defaults", "words"),
    [
        ({"engine": "deepspeed"}, "not in pin torch-2.13; set pin: deepspeed-0.19"),
        ({"launcher": "deepspeed"}, "launcher deepspeed is not in pin torch-2.13"),
        ({"engine": "deepspeed", "tensor_parallel": 2}, "data parallel only"),
        ({"tensor_parallel": 2, "zero_stage": 1}, "tensor_parallel goes with zero_stage 0, 2"),
        ({"pipeline_parallel": 2, "zero_stage": 3}, "goes with zero_stage 0 alone"),
        ({"pipeline_parallel": 2, "eval_iters": 1}, "has no validation; set eval_iters: 0"),
        ({"pipeline_parallel": 2, "num_layers": 3}, "does not divide num_layers 3"),
        ({"pipeline_parallel": 2, "global_batch_size": 4}, "make it 8 or more"),
    ],
)
def test_what_does_not_go_together_is_refused(defaults: dict[str, Any], words: str) -> None:
    cell = small_matrix(defaults={"devices_per_node": 2, **defaults}).cells[0]
    with pytest.raises(UserError, match=words):
        torch_gpt.check(cell, small_cluster(devices=2))


def test_tensor_and_pipeline_parallel_need_less_memory() -> None:
    def memory(**sizes: int) -> float:
        defaults = {"model": "gpt2-medium", "devices_per_node": 8, **sizes}
        cell = small_matrix(defaults=defaults).cells[0]
        return torch_gpt.estimate(cell, small_cluster(devices=8, device="cuda")).memory_mib

    assert memory(tensor_parallel=2, pipeline_parallel=2) < memory(tensor_parallel=2) < memory()
    assert memory(pipeline_parallel=2) < memory()
