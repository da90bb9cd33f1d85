"""torch_gpt: our own small trainer of GPT-2 and Llama in plain PyTorch, or with DeepSpeed as its
engine.

Runs on any machine: CPU (gloo) or CUDA (NCCL). The trainer is roles/torch_gpt/files/torch_gpt.
"""

from collections.abc import Mapping
from typing import Any

from runner.base.errors import UserError
from runner.figures.flops import Decoder
from runner.systems.common import expert_keys, gpt, launchers, torch_gpt_checks
from runner.systems.common.checkpoint_keys import ASYNC, INTERVAL, KEEP, resumes, size_of
from runner.systems.common.expert_models import MODELS
from runner.systems.common.launchers import DEEPSPEED, PYTHON, SRUN
from runner.systems.common.system import Estimate, Profiling, Split, System
from runner.terms.cell import Cell, Parameter
from runner.terms.cluster import Cluster
from runner.terms.faults import TORCHRUN as TORCHRUN_POLICY
from runner.terms.profile import NSYS, TORCH
from runner.terms.record import DATA_PARALLEL, MIXED_FP8
from runner.terms.run import Command, NodeContext

TORCHRUN = "torchrun"
LOGITS = 1 << 30  # that there are at a time, unless cross_entropy_chunks says otherwise
OF_EXPERTS = (
    *expert_keys.SHAPE,
    expert_keys.ROUTING,
    *expert_keys.BALANCE,
    Parameter(
        "moe_grouped_gemm",
        str,
        "auto",
        "experts' products as one, in bf16, or one by one; auto: grouped on GPUs",
        choices=("auto", "grouped", "loop"),
    ),
    expert_keys.EXPERT_PARALLEL,
)
PARAMETERS = (
    Parameter("model", str, "gpt2-tiny", "model size by name", choices=tuple(MODELS)),
    Parameter("num_layers", int, None, "transformer layers; default: the model's", minimum=1),
    Parameter("hidden_size", int, None, "width; default: the model's", minimum=1),
    Parameter("num_attention_heads", int, None, "heads; default: the model's", minimum=1),
    Parameter(
        "num_query_groups",
        int,
        None,
        "heads of keys and values, of a Llama; default: the model's",
        minimum=1,
    ),
    Parameter("ffn_hidden_size", int, None, "width of the MLP; default: the model's", minimum=1),
    Parameter(
        "kv_channels", int, None, "size of a head, of a Llama; default: the model's", minimum=1
    ),
    Parameter("seq_length", int, None, "tokens per sample; default: the model's", minimum=2),
    Parameter(
        "vocab_size",
        int,
        None,
        "tokens of the vocabulary; default: a Llama's own, else the dataset's",
        minimum=2,
    ),
    Parameter("micro_batch_size", int, 4, "samples per data parallel rank and pass", minimum=1),
    Parameter("global_batch_size", int, 16, "samples an iteration, all devices", minimum=1),
    gpt.TENSOR_PARALLEL,
    Parameter(
        "async_tensor_parallel",
        bool,
        False,
        "tensor_parallel overlaps its communication; with compile, on GPUs",
    ),
    gpt.CONTEXT_PARALLEL,
    gpt.PIPELINE_PARALLEL,
    *OF_EXPERTS,
    Parameter("engine", str, "torch", "what shares out and updates", choices=("torch", DEEPSPEED)),
    Parameter(
        "launcher",
        str,
        TORCHRUN,
        "what starts the processes; srun: Slurm, a task for each device; python: the node itself,"
        " where it has one device",
        choices=(TORCHRUN, DEEPSPEED, SRUN, PYTHON),
    ),
    Parameter(
        "zero_stage",
        int,
        0,
        "ZeRO stage: DeepSpeed's, or torch's: 0 DDP, 1 ZeroRedundancyOptimizer, 2 and 3 FSDP2",
        choices=(0, 1, 2, 3),
    ),
    Parameter(
        "precision",
        str,
        "fp32",
        "arithmetic; fp8: the blocks' linear layers in float8 by torchao, the rest bf16",
        choices=("fp32", "bf16", "fp16", "fp8"),
    ),
    Parameter(
        "mixed_precision",
        str,
        None,
        "master_weights: all but the optimizer in half precision, from fp32 masters; autocast: the"
        " products alone; default: master_weights for bf16 and fp8, autocast for fp16",
        choices=("autocast", "master_weights"),
    ),
    Parameter(
        "activation_checkpointing",
        str,
        "none",
        "what is recomputed in backward; selective: all but matrix products and attention",
        choices=("none", "selective", "full"),
        once=("none", "full"),
    ),
    Parameter(
        "compile",
        str,
        "auto",
        "what torch.compile makes one graph of; auto: block on GPUs, none on CPUs and in deepspeed",
        choices=("auto", "none", "block", "model"),
        older="none",
    ),
    Parameter(
        "attention_backend",
        str,
        "auto",
        "kernel of attention; auto: cudnn on Hopper, else flash, efficient, math",
        choices=("auto", "cudnn", "flash", "efficient", "math"),
    ),
    Parameter(
        "cross_entropy_chunks",
        int,
        None,
        "pieces of the tokens in which output layer and loss are computed; 0: all logits at once;"
        " default: a billion logits a piece, and 0 without compile",
        minimum=0,
        older=0,
    ),
    Parameter(
        "cuda_graphs",
        bool,
        False,
        "replay the passes of a micro batch as one CUDA graph; zero_stage 0, data_parallel 1",
    ),
    Parameter(
        "adamw",
        str,
        "auto",
        "kernel of the optimizer; auto: fused on GPUs, foreach on a CPU",
        choices=("auto", "fused", "foreach"),
    ),
    Parameter(
        "gradient_reduction",
        str,
        None,
        "when zero_stage 2 and 3 share gradients out; last_pass: once an iteration, whole until"
        " then; default: so with stage 2 on GPUs, if they fit",
        choices=("each_pass", "last_pass"),
        older="each_pass",
    ),
    Parameter(
        "grad_reduce_in_bf16",
        bool,
        None,
        "add up and share out gradients in bf16; default: in fp32; zero_stage 2 and 3",
    ),
    Parameter(
        "gc_interval",
        int,
        100,
        "iterations between two collections of Python's garbage; 0: Python decides",
        minimum=0,
        older=0,
    ),
    Parameter("train_iters", int, 50, "iterations of a run", minimum=1),
    Parameter("log_interval", int, 1, "iterations a logged line covers", minimum=1),
    Parameter("lr", float, 1e-3, "peak learning rate", minimum=0),
    Parameter("lr_warmup_iters", int, 0, "iterations of linear warm-up of lr", minimum=0),
    Parameter("weight_decay", float, 0.1, "AdamW's weight decay", minimum=0),
    Parameter("clip_grad", float, 1.0, "largest global gradient norm; 0: no clipping", minimum=0),
    Parameter("split", str, "900,50,50", "train, validation, test shares of the documents"),
    Parameter("eval_iters", int, 0, "validation iterations at the end", minimum=0),
    Parameter("seed", int, 1234, "seed of weights and sample order", minimum=0),
    INTERVAL,
    ASYNC,
    KEEP,
)
SIZES = (
    *("num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "ffn_hidden_size"),
    *("kv_channels", "seq_length", "num_experts", "moe_router_topk", "moe_ffn_hidden_size"),
    "moe_shared_expert_intermediate_size",
)
PARALLEL = (*gpt.WITH_CONTEXT, Split("expert_parallel", within=(DATA_PARALLEL,)))
FIRST_TRACED = 4  # the second step has a profiler of its own, the third is this one's warm-up
DEFAULT_VOCAB_SIZE = 4096  # of the default corpus, for estimates; a log's own figure replaces it


def shape(parameters: Mapping[str, Any]) -> Decoder:
    """Return the model's shape: the named size, with any of its numbers overridden."""
    overrides = {name: value for name, value in parameters.items() if value is not None}
    return gpt.shape({**MODELS[parameters["model"]], **overrides}, DEFAULT_VOCAB_SIZE)


def _is_llama(parameters: Mapping[str, Any]) -> bool:
    return "swiglu" in MODELS[parameters["model"]]


def _has_experts(parameters: Mapping[str, Any]) -> bool:
    count = parameters["num_experts"]
    return bool(MODELS[parameters["model"]].get("num_experts") if count is None else count)


def check(cell: Cell, cluster: Cluster) -> None:
    """Refuse what the trainer would refuse, before anything is touched."""
    values = cell.parameters
    torch_gpt_checks.check(cell, cluster, shape(values), llama=_is_llama(values))
    if cell.profile and cell.profile.first < FIRST_TRACED:
        raise UserError(
            f"profile: steps begins at {cell.profile.first}; begin at {FIRST_TRACED} or later, for"
            " the first steps start up"
        )


def command(cell: Cell, node: NodeContext) -> Command:
    """Start one torchrun a node, with its static rank, or the deepspeed launcher on the first."""
    source = node.home / "src"
    argv = [f"{source}/train.py", *_options(cell, node)]
    data = f"{node.dataset}/{cell.dataset}_text_document"
    requires = dict.fromkeys((f"{source}/train.py", f"{data}.bin", f"{data}.idx"))
    # One thread a process keeps 1 and 2 processes comparable; `env` in a matrix overrides it.
    env = {"OMP_NUM_THREADS": "1"} if node.device == "cpu" else {}
    if DEEPSPEED in (cell.parameters["engine"], cell.parameters["launcher"]):
        env |= {"DS_ACCELERATOR": node.device}
    if cell.parameters["launcher"] == DEEPSPEED:
        argv.insert(0, "--no_local_rank")  # the trainer takes it from the environment
        return launchers.deepspeed(node, argv, env, {}, requires, quotes=True)
    if cell.parameters["launcher"] == SRUN:
        return launchers.by_srun(node, [gpt.python(node), *argv], env, str(source), requires)
    if cell.parameters["launcher"] == PYTHON:
        return launchers.itself(node, [gpt.python(node), *argv], env, str(source), requires)
    torchrun = [
        gpt.python(node),
        "-m",
        "torch.distributed.run",
        *("--nnodes", str(node.nnodes)),
        *("--nproc_per_node", str(node.nproc_per_node)),
        *("--node_rank", str(node.node_rank)),
        *("--master_addr", node.master_address),
        *("--master_port", node.master_port),
    ]
    if cell.recovery == TORCHRUN_POLICY:
        torchrun = launchers.elastic(node, gpt.python(node))
    return Command(argv=(*torchrun, *argv), env=env, cwd=str(source), requires=requires)


def _options(cell: Cell, node: NodeContext) -> list[str]:
    values = dict(cell.parameters)
    model = shape(values)
    argv = [
        *("--device", node.device),
        *("--data-path", f"{node.dataset}/{cell.dataset}_text_document"),
    ]
    for item in PARAMETERS:
        if item.name == "launcher" or (item in OF_EXPERTS and not _has_experts(values)):
            continue
        flag = "--" + item.name.replace("_", "-")
        # The numbers of a model as ours are, by which the table counts.
        value = getattr(model, item.name, None) if item.name in SIZES else values[item.name]
        if item.kind is bool:
            argv += [flag] if value else []
        elif value is not None:
            argv += [flag, str(value)]
    if node.checkpoints:
        token = "/".join(node.checkpoints.split("/")[-3:])
        argv += ["--checkpoint-dir", node.checkpoints, "--checkpoint-token", token]
    if profile := cell.profile:
        argv += ["--profile", profile.tool, "--profile-steps", f"{profile.first}-{profile.last}"]
        argv += ["--profile-ranks", ",".join(map(str, profile.ranks))]
        argv += ["--profile-dir", node.traces]
    return argv


def estimate(cell: Cell, cluster: Cluster) -> Estimate:
    """Estimate the memory of one device and the time of one run, from the shape alone."""
    values, model = cell.parameters, shape(cell.parameters)
    pieces = values["cross_entropy_chunks"]
    tokens = values["micro_batch_size"] * model.seq_length // values["context_parallel"]
    plain = cluster.device == "cpu" or values["engine"] == DEEPSPEED
    eager = values["compile"] == "none" or (values["compile"] == "auto" and plain)
    if pieces is None:
        pieces = 0 if eager else -(-tokens * model.vocab_size // LOGITS)
    at_a_time = -(-tokens // max(pieces, 1))
    gradient = 2 if values["grad_reduce_in_bf16"] else 4  # bytes
    return gpt.estimate(
        cell,
        cluster,
        model=model,
        flash_attention=True,
        loss_tokens=at_a_time,
        splits=PARALLEL,
        whole_gradient_bytes=gradient if values["gradient_reduction"] == "last_pass" else 0,
    )


def arithmetic(parameters: Mapping[str, Any]) -> str | None:
    """Name the precision; of fp32 train.py has PyTorch multiply in tf32 where the device can, and
    in fp8 the blocks multiply in it and the output layer in bf16, as torchtitan's do.
    """
    precision = str(parameters["precision"])
    return {"fp32": "tf32", "fp8": MIXED_FP8}.get(precision, precision)


def attention(cell: Cell) -> None:
    """Leave it to the log to say which kernel ran: `auto` is not one, and older logs lack it."""


SYSTEM = System(
    name="torch_gpt",
    summary="GPT-2, Llama, experts in PyTorch or DeepSpeed: every parallel way, ZeRO; CPU, CUDA",
    launcher="torchrun (static ranks), srun, deepspeed with a hostfile, or none for one device",
    parameters=PARAMETERS,
    check=check,
    command=command,
    model=shape,
    estimate=estimate,
    parallel=PARALLEL,
    arithmetic=arithmetic,
    attention=attention,
    devices=("cpu", "cuda"),
    layout_free=True,
    profiling=Profiling((TORCH, NSYS)),
    resumes=resumes,
    checkpoint_bytes=size_of(shape),
)
