"""torchtitan's run_train.sh, options and registry at the tag of our pin, beside ours.

The pin is the package index's wheel; v0.2.2 is the tag that it was built from.
"""

import ast
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runner.systems.common.torchtitan_models import MODELS
from runner.systems.common.torchtitan_options import ADDED
from tests.runner.builders import small_cluster, small_run
from tests.upstream.mirrors import show
from tests.upstream.scripts import differences, options, run
from tests.upstream.test_scripts import ours_of, theirs_of, variables

TITAN = ("pytorch/torchtitan", "73a0e6979dd10b6b1904098eb3c8f62c18ab87ce")
TOML = "torchtitan/models/llama3/train_configs/llama3_8b.toml"
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


def flat(content: Mapping[str, Any], above: str = "--") -> dict[str, str]:
    """A TOML as the options that would say the same."""
    found: dict[str, str] = {}
    for key, value in content.items():
        if isinstance(value, dict):
            found |= flat(value, f"{above}{key}.")
        elif value is True:
            found[f"{above}{key}"] = ""
        elif value is not False:
            words = ",".join(value) if isinstance(value, list) else str(value)
            found |= options([f"{above}{key}", words])
    return found


def test_run_train_sh(tmp_path: Path) -> None:
    """With llama3_8b.toml, which its options stand over; false is left out on both sides."""
    place = tmp_path / "titan"
    place.mkdir()
    (place / "run_train.sh").write_text(show(*TITAN, "run_train.sh"))
    started = run(place / "run_train.sh", [], place, CONFIG_FILE=TOML)[-1]
    theirs = theirs_of(started)
    assert theirs.pop("--job.config_file") == TOML
    theirs |= flat(tomllib.loads(show(*TITAN, TOML)))
    ours = small_run(CELL, small_cluster(1, 8, device="cuda")).nodes[0]
    data = "/opt/tb/datasets/default"
    assert differences(theirs, ours_of(ours)) == {
        # what torchrun starts; ranks are the inventory's order
        "-m": ("torchtitan.train", "torch.distributed.run torchtitan.train"),
        "--rdzv_backend": ("c10d", None),
        "--rdzv_endpoint": ("localhost:0", None),
        "--nnodes": (None, "1"),
        "--node_rank": (None, "0"),
        "--master_addr": (None, "10.0.0.1"),
        "--master_port": (None, "PORT"),
        "--max_restarts": (None, "0"),
        "--log_dir": (None, "RUN/ranks"),
        # the dataset's text and vocabulary, and the run's folder
        "--model.hf_assets_path": ("./assets/hf/Llama-3.1-8B", data),
        "--training.dataset": ("c4", "c4_test"),
        "--training.dataset_path": (None, f"{data}/c4_test"),
        "--job.dump_folder": ("./outputs", "RUN"),
        "--metrics.save_tb_folder": ("tb", "RUN/tensorboard"),
        "--metrics.disable_color_printing": (None, ""),
        # left to torchtitan, which derives the same
        "--parallelism.data_parallel_shard_degree": ("-1", None),
        # its own defaults, said aloud by one of us
        "--job.description": ("Llama 3 8B training", None),
        "--optimizer.name": ("AdamW", None),
        "--optimizer.eps": ("1e-08", None),
        "--optimizer.weight_decay": (None, "0.1"),
        "--training.mixed_precision_param": (None, "bfloat16"),
        "--compile.components": ("model,loss", None),
        "--parallelism.pipeline_parallel_schedule": (None, "1F1B"),
        "--parallelism.pipeline_parallel_microbatch_size": (None, "1"),
        "--parallelism.expert_parallel_degree": (None, "1"),
        "--debug.seed": (None, "1234"),
        # profiles are not a benchmark's; of what is not enabled nothing is said
        "--profiling.enable_profiling": ("", None),
        "--profiling.save_traces_folder": ("profile_trace", None),
        "--profiling.profile_freq": ("100", None),
        "--quantize.linear.float8.filter_fqns": ("output", None),
        **{
            name: (value, None)
            for name, value in theirs.items()
            if name.startswith(("--checkpoint.", "--validation."))
        },
    }
    cache = "/opt/tb/systems/torchtitan/0.2.2/cache/huggingface"
    assert variables(started, ours) == {
        "HF_HUB_OFFLINE": (None, "1"),
        "HF_HOME": (None, cache),
        "TORCHFT_LIGHTHOUSE": ("http://localhost:29510", None),  # of a fault tolerance that is off
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


SIZES = {
    "--parallelism.data_parallel_shard_degree": "dp_shard",
    "--parallelism.data_parallel_replicate_degree": "dp_replicate",
    "--parallelism.tensor_parallel_degree": "tensor_parallel",
    "--parallelism.context_parallel_degree": "context_parallel",
    "--parallelism.context_parallel_rotate_method": "context_parallel_rotate_method",
}


def context_parallel_tests() -> list[tuple[str, int, dict[str, str]]]:
    """Its own runs with context parallelism: name, GPUs and options."""
    tree = ast.parse(show(*TITAN, "tests/integration_tests/features.py"))
    made = []
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and ast.unparse(call.func) == "OverrideDefinitions"):
            continue
        if "context_parallel_degree" in ast.unparse(call):
            lists, _, name = (ast.literal_eval(argument) for argument in call.args[:3])
            gpus = [ast.literal_eval(w.value) for w in call.keywords if w.arg == "ngpu"]
            words = {k: v.strip("'") for k, _, v in (w.partition("=") for w in lists[-1])}
            made.append((str(name), *gpus, words))
    return made


def test_its_own_runs_with_context_parallelism_by_our_keys() -> None:
    """What a run's options say of sizes, ours say with the same values."""
    seen = []
    for name, gpus, theirs in context_parallel_tests():
        if not theirs.keys() <= SIZES.keys():
            continue  # pipelines, compile and offloading besides
        said = {SIZES[option]: value for option, value in theirs.items()}
        cell = {"system": "torchtitan", "devices_per_node": gpus, "seq_length": 2048}
        cell |= {key: int(value) if value.isdigit() else value for key, value in said.items()}
        argv = small_run(cell, small_cluster(1, gpus, device="cuda")).nodes[0].argv
        ours = options(argv[argv.index("torchtitan.train") + 1 :])
        assert {option: ours[option] for option in theirs} == theirs
        seen.append(name)
    assert {"cp_allgather", "cp_alltoall", "fsdp+cp", "fsdp+tp+cp"} <= set(seen)


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
