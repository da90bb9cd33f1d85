"""torch_gpt's command line, checks and estimates, as the runner sees them."""

import importlib
import sys
from types import ModuleType
from typing import Any

import pytest

from runner.base.errors import UserError
from runner.base.paths import PROJECT
from runner.systems import torch_gpt
from runner.systems.common.expert_models import MODELS
from runner.terms.cell import Parameter
from runner.terms.record import MIXED_FP8
from tests.runner.builders import slurm_cluster, small_cluster, small_matrix, small_run

AFTER_THE_SCRIPT = """\
--device cpu --data-path /opt/tb/datasets/default/default_text_document
--model gpt2-tiny --num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 128
--micro-batch-size 4 --global-batch-size 16 --tensor-parallel 1 --context-parallel 1
--pipeline-parallel 1 --engine torch --zero-stage 0 --precision fp32
--activation-checkpointing none --compile auto --attention-backend auto --adamw auto
--gc-interval 100 --train-iters 50 --log-interval 1 --lr 0.001 --lr-warmup-iters 0
--weight-decay 0.1 --clip-grad 1.0 --split 900,50,50 --eval-iters 0
--seed 1234"""


def after_the_script(defaults: dict[str, Any], device: str = "cpu") -> list[str]:
    argv = list(small_run(defaults, small_cluster(devices=8, device=device)).nodes[0].argv)
    return argv[14:]


def trainers_arguments() -> ModuleType:
    """The trainer's own argument parser, from the file that nodes run (it needs no torch)."""
    folder = str(PROJECT / "roles" / "torch_gpt" / "files" / "torch_gpt")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module("arguments")


def test_the_whole_command_line_of_the_defaults() -> None:
    assert " ".join(after_the_script({})) == AFTER_THE_SCRIPT.replace("\n", " ")


@pytest.mark.parametrize(
    ("defaults", "flags"),
    [
        ({"zero_stage": 3}, ["--zero-stage", "3"]),
        ({"lr": 3e-4}, ["--lr", "0.0003"]),
        ({"lr": 1e-8}, ["--lr", "1e-08"]),
        ({"dataset": "wiki"}, ["--data-path", "/opt/tb/datasets/wiki/wiki_text_document"]),
        ({"model": "gpt-1.3b"}, ["--model", "gpt-1.3b", "--num-layers", "24"]),
        ({"model": "gpt-1.3b", "num_layers": 2}, ["--num-layers", "2", "--hidden-size", "2048"]),
        ({"activation_checkpointing": "full"}, ["--activation-checkpointing", "full"]),
        ({"model": "llama3-8b"}, ["--num-query-groups", "8", "--ffn-hidden-size", "14336"]),
        ({"cuda_graphs": True}, ["--cuda-graphs", "--adamw"]),
        ({"compile": "none"}, ["--compile", "none"]),
        ({"split": "98,1,1"}, ["--split", "98,1,1"]),
    ],
)
def test_a_parameter_becomes_a_flag(defaults: dict[str, Any], flags: list[str]) -> None:
    line = after_the_script(defaults)
    at = line.index(flags[0])
    assert line[at : at + len(flags)] == flags


@pytest.mark.parametrize("name", MODELS)
def test_the_trainer_has_the_models_that_the_runner_counts_by(name: str) -> None:
    """Its list stands in a file of its own, which nodes run without the runner."""
    theirs, ours = trainers_arguments().MODELS[name], torch_gpt.shape({"model": name})
    assert (theirs.num_layers, theirs.hidden_size) == (ours.num_layers, ours.hidden_size)
    assert theirs.num_attention_heads == ours.num_attention_heads
    assert theirs.num_query_groups == (ours.num_query_groups or ours.num_attention_heads)
    assert theirs.ffn_hidden_size == (ours.ffn_hidden_size or 4 * ours.hidden_size)
    assert theirs.seq_length == ours.seq_length
    assert theirs.vocab_size in (None, ours.vocab_size)
    assert theirs.llama == ours.gated
    assert theirs.kv_channels == ours.kv_channels
    assert theirs.num_experts == ours.num_experts
    if ours.num_experts:
        assert theirs.moe_router_topk == ours.moe_router_topk
        width = theirs.moe_ffn_hidden_size or theirs.ffn_hidden_size
        assert width == ours.moe_ffn_hidden_size
    assert trainers_arguments().MODELS.keys() == MODELS.keys()


def test_cuda_is_told_to_the_trainer() -> None:
    assert after_the_script({}, "cuda")[:2] == ["--device", "cuda"]


