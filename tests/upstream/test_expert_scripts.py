"""Mixtures of experts as Megatron core's and torchtitan's own examples start them, beside ours."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from runner.systems import megatron_core, torch_gpt
from runner.systems.common import gpt
from runner.systems.common.pins import pins
from runner.systems.common.torchtitan_models import decoder
from runner.systems.torch_gpt import SIZES
from tests.runner.builders import small_cluster, small_matrix, small_run
from tests.upstream.mirrors import show
from tests.upstream.scripts import differences, run
from tests.upstream.test_scripts import CORE, node, ours_of, theirs_of, variables
from tests.upstream.test_torchtitan import TITAN, flat

MEGATRON = ("NVIDIA/Megatron-LM", str(pins("megatron_core")["core_v0.13.0"]["source"]["commit"]))
MIXTRAL = "examples/mixtral/train_mixtral_8x7b_distributed.sh"
QWEN = "torchtitan/models/qwen3/train_configs/qwen3_moe_debug.toml"


def test_train_mixtral_8x7b_distributed(tmp_path: Path) -> None:
    """On 4 nodes: with one, as it stands, 4 stages x 8 experts' devices would not fit."""
    place = tmp_path / "work"
    place.mkdir()
    (place / "script.sh").write_text(show(*MEGATRON, MIXTRAL))
    where = {"SLURM_NNODES": "4", "MASTER_ADDR": "10.0.0.1"}
    theirs = run(place / "script.sh", ["ckpt", "tokenizer", "data"], place, **where)[-1]
    cell: dict[str, Any] = {
        **{"system": "megatron_core", "model": "mixtral-8x7b", "nodes": 4, "devices_per_node": 8},
        **{"pipeline_parallel": 4, "expert_parallel": 8, "distributed_optimizer": True},
        **{"overlap_grad_reduce": True, "overlap_param_gather": True},
        **{"transformer_impl": "transformer_engine", "attention_backend": "auto"},
        **{"micro_batch_size": 1, "global_batch_size": 256, "lr": 1e-4, "train_iters": 500000},
        **{"weight_decay": 0.1, "log_interval": 1, "eval_iters": 10, "split": "99990,8,2"},
        "tensorboard": True,
    }
    ours = node(cell, cluster=small_cluster(4, 8, device="cuda"))
    data = "/opt/tb/datasets/default"
    assert differences(theirs_of(theirs), ours_of(ours)) == {
        # what torchrun starts; the run's folder, its data and its vocabulary
        "-m": (None, "torch.distributed.run"),
        "--master_port": ("6000 pretrain_gpt.py", "PORT"),
        "--max_restarts": (None, "0"),
        "--tee": (None, "3"),
        "--log_dir": (None, f"RUN/ranks {CORE}"),
        "--data-path": ("data", f"{data}/default_text_document"),
        "--tokenizer-type": ("Llama2Tokenizer", "GPT2BPETokenizer"),
        "--tokenizer-model": ("tokenizer", None),
        "--vocab-file": (None, f"{data}/vocab.json"),
        "--merge-file": (None, f"{data}/merges.txt"),
        "--make-vocab-size-divisible-by": (None, "32000"),  # up to Mixtral's
        "--tensorboard-dir": ("ckpt/tensorboard", "RUN/tensorboard"),
        "--tensorboard-queue-size": (None, "5"),
        "--log-timers-to-tensorboard": (None, ""),
        "--log-validation-ppl-to-tensorboard": (None, ""),
        "--log-throughput": (None, ""),
        # the trainer's own defaults, said aloud by one of us
        "--attention-backend": (None, "auto"),
        "--transformer-impl": (None, "transformer_engine"),
        "--moe-ffn-hidden-size": (None, "14336"),
        "--seed": (None, "1234"),
        "--use-mcore-models": ("", None),
        "--no-position-embedding": ("", None),  # RoPE has none to leave out
        "--sequence-parallel": ("", None),  # it drops that itself with one tensor rank
        "--max-position-embeddings": ("32768", "4096"),  # RoPE has none of these either
        "--no-masked-softmax-fusion": ("", None),  # attention is fused
        # it changes losses, and not the work of a step
        "--init-method-std": ("0.01", None),
        "--lr-warmup-iters": ("500", None),
        "--lr-warmup-fraction": (None, "0.01"),
        # no checkpoints
        "--save": ("ckpt", None),
        "--load": ("ckpt", None),
        "--save-interval": ("10000", None),
        "--no-load-optim": ("", None),
        "--no-load-rng": ("", None),
    }
    assert variables(theirs, ours) == {}


