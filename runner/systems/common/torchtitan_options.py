"""torchtitan's command line, of both generations: a JobConfig of its own, or a registry's. Pure.

Up to 0.2 every option stands over the defaults of JobConfig. Since 0.3 a function of a module names
the configuration (`--module llama3 --config llama3_8b`), and options stand over that.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from node.supervisor.names import TRACES
from runner.base.errors import UserError
from runner.systems.common import gpt
from runner.systems.common.checkpoint_keys import KEPT
from runner.systems.common.expert_keys import BALANCED
from runner.systems.common.pins import pins
from runner.terms.cell import Cell
from runner.terms.profile import Profile
from runner.terms.run import NodeContext

NONE, SELECTIVE, FULL = "none", "selective", "full"
TENSORWISE, ROWWISE = "tensorwise", "rowwise"
SHARED = (
    ("--training.seq_len", "seq_length"),
    ("--training.local_batch_size", "micro_batch_size"),
    ("--training.global_batch_size", "global_batch_size"),
    ("--training.steps", "train_iters"),
    ("--training.max_norm", "clip_grad"),
    ("--parallelism.data_parallel_replicate_degree", "dp_replicate"),
    ("--parallelism.data_parallel_shard_degree", "dp_shard"),
    ("--parallelism.tensor_parallel_degree", "tensor_parallel"),
    ("--parallelism.pipeline_parallel_degree", "pipeline_parallel"),
    ("--parallelism.pipeline_parallel_schedule", "pipeline_schedule"),
    ("--parallelism.pipeline_parallel_microbatch_size", "pipeline_micro_batch_size"),
    ("--parallelism.context_parallel_degree", "context_parallel"),
    ("--parallelism.expert_parallel_degree", "expert_parallel"),
    ("--parallelism.expert_tensor_parallel_degree", "expert_tensor_parallel"),
    ("--parallelism.fsdp_reshard_after_forward", "fsdp_reshard_after_forward"),
    ("--lr_scheduler.warmup_steps", "lr_warmup_iters"),
    ("--metrics.log_freq", "log_interval"),
    ("--debug.seed", "seed"),
)
UP_TO_0_2 = (
    ("--model.name", "model"),
    ("--model.flavor", "flavor"),
    *SHARED,
    ("--compile.enable", "compile"),
    ("--parallelism.enable_async_tensor_parallel", "async_tensor_parallel"),
    ("--activation_checkpoint.mode", "activation_checkpointing"),
    ("--optimizer.lr", "lr"),
    ("--optimizer.weight_decay", "weight_decay"),
    ("--parallelism.context_parallel_rotate_method", "context_parallel_rotate_method"),
    ("--metrics.enable_tensorboard", "tensorboard"),
)
SINCE_0_3 = (
    *SHARED,
    ("--compile.enable_async_tensor_parallel", "async_tensor_parallel"),
    ("--optimizer.param_groups.0.optimizer_kwargs.lr", "lr"),
    ("--optimizer.param_groups.0.optimizer_kwargs.weight_decay", "weight_decay"),
)
# As 0.2.2's docs/float8.md gives them; the output layer stays as it is.
WARM_UP = 3  # iterations before those that are traced, torchtitan's default
FLOAT8_LINEAR = "quantize.linear.float8"  # the converter's name, and the section of its options
FLOAT8: Mapping[str, tuple[str, ...]] = {
    NONE: (),
    TENSORWISE: (
        f"--{FLOAT8_LINEAR}.enable_fsdp_float8_all_gather",
        f"--{FLOAT8_LINEAR}.precompute_float8_dynamic_scale_for_fsdp",
    ),
    ROWWISE: (f"--{FLOAT8_LINEAR}.recipe_name", ROWWISE),
}
# The registry's functions of 0.3.0 (torchtitan/models/<model>/config_registry.py), but those that
# train in float8 whatever a cell says (llama3_405b).
CONFIGS: Mapping[str, Mapping[str, str]] = {
    "llama3": {
        "debugmodel": "llama3_debugmodel",
        "1B": "llama3_1b",
        "8B": "llama3_8b",
        "70B": "llama3_70b",
    },
    "qwen3": {
        "debugmodel": "qwen3_debugmodel",
        "debugmodel_moe": "qwen3_moe_debug",
        "0.6B": "qwen3_0_6b",
        "1.7B": "qwen3_1_7b",
        "14B": "qwen3_14b",
        "32B": "qwen3_32b",
        "30B-A3B": "qwen3_30b_a3b",
        "30B-A3B-4-layers": "qwen3_30b_a3b_4_layers",
    },
    "gpt_oss": {
        "debugmodel": "gpt_oss_debugmodel",
        "20b": "gpt_oss_20b",
        "20b-4-layers": "gpt_oss_20b_4_layers",
        "120b": "gpt_oss_120b",
    },
    "deepseek_v3": {
        "debugmodel": "deepseek_v3_debugmodel",
        "16B": "deepseek_v3_16b",
        "671B": "deepseek_v3_671b",
    },
}
# Flavors of ours, by torchtitan's own ways in: 0.2.2's experimental.custom_import, which
# train.py:78 reads first, and 0.3.0's modules of configurations. The registry of 0.2.2 has no Llama
# between the debug model and 8B, which one device does not hold; 0.3.0 has it, but not by a name.
# Neither has experts between the debug models and 30B or 20b, whose beginnings these are.
ADDED_MODULE = "trainbench_flavors"
LLAMA_0_2 = """\
from torchtitan.models.llama3 import TransformerModelArgs, llama3_args