def test_every_parameter_reaches_the_command_line() -> None:
    given = {"cuda_graphs": True, "async_tensor_parallel": True, "mixed_precision": "autocast"}
    given |= {"cross_entropy_chunks": 4, "vocab_size": 4096, "model": "moe-debug"}
    given |= {"moe_router_score_function": "sigmoid"}
    given |= {"gradient_reduction": "last_pass", "zero_stage": 2}
    given |= {"grad_reduce_in_bf16": True}
    given |= {"checkpoint_interval": 5, "checkpoint_async": True, "checkpoint_keep": 3}
    line = after_the_script(given)
    flags = {item.name.replace("_", "-") for item in torch_gpt.PARAMETERS} - {"launcher"}
    assert {f"--{flag}" for flag in flags} <= set(line)


@pytest.mark.parametrize("name", MODELS)
def test_named_sizes_can_be_checked_and_estimated(name: str) -> None:
    cell = small_matrix(defaults={"model": name}).cells[0]
    torch_gpt.check(cell, small_cluster(device="cuda"))
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


@pytest.mark.parametrize("item", torch_gpt.PARAMETERS, ids=lambda item: item.name)
def test_each_parameter_is_the_trainers_option(item: Parameter) -> None:
    options = {action.dest: action for action in trainers_arguments().parser()._actions}
    if item.name == "launcher":  # what starts the trainer
        return
    theirs = options[item.name]
    assert theirs.help
    assert tuple(theirs.choices or ()) == item.choices
    assert (theirs.nargs == 0) is (item.kind is bool)
    if item.name in ("compile", "attention_backend", "adamw", "gc_interval", "precision"):
        assert theirs.default == item.default


DEEPSPEED = {"engine": "deepspeed", "pin": "deepspeed-0.19"}
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
    with pytest.raises(UserError, match=r"which nodes of Slurm refuse; take launcher torch\."):
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
        ({"pipeline_parallel": 2, "zero_stage": 3}, "goes with zero_stage 0 alone"),
        ({"pipeline_parallel": 2, "eval_iters": 1}, "has no validation; set eval_iters: 0"),
        ({"gradient_reduction": "last_pass", "zero_stage": 1}, "needs zero_stage 2 or 3"),
        ({"grad_reduce_in_bf16": True, "zero_stage": 1}, "needs zero_stage 2 or 3"),
        ({"pipeline_parallel": 2, "num_layers": 3}, "does not divide num_layers 3"),
        ({"pipeline_parallel": 2, "compile": "model"}, "goes with compile block or none"),
        ({"num_query_groups": 2}, "leave num_query_groups out, or take a Llama"),
        ({"model": "llama3-8b", "num_query_groups": 5}, "5 does not divide num_attention_heads 32"),
        ({"model": "llama3-debug", "hidden_size": 240}, "which RoPE cannot turn by pairs"),
        ({"tensor_parallel": 2, "ffn_hidden_size": 511}, "does not divide ffn_hidden_size 511"),
        ({"tensor_parallel": 2, "cross_entropy_chunks": 0}, "all logits on one device"),
        ({"mixed_precision": "autocast"}, "precision fp32 has no mixed precision"),
        ({"precision": "fp16", "mixed_precision": "master_weights"}, "mixed_precision autocast al"),
        ({"precision": "fp8", "mixed_precision": "autocast"}, "mixed_precision master_weights al"),
        ({"precision": "fp8", "compile": "none"}, "without compile is slower than bf16"),
        ({"compile": "model", "zero_stage": 3}, "compile model goes with zero_stage 0 and 1"),
        ({"async_tensor_parallel": True}, "async_tensor_parallel needs tensor_parallel of 2"),
        (
            {"async_tensor_parallel": True, "tensor_parallel": 2, "compile": "none"},
            "async_tensor_parallel needs compile; leave it out",
        ),
        ({"cuda_graphs": True, "tensor_parallel": 2, "zero_stage": 2}, "needs zero_stage 0; leave"),
        ({"cuda_graphs": True, "pipeline_parallel": 2}, "needs pipeline_parallel 1; leave it out"),
        ({"context_parallel": 2, "seq_length": 126}, "126 is not a multiple of 2 x context_parall"),
        ({"context_parallel": 2, "cuda_graphs": True}, "cuda_graphs does not go with context_para"),
        ({"context_parallel": 2, "attention_backend": "efficient"}, "go with context_parallel 2"),
        ({"context_parallel": 2, "model": "gpt-oss-20b", "precision": "bf16"}, "has windows, does"),
        ({**DEEPSPEED, "context_parallel": 2}, "engine deepspeed does not go with context_parall"),
        (
            {**DEEPSPEED, "precision": "bf16", "mixed_precision": "master_weights"},
            "not support mixed_precision here; leave it",
        ),
        ({**DEEPSPEED, "compile": "block"}, "engine deepspeed does not support compile"),
        ({**DEEPSPEED, "precision": "fp8"}, "engine deepspeed does not support precision"),
    ],
)
def test_what_does_not_go_together_is_refused(defaults: dict[str, Any], words: str) -> None:
    """By the runner before anything starts, and by the trainer, too."""
    cell = small_matrix(defaults={"devices_per_node": 2, **defaults}).cells[0]
    with pytest.raises(UserError, match=words):
        torch_gpt.check(cell, small_cluster(devices=2, device="cuda"))
    if cell.pin == "torch-2.13" and "deepspeed" in defaults.values():
        return  # the trainer knows nothing of pin sets
    module = trainers_arguments()
    with pytest.raises(module.TrainerError):
        module.parse(after_the_script({"devices_per_node": 2, **defaults}, "cuda"))


