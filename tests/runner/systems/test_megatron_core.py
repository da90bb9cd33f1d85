"""Megatron-LM's models by name, what their attention is computed by, and what older cells were."""

from typing import Any

import pytest

from runner.base.errors import UserError
from runner.figures.flops import Decoder
from runner.systems.common import models
from runner.systems.common.registry import load_system
from tests.runner.builders import small_cluster, small_matrix, small_run

SYSTEM = load_system("megatron_core")
LLAMA: dict[str, Any] = {
    "system": "megatron_core",
    **{"model": "llama3-8b", "devices_per_node": 2, "tensor_parallel": 2, "global_batch_size": 8},
}


def argv(cell: dict[str, Any]) -> str:
    return " ".join(small_run(cell, small_cluster(1, 2, device="cuda")).nodes[0].argv)


def test_llama_3_8b_is_megatrons_own_arguments() -> None:
    words = argv({**LLAMA, "mock_data": True})
    assert (
        "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --normalization RMSNorm"
        " --position-embedding-type rope --rotary-base 500000 --ffn-hidden-size 14336 --swiglu"
        " --untie-embeddings-and-output-weights --disable-bias-linear --attention-dropout 0.0"
        " --hidden-dropout 0.0 --seq-length 8192" in words
    )
    assert "--group-query-attention --num-query-groups 8" in words
    assert "--attention-backend sdpa" in words
    assert "--no-create-attention-mask-in-dataloader" in words
    assert "--no-rope-fusion" in words
    assert words.endswith("--vocab-size 128255")  # NullTokenizer adds one


def test_transformer_engine_chooses_its_own_attention_and_fuses_rope() -> None:
    words = argv({**LLAMA, "transformer_impl": "transformer_engine"})
    assert "--attention-backend auto" in words
    for only_local in ("--no-rope-fusion", "--no-masked-softmax-fusion", "--no-create-attention"):
        assert only_local not in words


def test_the_datasets_vocabulary_is_padded_to_the_models() -> None:
    """Megatron pads to a multiple of what is given x tensor_parallel."""
    assert "--make-vocab-size-divisible-by 64128" in argv(LLAMA)
    assert "--make-vocab" not in argv({"system": "megatron_core", "devices_per_node": 2})


def test_a_cell_may_change_what_the_named_model_has() -> None:
    cell = {**LLAMA, "num_layers": 4, "attention_dropout": 0.1, "disable_bias_linear": False}
    words = argv(cell)
    assert "--num-layers 4 " in words
    assert "--attention-dropout 0.1" in words
    assert "--disable-bias-linear" not in words


def test_a_llamas_flops_are_those_of_its_weights() -> None:
    (cell,) = small_matrix(defaults=LLAMA).cells
    model = SYSTEM.architecture(cell)
    assert isinstance(model, Decoder)
    embedding = 128256 * 4096
    # 8,030,261,248 weights, of which the norms' 65 x 4096 and the embedding are not multiplied with
    assert model.layer_weights + embedding == 8_030_261_248 - 65 * 4096 - embedding


def test_a_cell_recorded_before_there_was_a_choice_was_unfused() -> None:
    (cell,) = small_matrix(defaults={"system": "megatron_core"}).cells
    assert cell.parameters["attention_backend"] == "sdpa"
    older = {"num_layers": 24, "hidden_size": 1024, "transformer_impl": "local"}
    assert SYSTEM.recorded(older, "cell a")["attention_backend"] == "unfused"


def test_every_named_model_has_keys_of_a_cell() -> None:
    names = {item.name for item in SYSTEM.parameters}
    for sizes in models.MODELS.values():
        assert set(sizes) <= names


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ({}, "sdpa"),
        ({"attention_backend": "unfused"}, "unfused"),
        ({"transformer_impl": "transformer_engine"}, "transformer_engine auto"),
        ({"transformer_impl": "transformer_engine", "attention_backend": "unfused"}, "unfused"),
        ({"system": "megatron_deepspeed", "pin": "current", "attention_backend": "sdpa"}, "sdpa"),
        ({"system": "megatron_deepspeed", "pin": "current"}, "unfused"),
        ({"system": "megatron_deepspeed", "pin": "e52bdabb"}, None),  # as its document ran it
        ({"system": "torchtitan", "flavor": "8B"}, "sdpa"),
        ({"system": "torchtitan", "model": "gpt_oss", "flavor": "20b"}, None),
        ({"system": "torch_gpt"}, None),
    ],
)
def test_a_cell_says_what_computes_its_attention(cell: dict[str, Any], said: str | None) -> None:
    (found,) = small_matrix(defaults={"system": "megatron_core", **cell}).cells
    assert load_system(found.system).attention(found) == said


CONTEXT: dict[str, Any] = {
    "system": "megatron_core",
    **{"pin": "core_v0.18.2-te", "transformer_impl": "transformer_engine", "devices_per_node": 8},
    **{"model": "llama3-8b", "context_parallel": 4, "global_batch_size": 8, "mock_data": True},
}


def test_context_parallel_is_megatrons_own_with_transformer_engine() -> None:
    def words(**more: Any) -> str:
        cell = {**CONTEXT, **more}
        return " ".join(small_run(cell, small_cluster(1, 8, device="cuda")).nodes[0].argv)

    assert "--context-parallel-size 4" in words()
    assert "--cp-comm-type" not in words()
    assert "--context-parallel-size 4 --cp-comm-type all_gather" in words(cp_comm_type="all_gather")
    assert "--context-parallel-size" not in words(context_parallel=1)
    assert SYSTEM.sizes(small_matrix(defaults=CONTEXT).cells[0])["data_parallel"] == 2


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"transformer_impl": "local", "pin": "core_v0.18.2"}, "needs Transformer Engine, whose"),
        ({"attention_backend": "unfused"}, "needs fused attention; set attention_backend: auto"),
        ({"seq_length": 8196}, "8196 is not a multiple of 2 x context_parallel 4; change one"),
        ({"context_parallel": 1, "cp_comm_type": "p2p"}, "needs context_parallel of at least 2"),
        (
            {"context_parallel": 8, "cp_comm_type": "a2a", "num_query_groups": 4},
            "does not divide num_query_groups 4; take p2p or all_gather",
        ),
        (
            {"tensor_parallel": 4, "context_parallel": 2, "sequence_parallel": True}
            | {"seq_length": 8180},
            "the 4090 tokens of seq_length / context_parallel, which tensor_parallel 4 does not",
        ),
    ],
)
def test_context_parallel_that_cannot_be_is_refused(more: dict[str, Any], words: str) -> None:
    (cell,) = small_matrix(defaults={**CONTEXT, **more}).cells
    with pytest.raises(UserError, match=words):
        SYSTEM.check(cell, small_cluster(1, 8, device="cuda"))


def test_context_parallel_shares_out_the_optimizers_states() -> None:
    def memory(**more: Any) -> float:
        (cell,) = small_matrix(defaults={**CONTEXT, "distributed_optimizer": True, **more}).cells
        assert SYSTEM.estimate is not None
        return SYSTEM.estimate(cell, small_cluster(1, 8, device="cuda")).memory_mib

    assert memory() < memory(context_parallel=1)