llama3_args["1B"] = TransformerModelArgs(
    dim=2048,
    n_layers=16,
    n_heads=32,
    n_kv_heads=8,
    ffn_dim_multiplier=1.5,
    multiple_of=1024,
    rope_theta=500000,
)
"""
LLAMA_0_3 = """\
from torchtitan.models.llama3 import model_registry
from torchtitan.models.llama3.config_registry import llama3_8b


def llama3_1b():
    config = llama3_8b()
    config.model_spec = model_registry("1B")
    return config
"""


def _first_layers(model: str, registry: str, flavor: str) -> tuple[str, str]:
    """Return a flavor of the first four layers of `flavor`, for 0.2 and for 0.3.

    0.2 has the model's flavors in `registry`.
    """
    config = CONFIGS[model][flavor]
    in_0_2 = f"""\
from dataclasses import replace

from torchtitan.models.{model} import {registry}

{registry}["{flavor}-4-layers"] = replace({registry}["{flavor}"], n_layers=4)
"""
    in_0_3 = f"""\
from torchtitan.models.{model}.config_registry import {config}


def {config}_4_layers():
    config = {config}()
    config.model_spec.model.layers = config.model_spec.model.layers[:4]
    return config
"""
    return in_0_2, in_0_3


# By model and flavor: for 0.2, for 0.3.
ADDED: Mapping[tuple[str, str], tuple[str, str]] = {
    ("llama3", "1B"): (LLAMA_0_2, LLAMA_0_3),
    ("qwen3", "30B-A3B-4-layers"): _first_layers("qwen3", "qwen3_args", "30B-A3B"),
    ("gpt_oss", "20b-4-layers"): _first_layers("gpt_oss", "gptoss_configs", "20b"),
}


def check(cell: Cell) -> None:
    """Refuse what the pin set's command line has no words for."""
    values = cell.parameters
    if not _by_registry(cell.pin):
        if values["model"] == "gpt_oss" and values["routing"] == BALANCED:
            raise UserError(
                f"gpt_oss of pin {cell.pin} routes as it learned, whatever is asked for; leave"
                " routing out, or take pin 0.3.0"
            )
        _check_repeats(cell)
        return
    there = CONFIGS[values["model"]]
    if values["flavor"] not in there:
        raise UserError(
            f"pin {cell.pin} has no configuration of {values['model']} {values['flavor']}; it has"
            f" {', '.join(there)}"
        )
    for name, is_set in (
        ("float8", values["float8"] != NONE),
        ("expert_tensor_parallel", values["expert_tensor_parallel"] is not None),
        ("context_parallel_rotate_method", values["context_parallel_rotate_method"] is not None),
    ):
        if is_set:
            raise UserError(f"pin {cell.pin} has no {name}; use pin 0.2.2")


def _check_repeats(cell: Cell) -> None:
    """Refuse a run in which 0.2.2 would trace again: it does so every `profile_freq` steps."""
    if not cell.profile:
        return
    again = 2 * cell.profile.last - _traced(cell.profile)[1] + 1
    if cell.parameters["train_iters"] >= again:
        raise UserError(
            f"profile: pin {cell.pin} would trace again from iteration {again} on; lower"
            f" train_iters to {again - 1}, name later steps, or take pin 0.3.0"
        )


def _traced(profile: Profile) -> tuple[int, int]:
    """Return how many iterations are traced, and those with the ones that warm the profiler up."""
    active = profile.last - profile.first + 1
    return active, active + min(WARM_UP, profile.first - 1)