@pytest.mark.parametrize(
    ("defaults", "words"),
    [
        ({"pipeline_parallel": 2, "global_batch_size": 4}, "make it 24 or more"),
        ({"cuda_graphs": True}, "cuda_graphs needs data_parallel 1; lea"),
        ({"precision": "fp8", "hidden_size": 136, "num_attention_heads": 4}, "hidden_size is 136"),
        ({"precision": "fp8", "seq_length": 30, "micro_batch_size": 1}, "x seq_length is 30"),
        (
            {"precision": "fp8", "ffn_hidden_size": 48, "tensor_parallel": 2},
            "ffn_hidden_size / tensor_parallel is 24",
        ),
        ({"tensor_parallel": 3, "vocab_size": 4096, "seq_length": 96}, "multiple of 128, 4096"),
        (
            {"tensor_parallel": 3, "context_parallel": 2, "micro_batch_size": 1, "seq_length": 32},
            "does not divide micro_batch_size x seq_length / context_parallel 16; change one",
        ),
        (
            {"precision": "fp8", "context_parallel": 2, "seq_length": 16, "micro_batch_size": 1},
            "x seq_length / context_parallel is 8",
        ),
        (
            {"tensor_parallel": 3, "micro_batch_size": 1, "seq_length": 32},
            "x seq_length 32; change",
        ),
    ],
)
def test_what_the_trainer_would_find_out_later_is_refused(
    defaults: dict[str, Any], words: str
) -> None:
    sizes = {"devices_per_node": 6, "ffn_hidden_size": 768, "global_batch_size": 24}
    cell = small_matrix(defaults={**sizes, **defaults})
    with pytest.raises(UserError, match=words):
        torch_gpt.check(cell.cells[0], small_cluster(devices=6, device="cuda"))


