"""libai: LiBai's GPT-2 on OneFlow, as document 000 compares it with Megatron-DeepSpeed.

docs/systems/libai.md has each difference from upstream's script and configuration, with its reason.
"""

from runner.base.errors import UserError
from runner.systems.common import gpt, launchers
from runner.systems.common.system import System
from runner.terms.cell import Cell, Parameter
from runner.terms.cluster import Cluster
from runner.terms.run import Command, NodeContext

CONFIG = "libai_config.py"
# Pin sets whose commit is older than 33adb976 (2022-07-19), which added the setting.
NO_STAGE_ID = frozenset({"9fc504c4", "9fc504c4-cpu"})
CPU_PINS = frozenset({"9fc504c4-cpu"})

PARAMETERS = (
    gpt.TENSOR_PARALLEL,
    gpt.PIPELINE_PARALLEL,
    Parameter("num_layers", int, 24, "transformer layers", minimum=1),
    Parameter("hidden_size", int, 1024, "width; the feed-forward's is four times it", minimum=1),
    Parameter("num_attention_heads", int, 16, "heads", minimum=1),
    Parameter("seq_length", int, 1024, "tokens per sample, and positions", minimum=2),
    Parameter("dropout", float, 0.1, "dropout of embedding and attention", minimum=0),
    Parameter("micro_batch_size", int, 4, "samples per device and pass", minimum=1),
    Parameter("global_batch_size", int, 4, "samples an iteration, all devices", minimum=1),
    Parameter("train_iters", int, 220, "iterations of a run", minimum=1),
    Parameter("log_interval", int, 100, "iterations between logged lines", minimum=1),
    Parameter("lr", float, 0.00015, "peak learning rate", minimum=0),
    Parameter("precision", str, "fp16", "fp16: amp; fp32: without", choices=("fp16", "fp32")),
    Parameter("activation_checkpointing", bool, False, "recompute activations in backward"),
    Parameter("zero_stage", int, 0, "OneFlow's ZeRO stage; 0: off", choices=(0, 1, 2)),
    Parameter(
        "custom_pipeline_stage_id",
        bool,
        False,
        "spread the layers evenly over the stages, as the document sets it for 24 layers in 4;"
        " false: LiBai's own balance",
    ),
    Parameter("fusions", bool, True, "fused bias-gelu, bias-dropout and scale-mask-softmax"),
    Parameter("seed", int, 1234, "seed of sample order; LiBai seeds no weights", minimum=0),
)


def check(cell: Cell, cluster: Cluster) -> None:
    """Refuse what LiBai or OneFlow would refuse, or silently ignore."""
    values = cell.parameters
    pipeline = values["pipeline_parallel"]
    staged = values["custom_pipeline_stage_id"]
    gpt.check_shape(gpt.shape(values), pipeline=pipeline, even=staged)
    if staged and cell.pin in NO_STAGE_ID:
        raise UserError(
            f"custom_pipeline_stage_id does not exist at pin {cell.pin}: LiBai added it in 33adb976"
            " and ignores it before, so the comparison would measure nothing; take pin 33adb976"
        )
    if staged and pipeline == 1:
        raise UserError("custom_pipeline_stage_id needs pipeline_parallel of at least 2")
    if cluster.device == "cuda":
        return
    if cell.pin not in CPU_PINS:
        raise UserError(
            f"pin {cell.pin} needs CUDA, and cluster_device of {cluster.name} is {cluster.device};"
            " take pin 9fc504c4-cpu"
        )
    required = {"precision": "fp32", "fusions": False, "zero_stage": 0}
    reasons = {
        "precision": "amp needs a GPU",
        "fusions": "the fused operations have no CPU form",
        "zero_stage": "ZeRO aborts inside OneFlow on a CPU (register.cpp:75)",
    }
    for name, value in required.items():
        if values[name] != value:
            yaml_value = str(value).lower() if isinstance(value, bool) else value
            raise UserError(f"{reasons[name]}; set {name}: {yaml_value}")


