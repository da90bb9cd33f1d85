"""torchtitan's options and registry at the tag of our pin, beside ours.

The pin is the package index's wheel; v0.2.2 is the tag that it was built from.
"""

import ast
from typing import Any

import pytest

from runner.systems.common.torchtitan_models import MODELS
from runner.systems.common.torchtitan_options import ADDED
from tests.runner.builders import small_cluster, small_run
from tests.upstream.mirrors import show

TITAN = ("pytorch/torchtitan", "73a0e6979dd10b6b1904098eb3c8f62c18ab87ce")
CELL: dict[str, Any] = {
    **{"system": "torchtitan", "flavor": "8B", "seq_length": 8192, "devices_per_node": 8},
    **{"train_iters": 1000, "log_interval": 10, "lr_warmup_iters": 200, "tensorboard": True},
}
EVERYTHING: dict[str, Any] = {
    **CELL,
    **{"dp_replicate": 1, "dp_shard": 1, "tensor_parallel": 2, "pipeline_parallel": 2},
    **{"context_parallel": 2, "micro_batch_size": 2, "global_batch_size": 4, "compile": True},
    **{"async_tensor_parallel": True, "float8": "tensorwise"},
    "context_parallel_rotate_method": "alltoall",
}


def test_the_trainer_knows_every_option() -> None:
    """By the dataclasses of its configuration, of which tyro makes the options."""
    tree = ast.parse(show(*TITAN, "torchtitan/config/job_config.py"))
    fields = {
        each.name: {
            line.target.id: ast.unparse(line.annotation)
            for line in each.body
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
        }
        for each in tree.body
        if isinstance(each, ast.ClassDef)
    }
    traced = {**CELL, "profile": "torch"}
    for cell in (EVERYTHING, traced, {**CELL, "float8": "rowwise", "flavor": "1B"}):
        argv = small_run(cell, small_cluster(1, 8, device="cuda")).nodes[0].argv
        passed = [word for word in argv[argv.index("torchtitan.train") :] if word.startswith("--")]
        assert len(passed) > 20
        for option in passed:
            kind = "JobConfig"
            for part in option.removeprefix("--").split("."):
                assert part in fields.get(kind, {}), option
                kind = fields[kind][part]


def test_the_float8_converter_is_registered_under_its_name() -> None:
    text = show(*TITAN, "torchtitan/components/quantization/float8.py")
    argv = small_run(EVERYTHING, small_cluster(1, 8, device="cuda")).nodes[0].argv
    name = argv[argv.index("--model.converters") + 1]
    assert f'register_model_converter(Float8LinearConverter, "{name}")' in text


DEFAULTS = {"n_kv_heads": None, "moe_enabled": False}
OF_MODEL: dict[str, dict[str, Any]] = {
    "llama3": {"vocab_size": 128256},
    "qwen3": {},
    "deepseek_v3": {"moe_enabled": True},
    "gpt_oss": {
        "moe_enabled": True,
        "vocab_size": 201088,
        "dim": 2880,
        "n_heads": 64,
        "n_kv_heads": 8,
        "head_dim": 64,
    },
}


@pytest.mark.parametrize("model", MODELS)
def test_flavors_are_those_of_its_registry(model: str) -> None:
    tree = ast.parse(show(*TITAN, f"torchtitan/models/{model}/__init__.py"))
    registry: dict[str, dict[str, Any]] = {}
    for line in tree.body:
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Dict):
            for key, call in zip(line.value.keys, line.value.values, strict=True):
                assert isinstance(key, ast.Constant)
                assert isinstance(call, ast.Call)
                registry[str(key.value)] = {
                    str(word.arg): word.value.value
                    for word in call.keywords
                    if isinstance(word.value, ast.Constant)
                }
    for flavor, shape in MODELS[model].flavors.items():
        if (model, flavor) in ADDED:
            assert flavor not in registry
            continue
        args = {**DEFAULTS, **OF_MODEL[model], **registry[flavor]}
        assert (shape.hidden_size, shape.num_layers) == (args["dim"], args["n_layers"])
        assert shape.num_attention_heads == args["n_heads"]
        assert shape.num_query_groups == args["n_kv_heads"]
        assert shape.vocab_size == args["vocab_size"]
        assert shape.kv_channels == args.get("head_dim")
        assert bool(shape.num_experts) == args["moe_enabled"]