@pytest.mark.parametrize(
    ("defaults", "words"),
    [
        ({"precision": "fp16"}, "precision fp16 needs a GPU"),
        ({"precision": "fp8"}, "precision fp8 needs GPUs; use bf16 on a CPU"),
        ({"context_parallel": 0}, "context_parallel is 0; it must be a whole number of at least 1"),
        ({"attention_backend": "cudnn"}, "attention_backend cudnn needs a GPU; use auto, flash or"),
        ({"cuda_graphs": True}, "cuda_graphs needs GPUs; leave it out"),
        ({"async_tensor_parallel": True, "compile": "none"}, "needs GPUs and compile and tensor_"),
    ],
)
def test_what_a_cpu_does_not_do_is_refused(defaults: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        torch_gpt.check(small_matrix(defaults=defaults).cells[0], small_cluster())


@pytest.mark.parametrize(
    "defaults",
    [
        {"tensor_parallel": 2, "zero_stage": 1},
        {"context_parallel": 2, "seq_length": 131072, "model": "llama3-8b", "zero_stage": 3},
        {"context_parallel": 2, "precision": "bf16", "attention_backend": "flash"},
        {"precision": "fp8", "model": "llama3-8b", "tensor_parallel": 2, "zero_stage": 2},
        {"cuda_graphs": True, "tensor_parallel": 2, "precision": "bf16"},
        {"async_tensor_parallel": True, "tensor_parallel": 2, "compile": "auto"},
        {"compile": "model", "zero_stage": 1, "attention_backend": "cudnn"},
        {**DEEPSPEED, "precision": "bf16", "activation_checkpointing": "selective"},
        {"model": "llama3-70b", "zero_stage": 3, "activation_checkpointing": "selective"},
    ],
)
def test_what_goes_together_is_taken_by_both(defaults: dict[str, Any]) -> None:
    given = {"devices_per_node": 2, **defaults}
    torch_gpt.check(small_matrix(defaults=given).cells[0], small_cluster(devices=2, device="cuda"))
    trainers_arguments().parse(after_the_script(given, "cuda"))


def test_a_context_group_needs_less_memory_and_shares_out_the_states() -> None:
    def memory(**settings: int) -> float:
        given = {"model": "llama3-8b", "precision": "bf16", "devices_per_node": 8, "zero_stage": 3}
        given |= {"seq_length": 131072, "micro_batch_size": 1, "global_batch_size": 8, **settings}
        cell = small_matrix(defaults=given).cells[0]
        return torch_gpt.estimate(cell, small_cluster(devices=8, device="cuda")).memory_mib

    none, two, eight = (memory(context_parallel=size) for size in (1, 2, 8))
    assert eight < two < none
    states = memory(seq_length=16)
    assert memory(seq_length=16, context_parallel=8) == pytest.approx(states, rel=0.01)


def test_activation_checkpointing_was_true_or_false() -> None:
    with pytest.raises(UserError) as refusal:
        small_matrix(defaults={"activation_checkpointing": True})
    assert str(refusal.value).endswith(
        "activation_checkpointing is true; it must be one of none, selective, full, so write full"
    )
    for older, today in ((True, "full"), (False, "none")):
        read = torch_gpt.SYSTEM.recorded({"activation_checkpointing": older}, "cell a")
        assert read["activation_checkpointing"] == today


def test_cells_recorded_before_there_was_a_choice_did_not_compile() -> None:
    older = torch_gpt.SYSTEM.recorded({"model": "gpt2-medium", "precision": "bf16"}, "cell a")
    assert (older["compile"], older["gc_interval"], older["cross_entropy_chunks"]) == ("none", 0, 0)
    today = torch_gpt.SYSTEM.recorded({**older, "cross_entropy_chunks": None}, "cell a")
    assert today["cross_entropy_chunks"] is None


def test_float8_has_no_peak_of_its_own() -> None:
    said = {name: torch_gpt.arithmetic({"precision": name}) for name in ("fp32", "bf16", "fp8")}
    assert said == {"fp32": "tf32", "bf16": "bf16", "fp8": MIXED_FP8}


@pytest.mark.parametrize("launched", [False, True], ids=["torchrun", "deepspeed"])
def test_compilers_cache_with_the_pin_set_whatever_starts_the_trainer(launched: bool) -> None:
    """So that a second run on a node is a warm one."""
    names = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
    pin = "deepspeed-0.19" if launched else "torch-2.13"
    for node in small_run(LAUNCHED if launched else {}, small_cluster(nodes=2, devices=2)).nodes:
        home = f"/opt/tb/systems/torch_gpt/{pin}/cache"
        assert [node.env[name] for name in names] == [f"{home}/inductor", f"{home}/triton"]
        passed_on = node.files.get(".deepspeed_env", "")
        assert all((f"{name}={home}/" in passed_on) is launched for name in names)


def test_fewer_activations_and_logits_need_less_memory() -> None:
    def memory(**settings: Any) -> float:
        defaults = {"model": "llama3-8b", "precision": "bf16", "micro_batch_size": 4, **settings}
        cell = small_matrix(defaults=defaults).cells[0]
        return torch_gpt.estimate(cell, small_cluster(device="cuda")).memory_mib

    full, selective, none = (
        memory(activation_checkpointing=mode) for mode in ("full", "selective", "none")
    )
    assert full < selective < none
    assert none < memory(cross_entropy_chunks=0) == memory(compile="none")
    assert memory(cross_entropy_chunks=8) < none


@pytest.mark.parametrize(
    ("settings", "used_mib"),
    [
        ({"zero_stage": 3, "activation_checkpointing": "full"}, 79766),
        ({"zero_stage": 3}, 117502),
        ({"tensor_parallel": 2}, 93286),
        ({"tensor_parallel": 2, "micro_batch_size": 2}, 111072),
        ({"zero_stage": 2, "global_batch_size": 32}, 126938),
        ({"zero_stage": 2, "global_batch_size": 32, "gradient_reduction": "last_pass"}, 143138),
    ],
)
def test_memory_is_about_what_two_h200_had_in_use(
    settings: dict[str, Any], used_mib: float
) -> None:
    """docs/results/llama-8b-on-two-h200.md, tune-on-h200.md, and runs of 2026-11-29."""
    llama = {"model": "llama3-8b", "precision": "bf16", "micro_batch_size": 1}
    cell = small_matrix(
        defaults={**llama, "global_batch_size": 2, "devices_per_node": 2, **settings}
    ).cells[0]
    estimate = torch_gpt.estimate(cell, small_cluster(devices=2, device="cuda")).memory_mib
    assert 0.8 * used_mib < estimate < 1.05 * used_mib


def test_tensor_and_pipeline_parallel_need_less_memory() -> None:
    def memory(**sizes: int) -> float:
        defaults = {"model": "gpt2-medium", "devices_per_node": 8, **sizes}
        cell = small_matrix(defaults=defaults).cells[0]
        return torch_gpt.estimate(cell, small_cluster(devices=8, device="cuda")).memory_mib

    assert memory(tensor_parallel=2, pipeline_parallel=2) < memory(tensor_parallel=2) < memory()
    assert memory(pipeline_parallel=2) < memory()