def command(cell: Cell, node: NodeContext) -> Command:
    """Start one oneflow.distributed.launch per node; the configuration is in the run's folder."""
    values = cell.parameters
    source = f"{node.home}/src"
    files = gpt.data(cell, node)
    argv = [
        *(gpt.python(node), "-m", "oneflow.distributed.launch", *launchers.static_ranks(node)),
        *(f"{source}/tools/train_net.py", "--config-file", f"{node.run_dir}/{CONFIG}"),
        f"model.cfg.num_layers={values['num_layers']}",
        f"train.dist.pipeline_num_layers={values['num_layers']}",
        f"train.train_micro_batch_size={values['micro_batch_size']}",
        f"train.global_batch_size={values['global_batch_size']}",
        f"train.dist.tensor_parallel_size={values['tensor_parallel']}",
        f"train.dist.pipeline_parallel_size={values['pipeline_parallel']}",
        f"train.amp.enabled={str(values['precision'] == 'fp16').lower()}",
        f"train.activation_checkpoint.enabled={str(values['activation_checkpointing']).lower()}",
        f"train.train_iter={values['train_iters']}",
        f"train.log_period={values['log_interval']}",
    ]
    if values["zero_stage"]:
        argv += ["train.zero_optimization.enabled=True"]
        argv += [f"train.zero_optimization.stage={values['zero_stage']}"]
    return Command(
        argv=tuple(argv),
        env=gpt.cuda_home("libai", cell.pin) if node.device == "cuda" else {},
        cwd=source,
        files={CONFIG: config(cell, node, files)},
        requires={f"{source}/tools/train_net.py": None, **files.required},
    )


def config(cell: Cell, node: NodeContext, files: gpt.Data) -> str:
    """Write LiBai's configuration of one run: OneAutoTest's gpt2_nl24_nah16_hs1024.py, paths filled
    in.

    It loads LiBai's own defaults by path, for it does not lie among them. What upstream gives on
    the command line stays there; only the output folder is here, whose name holds signs that
    LiBai's command line gives a meaning to.
    """
    values = cell.parameters
    lines = [
        "# Written for one run.",
        "from libai.config import LazyCall, LazyConfig",
        "from libai.evaluation import PPLEvaluator",
        "",
        f"_common = {f'{node.home}/src/configs/common'!r}",
        'model = LazyConfig.load(_common + "/models/gpt.py", "pretrain_model")',
        'graph = LazyConfig.load(_common + "/models/graph.py", "graph")',
        'train = LazyConfig.load(_common + "/train.py", "train")',
        'optim = LazyConfig.load(_common + "/optim.py", "optim")',
        "dataloader, tokenization = LazyConfig.load(",
        '    _common + "/data/gpt_dataset.py", ("dataloader", "tokenization")',
        ")",
        "",
        f"tokenization.tokenizer.vocab_file = {files.vocab!r}",
        f"tokenization.tokenizer.merges_file = {files.merges!r}",
        f"dataloader.train.dataset[0].data_prefix = {files.prefix!r}",
        f"dataloader.train.dataset[0].indexed_dataset.data_prefix = {files.prefix!r}",
        f"model.cfg.embedding_dropout_prob = {values['dropout']!r}",
        f"model.cfg.attention_dropout_prob = {values['dropout']!r}",
        f"model.cfg.num_attention_heads = {values['num_attention_heads']}",
        f"model.cfg.hidden_size = {values['hidden_size']}",
        f"model.cfg.ffn_hidden_size = {4 * values['hidden_size']}",
        f"model.cfg.max_seq_length = {values['seq_length']}",
        'train.input_placement_device = "cpu"',
        "for _dataset in dataloader.train.dataset:",
        f"    _dataset.max_seq_length = {values['seq_length']}",
        f"optim.lr = {values['lr']!r}",
        "train.test_micro_batch_size = 4",
        "train.evaluation.evaluator = LazyCall(PPLEvaluator)()",
        "train.evaluation.enabled = False",
        "train.evaluation.eval_iter = 30",
        f"train.seed = {values['seed']}",
        f"train.output_dir = {f'{node.run_dir}/output'!r}",
    ]
    if not values["fusions"]:
        lines += [
            f"model.cfg.{name} = False"
            for name in ("bias_gelu_fusion", "bias_dropout_fusion", "scale_mask_softmax_fusion")
        ]
    if values["custom_pipeline_stage_id"]:
        stages = values["pipeline_parallel"]
        layers_per_stage = values["num_layers"] // stages
        ids = " + ".join(f"[{stage}] * {layers_per_stage}" for stage in range(stages))
        lines += [f"train.dist.custom_pipeline_stage_id = {ids}"]
    return "\n".join(lines) + "\n"


SYSTEM = System(
    name="libai",
    historic=True,
    summary="LiBai's GPT-2 on OneFlow: tensor, pipeline, ZeRO (document 000)",
    launcher="oneflow.distributed.launch, static ranks",
    parameters=PARAMETERS,
    check=check,
    command=command,
    model=gpt.shape,
    estimate=gpt.estimate,
    parallel=gpt.PARALLEL,
    devices=("cpu", "cuda"),
)
