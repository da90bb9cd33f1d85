"""Cells that the documented systems' trainers would refuse, or silently change, are refused."""

import shlex
import subprocess
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from runner.base.errors import UserError
from runner.plan import checks
from runner.systems.common import launchers
from runner.systems.common.registry import load_system
from runner.systems.megatron_deepspeed import last_iteration
from runner.terms.cluster import Cluster
from tests.runner.builders import slurm_cluster, small_cluster, small_matrix, small_run

CUDA = small_cluster(2, 8, device="cuda")
CPU = small_cluster(2, 8)
MDS = {"system": "megatron_deepspeed", "devices_per_node": 8, "global_batch_size": 32}
RAMP = {
    **{"pin": "e52bdabb", "devices_per_node": 2, "tensor_parallel": 2, "global_batch_size": 16},
    **{"micro_batch_size": 1, "rampup_batch_size": "2 2 1000", "train_samples": 10000},
    **{"exit_interval": 100, "train_iters": 100},
}
LIBAI = {"system": "libai", "devices_per_node": 8, "global_batch_size": 32}
LIBAI_CPU = {
    **{"system": "libai", "pin": "9fc504c4-cpu", "precision": "fp32", "fusions": False},
    **{"devices_per_node": 2, "global_batch_size": 8},
}
LM = {"system": "megatron_lm", "devices_per_node": 8}
LM_DS = {**LM, "deepspeed": "on", "launcher": "deepspeed", "tensor_parallel": 4}
OF = {"system": "oneflow_gpt", "devices_per_node": 8}
SLURM = slurm_cluster(devices=8, device="cuda", gpus_per_node="8")
NAMED = Cluster(
    name="named",
    path=CUDA.path,
    device="cuda",
    nodes=tuple(replace(node, address=f"{node.host}.example.org") for node in CUDA.nodes),
)
APART = replace(CUDA, nodes=(CUDA.nodes[0], replace(CUDA.nodes[1], root=PurePosixPath("/data"))))
NPU = small_cluster(2, 8, device="npu")
ASCEND = {"system": "ascend_gpt", "devices_per_node": 8}
CORE = {"system": "megatron_core", "devices_per_node": 8}
STAGED = {"custom_pipeline_stage_id": True, "pipeline_parallel": 4, "global_batch_size": 8}


def check(cell: dict[str, Any], cluster: Cluster) -> None:
    checks.check_cells(small_matrix(defaults=cell).cells, cluster, 0)


@pytest.mark.parametrize(
    ("cell", "cluster"),
    [
        ({**MDS, "deepspeed": "off", "zero_stage": 0}, CUDA),
        ({**MDS, "pin": "current", "zero_stage": 3}, CUDA),
        ({**MDS, "pin": "current", "model": "llama3-8b", "attention_backend": "sdpa"}, CUDA),
        ({**MDS, **RAMP}, CUDA),
        ({**LIBAI, "zero_stage": 2}, CUDA),
        (LIBAI_CPU, CPU),
        ({**LIBAI_CPU, "tensor_parallel": 2}, CPU),
        ({**LM_DS, "nodes": 2, "zero_stage": 2}, CUDA),
        ({**LM, "nodes": 2}, APART),
        (OF, NAMED),
        (
            {
                **CORE,
                "transformer_impl": "transformer_engine",
                "tensor_parallel": 2,
                "sequence_parallel": True,
            },
            CUDA,
        ),
    ],
)
def test_cells_that_can_run_pass(cell: dict[str, Any], cluster: Cluster) -> None:
    check(cell, cluster)