def _profiler(profile: Profile | None, section: str) -> list[str]:
    """Build the options of torchtitan's own profiler: the last steps of a cycle are traced.

    The folder is within the dump folder (0.2.2: torchtitan/tools/profiling.py, 0.3.0: profiler.py).
    """
    if profile is None:
        return []
    active, with_warm_up = _traced(profile)
    return [
        f"--{section}.enable_profiling",
        *(f"--{section}.save_traces_folder", TRACES),
        *(f"--{section}.profile_freq", str(profile.last)),
        *(f"--{section}.profiler_active", str(active)),
        *(f"--{section}.profiler_warmup", str(with_warm_up - active)),
    ]


def option_words(cell: Cell, node: NodeContext) -> list[str]:
    """Return the arguments of torchtitan.train."""
    values = cell.parameters
    if _by_registry(cell.pin):
        return _since_0_3(values, node, _profiler(cell.profile, "profiler"))
    return [*_up_to_0_2(values, node), *_profiler(cell.profile, "profiling")]


def files(cell: Cell) -> dict[str, str]:
    """Return the files that it imports, for the run's folder."""
    added = ADDED.get((cell.parameters["model"], cell.parameters["flavor"]))
    return {f"{ADDED_MODULE}.py": added[_by_registry(cell.pin)]} if added else {}


def _by_registry(pin: str) -> bool:
    """Whether a module names the configuration: since 0.3."""
    (version,) = (
        line.partition("==")[2]
        for line in pins("torchtitan")[pin]["requirements"]
        if line.startswith("torchtitan==")
    )
    return [int(number) for number in version.split(".")] >= [0, 3]


def _up_to_0_2(values: Mapping[str, Any], node: NodeContext) -> list[str]:
    float8 = FLOAT8[values["float8"]]
    added = (values["model"], values["flavor"]) in ADDED
    return [
        *gpt.options(values, UP_TO_0_2),
        *("--model.hf_assets_path", str(node.dataset)),
        *("--training.dataset", "c4_test", "--training.dataset_path", f"{node.dataset}/c4_test"),
        *("--activation_checkpoint.selective_ac_option", "op"),
        *("--job.dump_folder", str(node.run_dir)),
        *_both(values, node),
        *(("--model.converters", FLOAT8_LINEAR) if float8 else ()),
        *float8,
        *((f"--{FLOAT8_LINEAR}.filter_fqns", "output") if float8 else ()),
        *(("--experimental.custom_import", ADDED_MODULE) if added else ()),
    ]


def _since_0_3(values: Mapping[str, Any], node: NodeContext, profiler: Sequence[str]) -> list[str]:
    once = (*profiler, "--profiler.profiler_repeat", "1")
    model, flavor = values["model"], values["flavor"]
    board, compiled = ("" if values[name] else "no_" for name in ("tensorboard", "compile"))
    return [
        *("--module", ADDED_MODULE if (model, flavor) in ADDED else model),
        *("--config", CONFIGS[model][flavor]),
        *gpt.options(values, SINCE_0_3),
        *("--hf_assets_path", str(node.dataset)),
        *("--dataloader.dataset", "c4_test"),
        *("--dataloader.dataset_path", f"{node.dataset}/c4_test"),
        *("--dump_folder", str(node.run_dir)),
        *_both(values, node),
        # on, or of other parts, in some of its configurations
        *(f"--compile.{compiled}enable", "--compile.components", "model,loss"),
        f"--metrics.{board}enable_tensorboard",
        *(once if profiler else ("--profiler.no_enable_profiling",)),
        # a command below, which ends the options
        f"activation-checkpoint:{values['activation_checkpointing']}",
    ]


def _both(values: Mapping[str, Any], node: NodeContext) -> list[str]:
    kind = "bfloat16" if values["precision"] == "bf16" else "float32"
    balanced = values["routing"] == BALANCED
    return [
        *(["--debug.moe_force_load_balance"] if balanced else []),
        *("--training.mixed_precision_param", kind),
        *("--metrics.save_tb_folder", node.events),
        "--metrics.disable_color_printing",
        *_checkpoints(values, node),
    ]


def _checkpoints(values: Mapping[str, Any], node: NodeContext) -> list[str]:
    """Build the options of its checkpoints; it goes on from the newest in the folder by itself.

    One alone cannot stay: it keeps none that it is not done with (keep_latest_k is 0, or above 1).
    """
    if not values["checkpoint_interval"] or not node.checkpoints:
        return []
    return [
        *("--checkpoint.enable", "--checkpoint.folder", node.checkpoints),
        *("--checkpoint.interval", str(values["checkpoint_interval"])),
        *("--checkpoint.async_mode", "async" if values["checkpoint_async"] else "disabled"),
        *("--checkpoint.keep_latest_k", str(max(2, values["checkpoint_keep"] or KEPT))),
    ]