def test_qwen3_moe_debug() -> None:
    """Of torchtitan's run_train.sh, whose other options tests/upstream/test_torchtitan.py has."""
    theirs = flat(tomllib.loads(show(*TITAN, QWEN)))
    cell: dict[str, Any] = {
        **{"system": "torchtitan", "model": "qwen3", "flavor": "debugmodel_moe"},
        **{"seq_length": 4096, "micro_batch_size": 4, "train_iters": 10, "lr_warmup_iters": 2},
        **{"devices_per_node": 8, "expert_parallel": 1, "expert_tensor_parallel": 1},
    }
    ours = small_run(cell, small_cluster(1, 8, device="cuda")).nodes[0]
    differ = differences(theirs, ours_of(ours))
    assert {name for name in differ if "expert" in name or "moe" in name} == set()
    data = "/opt/tb/datasets/default"
    alone = ("--checkpoint.", "--profiling.", "--quantize.", "--job.description")
    assert {name: pair for name, pair in differ.items() if not name.startswith(alone)} == {
        # how torchrun starts it; the run's folder, its data and its vocabulary
        "-m": (None, "torch.distributed.run torchtitan.train"),
        "--nnodes": (None, "1"),
        "--nproc_per_node": (None, "8"),
        "--node_rank": (None, "0"),
        "--master_addr": (None, "10.0.0.1"),
        "--master_port": (None, "PORT"),
        "--max_restarts": (None, "0"),
        "--role": (None, "rank"),
        "--tee": (None, "3"),
        "--local-ranks-filter": (None, "0"),
        "--log_dir": (None, "RUN/ranks"),
        "--job.dump_folder": ("./outputs", "RUN"),
        "--metrics.save_tb_folder": ("tb", "RUN/tensorboard"),
        "--metrics.disable_color_printing": (None, ""),
        "--model.hf_assets_path": ("./tests/assets/tokenizer", data),
        "--training.dataset_path": (None, f"{data}/c4_test"),
        # its own defaults, said aloud by one of us
        "--compile.components": ("model,loss", None),
        "--debug.seed": (None, "1234"),
        "--optimizer.eps": ("1e-08", None),
        "--optimizer.name": ("AdamW", None),
        "--optimizer.weight_decay": (None, "0.1"),
        "--parallelism.context_parallel_degree": (None, "1"),
        "--parallelism.data_parallel_shard_degree": ("-1", None),
        "--parallelism.fsdp_reshard_after_forward": ("default", None),
        "--parallelism.pipeline_parallel_degree": (None, "1"),
        "--parallelism.pipeline_parallel_microbatch_size": (None, "1"),
        "--parallelism.pipeline_parallel_schedule": (None, "1F1B"),
        "--training.mixed_precision_param": (None, "bfloat16"),
    }


@pytest.mark.parametrize(
    ("model", "flavor", "named"),
    [
        ("qwen3", "30B-A3B", "qwen3-30b-a3b"),
        ("qwen3", "8B", "qwen3-8b"),
        ("gpt_oss", "20b", "gpt-oss-20b"),
        ("qwen3", "30B-A3B-4-layers", "qwen3-30b-a3b-4-layers"),
    ],
)
def test_one_name_is_one_shape_in_all_three(model: str, flavor: str, named: str) -> None:
    """What a comparison of the three counts FLOPs by."""
    titan = decoder(model, flavor, 4096)
    assert titan is not None
    assert torch_gpt.shape({**dict.fromkeys(SIZES), "model": named}) == titan
    if named in megatron_core.MEGATRONS:
        cell = {"system": "megatron_core", "model": named}
        (found,) = small_matrix(defaults=cell).cells
        assert gpt.shape(found.parameters) == titan