@pytest.mark.parametrize(
    ("cell", "cluster", "words"),
    [
        (MDS, CPU, ["megatron_deepspeed trains on cuda", "rack is cpu"]),
        ({**MDS, "deepspeed": "off"}, CUDA, ["zero_stage 1 needs DeepSpeed", "zero_stage: 0"]),
        ({**MDS, "zero_stage": 2}, CUDA, ["cannot run at pin oneflow2022", "take pin current"]),
        (
            {**MDS, "pin": "current", "zero_stage": 2, "pipeline_parallel": 2},
            CUDA,
            ["zero_stage 2 and pipeline_parallel 2 exclude each other"],
        ),
        ({**MDS, "pin": "current", "embed_layernorm": True}, CUDA, ["embed_layernorm"]),
        ({**MDS, "pin": "current-without-apex"}, CUDA, ["masked_softmax_fusion: false"]),
        ({**MDS, "num_attention_heads": 15}, CUDA, ["does not divide hidden_size 1024"]),
        (
            {**MDS, "deepspeed": "off", "zero_stage": 0, "pipeline_parallel": 4, "num_layers": 6},
            CUDA,
            ["pipeline_parallel 4 does not divide num_layers 6"],
        ),
        ({**MDS, "rampup_batch_size": "2 2 8"}, CUDA, ["rampup_batch_size needs train_samples"]),
        ({**MDS, **RAMP, "train_iters": 200}, CUDA, ["ends at iteration 100", "train_iters: 100"]),
        ({**MDS, **RAMP, "rampup_batch_size": "2 2"}, CUDA, ["as '2 2 1000'"]),
        ({**MDS, **RAMP, "rampup_batch_size": f"2 2 {'9' * 15}"}, CUDA, ["more than 1000000"]),
        ({**MDS, **RAMP, "rampup_batch_size": f"2 2 {'9' * 99}"}, CUDA, ["as '2 2 1000'"]),
        ({**MDS, **RAMP, "rampup_batch_size": "2 4 1000"}, CUDA, ["does not reach"]),
        ({**MDS, **RAMP, "micro_batch_size": 4}, CUDA, ["multiples of", "which is 4"]),
        ({**MDS, **RAMP, "lr_decay_iters": 5}, CUDA, ["does not go with train_samples"]),
        (
            {
                **MDS,
                "nodes": 2,
                "devices_per_node": 3,
                "tensor_parallel": 2,
                "global_batch_size": 12,
            },
            CUDA,
            ["tensor_parallel 2 does not divide devices_per_node 3"],
        ),
        ({**LIBAI, **STAGED}, CUDA, ["does not exist at pin 9fc504c4", "take pin 33adb976"]),
        (
            {**LIBAI, "custom_pipeline_stage_id": True, "pin": "33adb976"},
            CUDA,
            ["needs pipeline_parallel"],
        ),
        (LIBAI, CPU, ["pin 9fc504c4 needs CUDA", "take pin 9fc504c4-cpu"]),
        ({**LIBAI_CPU, "precision": "fp16"}, CPU, ["amp needs a GPU", "precision: fp32"]),
        ({**LIBAI_CPU, "fusions": True}, CPU, ["fusions: false"]),
        ({**LIBAI_CPU, "zero_stage": 1}, CPU, ["register.cpp:75", "zero_stage: 0"]),
        ({**LM, "zero_stage": 1}, CUDA, ["zero_stage needs DeepSpeed"]),
        ({**LM, "partition_activations": True}, CUDA, ["partition_activations needs DeepSpeed"]),
        ({**LM, "pipeline_parallel": 2}, CUDA, ["pipeline_parallel needs DeepSpeed"]),
        ({**LM_DS, "gradient_accumulation": 2}, CUDA, ["needs pipeline_parallel"]),
        ({**LM_DS, "pipeline_parallel": 2, "zero_stage": 2}, CUDA, ["exclude each other in"]),
        ({**LM_DS, "contiguous_checkpointing": True}, CUDA, ["needs partition_activations"]),
        ({**LM_DS, "checkpoint_in_cpu": True}, CUDA, ["needs partition_activations"]),
        ({**LM, "pin": "a79272cc"}, CUDA, ["document 003's comparison", "take another pin"]),
        ({**LM_DS, "nodes": 2}, APART, ["cluster_root is /opt/tb on n1 and /data on n2"]),
        ({**LM_DS, "nodes": 2, "env": {"A": "b=c"}}, CUDA, ["variable A holds", "`=`"]),
        ({**OF, "nodes": 2}, NAMED, ["IPv4 address", "cluster_address"]),
        ({**OF, "nodes": 2}, SLURM, ["known by their names; set nodes: 1"]),
        ({**OF, "train_iters": 15}, CUDA, ["train_iters 15 is not a multiple of 10"]),
        (OF, CPU, ["oneflow_gpt trains on cuda"]),
        (ASCEND, CUDA, ["pin 2e49c279 runs on npu", "take pin b4d4a0e"]),
        ({**ASCEND, "pin": "b4d4a0e"}, NPU, ["runs on cuda", "take pin 2e49c279"]),
        ({**ASCEND, "nodes": 2, "global_batch_size": 32}, NPU, ["runs on one node", "nodes: 1"]),
        ({**ASCEND, "devices_per_node": 4}, NPU, ["takes all 8 devices", "devices_per_node: 8"]),
        ({**MDS, "pin": "e52bdabb", "model": "llama3-8b"}, CUDA, ["needs pin current"]),
        ({**MDS, "attention_backend": "sdpa"}, CUDA, ["attention_backend needs pin current"]),
        ({**CORE, "sequence_parallel": True}, CUDA, ["sequence_parallel needs tensor_parallel"]),
        ({**CORE, "overlap_param_gather": True}, CUDA, ["needs distributed_optimizer"]),
        (
            {**CORE, "activation_checkpointing": True, "selective_recompute": True},
            CUDA,
            ["exclude each other"],
        ),
        (CORE, CPU, ["megatron_core trains on cuda"]),
        ({**CORE, "attention_backend": "flash"}, CUDA, ["not one of transformer_impl local"]),
        (
            {**CORE, "transformer_impl": "transformer_engine", "attention_backend": "sdpa"},
            CUDA,
            ["take one of auto, flash, fused, unfused"],
        ),
        ({**CORE, "num_query_groups": 5}, CUDA, ["num_query_groups 5 does not divide"]),
        ({**CORE, "rotary_base": 500000}, CUDA, ["rotary_base needs position_embedding_type rope"]),
        ({**CORE, "tensor_parallel": 2, "vocab_size": 5001}, CUDA, ["divide vocab_size 5001"]),
    ],
)
def test_cells_that_cannot_run_are_refused_with_the_reason(
    cell: dict[str, Any], cluster: Cluster, words: list[str]
) -> None:
    with pytest.raises(UserError) as caught:
        check(cell, cluster)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("more", "last"),
    [
        ({"exit_interval": None}, 748),
        ({}, 100),
        ({"exit_interval": None, "rampup_batch_size": None}, 625),
        ({"exit_interval": 1000}, 748),
    ],
)
def test_where_a_run_by_samples_ends(more: dict[str, Any], last: int) -> None:
    """The ramp of document 001 takes 2 samples, then 4 after each 142.86, and so on to 16."""
    assert last_iteration({**RAMP, **more}) == last


