"""torchtitan's command lines, and what of its cells is refused."""

from typing import Any

import pytest

from runner.base.errors import UserError
from runner.plan import checks
from runner.systems.common.registry import load_system
from runner.systems.common.torchtitan_models import MODELS, decoder
from runner.terms.record import MIXED_FP8
from tests.runner.builders import small_cluster, small_matrix, small_run

TITAN = load_system("torchtitan")
EIGHT = small_cluster(2, 8, device="cuda")
CELL = {"system": "torchtitan", "devices_per_node": 8}
LLAMA = {**CELL, "flavor": "8B", "seq_length": 8192}
STAGES = {**LLAMA, "pipeline_parallel": 4, "micro_batch_size": 4}


def option(cell: dict[str, Any], name: str, rank: int = 0) -> str | None:
    """What stands behind an option on a node's command line."""
    argv = small_run(cell, EIGHT).nodes[rank].argv
    return argv[argv.index(name) + 1] if name in argv else None


def check(cell: dict[str, Any]) -> None:
    checks.check_cells(small_matrix(defaults=cell).cells, EIGHT, 0)


def test_a_node_starts_the_module_with_static_ranks_in_the_runs_folder() -> None:
    node = small_run({**LLAMA, "compile": True, "seed": 7}, EIGHT).nodes[0]
    at = node.argv.index("torchtitan.train")
    assert node.argv[1:3] == ("-m", "torch.distributed.run")
    assert node.argv[at - 5 : at] == ("--role", "rank", "--local-ranks-filter", "0", "-m")
    assert node.cwd == node.dir
    assert node.env["HF_HUB_OFFLINE"] == "1"
    assert node.env["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"
    assert set(node.requires) == {
        f"/opt/tb/datasets/default/{name}"
        for name in ("c4_test/data.json", "tokenizer.json", "tokenizer_config.json")
    }
    words = " ".join(node.argv[at:])
    for said in (
        "--model.name llama3 --model.flavor 8B --training.seq_len 8192",
        "--training.dataset c4_test --training.dataset_path /opt/tb/datasets/default/c4_test",
        "--compile.enable",
        "--debug.seed 7",
        "--metrics.disable_color_printing",
        "--activation_checkpoint.mode selective",
    ):
        assert said in words
    for left_out in ("global_batch_size", "data_parallel_shard_degree", "float8", "enable_tensorb"):
        assert left_out not in words


@pytest.mark.parametrize(
    ("cell", "nodes", "shown", "filters"),
    [
        (LLAMA, 1, "0", ["0"]),
        (LLAMA, 2, "0", ["0", "0"]),
        ({**STAGES, "devices_per_node": 4}, 1, "3", ["3"]),
        (STAGES, 1, "6", ["6"]),
        # the loss is on the second node: the first one's processes would log -1
        ({**STAGES, "pipeline_parallel": 2}, 2, "8", ["8", "0"]),
    ],
)
def test_the_rank_that_knows_the_loss_is_shown(
    cell: dict[str, Any], nodes: int, shown: str, filters: list[str]
) -> None:
    run = small_run({**cell, "nodes": nodes}, EIGHT)
    assert {node.env["LOG_RANK"] for node in run.nodes} == {shown}
    at = [node.argv.index("--local-ranks-filter") + 1 for node in run.nodes]
    assert [node.argv[i] for i, node in zip(at, run.nodes, strict=True)] == filters


def test_a_batch_is_one_pass_of_every_data_parallel_rank_unless_it_is_given() -> None:
    cell = {**LLAMA, "micro_batch_size": 2, "tensor_parallel": 2, "nodes": 2}
    assert TITAN.batch_size(small_run(cell, EIGHT).cell) == 16
    assert TITAN.batch_size(small_run({**cell, "global_batch_size": -1}, EIGHT).cell) == 16
    assert TITAN.batch_size(small_run({**cell, "global_batch_size": 64}, EIGHT).cell) == 64
    assert option({**cell, "global_batch_size": 64}, "--training.global_batch_size") == "64"


def test_sizes_that_torchtitan_derives_are_one_cell_with_those_left_out() -> None:
    derived = {"global_batch_size": -1, "dp_shard": -1}
    assert small_run({**LLAMA, **derived}, EIGHT).cell.id == small_run(LLAMA, EIGHT).cell.id


def test_float8_is_as_its_documentation_has_it() -> None:
    tensorwise = small_run({**LLAMA, "float8": "tensorwise"}, EIGHT).nodes[0].argv
    assert "--quantize.linear.float8.enable_fsdp_float8_all_gather" in tensorwise
    assert "--quantize.linear.float8.recipe_name" not in tensorwise
    rowwise = {**LLAMA, "float8": "rowwise"}
    assert option(rowwise, "--quantize.linear.float8.recipe_name") == "rowwise"
    assert option(rowwise, "--model.converters") == "quantize.linear.float8"
    assert TITAN.arithmetic(small_run(rowwise, EIGHT).cell.parameters) == MIXED_FP8
    assert TITAN.arithmetic(small_run(LLAMA, EIGHT).cell.parameters) == "bf16"


def test_a_flavor_of_ours_comes_as_a_file_that_torchtitan_imports() -> None:
    node = small_run({**CELL, "flavor": "1B"}, EIGHT).nodes[0]
    at = node.argv.index("--experimental.custom_import")
    assert f"{node.argv[at + 1]}.py" in node.files
    assert not small_run(LLAMA, EIGHT).nodes[0].files


NEW = {**LLAMA, "pin": "0.3.0"}


def test_since_0_3_a_module_names_the_configuration() -> None:
    node = small_run({**NEW, "activation_checkpointing": "full", "lr": 0.001}, EIGHT).nodes[0]
    at = node.argv.index("torchtitan.train")
    assert node.argv[at + 1 : at + 5] == ("--module", "llama3", "--config", "llama3_8b")
    assert node.argv[-1] == "activation-checkpoint:full"  # tyro ends its options there
    assert "--metrics.no_enable_tensorboard" in node.argv
    assert "--model.flavor" not in node.argv
    assert option({**NEW, "lr": 0.001}, "--optimizer.param_groups.0.optimizer_kwargs.lr") == "0.001"
    assert option({**NEW, "flavor": "1B"}, "--module") == "trainbench_flavors"
    board = small_run({**NEW, "tensorboard": True}, EIGHT).nodes[0].argv
    assert "--metrics.enable_tensorboard" in board


# What torchtitan 0.2.2 said on a CPU, sequence 8192: get_nparams_and_flops of the model on
# the device meta. It counts the weights of norms, too, and of tied embeddings no output layer.
@pytest.mark.parametrize(
    ("model", "flavor", "flops", "untied"),
    [
        ("llama3", "debugmodel", 184831488, 0),
        ("llama3", "1B", 10636111872, 0),
        ("llama3", "8B", 57914449920, 0),
        ("llama3", "70B", 481442709504, 0),
        ("qwen3", "0.6B", 8279949312, 151936 * 1024),
        ("qwen3", "30B-A3B", 37578559488, 0),
        ("gpt_oss", "20b", 31313520000, 0),
        ("deepseek_v3", "debugmodel", 1675396608, 0),
        ("deepseek_v3", "16B", 21503382528, 0),
        ("deepseek_v3", "236B", 245905029120, 0),
        ("deepseek_v3", "671B", 342562842624, 0),
    ],
)
def test_flops_are_torchtitans_own(model: str, flavor: str, flops: int, untied: int) -> None:
    shape = decoder(model, flavor, 8192)
    assert shape is not None
    assert shape.flops() / 8192 == pytest.approx(flops + 6 * untied, rel=1e-3)


def test_every_flavor_is_an_architecture_that_passes_on_one_node() -> None:
    for model, known in MODELS.items():
        for flavor in known.flavors:
            check({**CELL, "model": model, "flavor": flavor})


@pytest.mark.parametrize(
    "cell",
    [
        LLAMA,
        {**LLAMA, "nodes": 2, "dp_replicate": 2, "dp_shard": 8},
        {**LLAMA, "dp_replicate": 8},
        STAGES,
        {**LLAMA, "tensor_parallel": 2, "async_tensor_parallel": True, "compile": True},
        {**CELL, "model": "qwen3", "flavor": "30B-A3B", "expert_parallel": 4},
        {**LLAMA, "vocab_size": 128256},
        {**LLAMA, "tensor_parallel": 8, "precision": "fp32"},
        {**LLAMA, "tensor_parallel": 4, "context_parallel": 2},
    ],
)
def test_cells_that_can_run_pass(cell: dict[str, Any]) -> None:
    check(cell)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ({**CELL, "model": "qwen3", "flavor": "70B"}, ["qwen3 has no flavor 70B", "it has"]),
        ({**LLAMA, "vocab_size": 4096}, ["vocab_size is 4096", "128256", "leave it out"]),
        ({**LLAMA, "dp_replicate": 3}, ["dp_replicate 3 does not make up data_parallel 8"]),
        ({**LLAMA, "dp_shard": 4}, ["dp_replicate 1 x dp_shard 4", "data_parallel 8"]),
        ({**LLAMA, "dp_shard": 0}, ["dp_shard is 0"]),
        ({**LLAMA, "global_batch_size": 0}, ["global_batch_size is 0"]),
        ({**LLAMA, "global_batch_size": 12}, ["does not divide global_batch_size 12"]),
        ({**LLAMA, "dp_replicate": 4, "tensor_parallel": 2}, ["dp_replicate 4 is DDP"]),
        ({**LLAMA, "tensor_parallel": 8}, ["without FSDP train in fp32", "precision: fp32"]),
        ({**LLAMA, "expert_parallel": 2}, ["8B has no experts"]),
        ({**LLAMA, "seq_length": 8191}, ["not a multiple of 2"]),
        ({**LLAMA, "context_parallel": 4, "seq_length": 8188}, ["not a multiple of 8"]),
        ({**CELL, "model": "gpt_oss", "context_parallel": 2}, ["gpt_oss cannot split samples"]),
        ({**LLAMA, "context_parallel_rotate_method": "alltoall"}, ["context_parallel of at least"]),
        ({**NEW, "context_parallel": 2, "context_parallel_rotate_method": "alltoall"}, ["pin 0.2"]),
        ({**LLAMA, "async_tensor_parallel": True}, ["tensor_parallel of at least 2 and compile"]),
        ({**LLAMA, "pipeline_parallel": 2}, ["makes 1 passes", "2 or more"]),
        ({**CELL, "model": "qwen3", "flavor": "8B", "pipeline_parallel": 2}, ["has no stages"]),
        ({**NEW, "float8": "rowwise"}, ["pin 0.3.0 has no float8", "pin 0.2.2"]),
        (
            {**NEW, "model": "qwen3", "flavor": "235B-A22B"},
            ["pin 0.3.0 has no configuration of qwen3 235B-A22B", "30B-A3B"],
        ),
        ({**LLAMA, "tensor_parallel": 16, "nodes": 2}, ["num_query_groups 8"]),
    ],
)
def test_cells_that_cannot_run_are_refused(cell: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UserError) as refused:
        check(cell)
    for word in words:
        assert word in str(refused.value)