def test_a_configuration_of_libai_spreads_layers_as_the_document_does() -> None:
    cell = {**LIBAI, **STAGED, "pin": "33adb976"}
    text = small_run(cell, CUDA).nodes[0].files["libai_config.py"]
    assert "custom_pipeline_stage_id = [0] * 6 + [1] * 6 + [2] * 6 + [3] * 6\n" in text
    assert "fusion" not in text
    cpu = small_run(LIBAI_CPU, CPU).nodes[0].files["libai_config.py"]
    assert cpu.count("_fusion = False\n") == 3


# --- the deepspeed launcher -----------------------------------------------------------------------

HARD = {"PLAIN": "1", "HARD": "a 'b' \"c\" $HOME `id` \\ ^lo,docker"}


@pytest.mark.parametrize("quotes", [False, True])
def test_variables_reach_other_nodes_as_they_are(quotes: bool) -> None:
    """As its launcher hands them to a remote shell: `export NAME=value;`, or with quotes."""
    text = launchers.environment_file(HARD, quotes=quotes)
    exports = ""
    for line in text.splitlines():
        name, value = line.split("=", maxsplit=1)
        value = f'"{value.strip()}"' if quotes else value.strip()
        exports += f"export {name.strip()}={value}; "
    said = subprocess.run(
        ["/bin/sh", "-c", f'{exports} printf %s "$HARD"'], capture_output=True, text=True
    )
    assert said.stdout == HARD["HARD"]


def test_every_variable_of_a_run_is_in_the_launchers_file() -> None:
    cluster = replace(CUDA, env={"NCCL_DEBUG": "INFO"})
    cell = {**LM_DS, "nodes": 2, "env": {"NOTE": "it's"}}
    run = small_run(cell, cluster)
    text = run.nodes[0].files[".deepspeed_env"]
    given = dict(line.split("=", maxsplit=1) for line in text.splitlines())
    assert {name: shlex.split(value)[0] for name, value in given.items()} == run.nodes[0].env
    assert run.nodes[1].files == run.nodes[0].files


def test_a_derived_batch_is_known_to_tables() -> None:
    system = load_system("megatron_lm")
    cell = {**LM_DS, "pipeline_parallel": 2, "tensor_parallel": 2, "gradient_accumulation": 3}
    assert system.batch_size(small_matrix(defaults=cell).cells[0]) == 8 * 2 * 3
    given = small_matrix(defaults=MDS).cells[0]
    assert load_system("megatron_deepspeed").batch_size(given) == 32


def test_a_named_model_fills_in_what_the_cell_leaves_out() -> None:
    cell = small_matrix(defaults={**ASCEND, "model": "2.7B", "micro_batch_size": 4}).cells[0]
    values = cell.parameters
    assert (values["hidden_size"], values["num_layers"], values["seq_length"]) == (2560, 32, 2048)
    assert (values["micro_batch_size"], values["global_batch_size"]) == (4, 32)
    assert load_system("ascend_gpt").sizes(cell) == {
        "tensor_parallel": 2,
        "pipeline_parallel": 2,
        "data_parallel": 2,
    }


def test_cann_is_sourced_where_the_inventory_has_it(tmp_path: Path) -> None:
    (tmp_path / "set_env.sh").write_text("export ASCEND_OPP_PATH='a place'\n")
    first = small_run(ASCEND, replace(NPU, cann_home=str(tmp_path))).nodes[0]
    assert f"{tmp_path}/set_env.sh" in first.requires
    launcher = next(i for i, word in enumerate(first.argv) if word.endswith("/python3"))
    argv = [*first.argv[:launcher], "printenv", "ASCEND_OPP_PATH"]
    ran = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert ran.stdout == "a place\n"
