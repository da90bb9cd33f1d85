"""oneflow_gpt: OneFlow's GPT-2 of the OSDI measurements, as document 003 runs it.

The same command runs on every node: OneFlow finds its rank by the node's address.
docs/systems/oneflow_gpt.md has each difference from upstream's train_gpt2.sh, with its reason.
"""

from collections.abc import Mapping
from typing import Any

from runner.base.errors import UserError
from runner.figures.flops import Decoder
from runner.systems.common import gpt
from runner.systems.common.system import Estimate, System
from runner.terms.cell import Cell, Parameter
from runner.terms.cluster import Cluster
from runner.terms.run import Command, NodeContext

# name: n_head, n_embd, n_layer, as train_gpt2.sh has them
MODELS: Mapping[str, tuple[int, int, int]] = {
    "gpt2-small": (12, 768, 12),
    "gpt2-medium": (16, 1024, 24),
}
LINE_EVERY = 10  # iterations a logged line covers: the trainer's loss_print_every_n_iter

PARAMETERS = (
    Parameter("model", str, "gpt2-small", "model size by name", choices=tuple(MODELS)),
    Parameter("seq_length", int, 1024, "tokens per sample, and positions", minimum=2),
    Parameter("vocab_size", int, 50304, "tokens of the vocabulary, padded", minimum=2),
    Parameter("micro_batch_size", int, 4, "samples per device and iteration", minimum=1),
    Parameter(
        "placement_optimization",
        bool,
        False,
        "Optimizer-Placement Optimization: optimizer states split over the devices",
    ),
    Parameter("precision", str, "fp16", "fp16: mixed; fp32", choices=("fp16", "fp32")),
    Parameter("train_iters", int, 1000, "iterations of a run", minimum=1),
    Parameter(
        "log_interval", int, LINE_EVERY, "iterations a logged line covers", choices=(LINE_EVERY,)
    ),
    Parameter("optimizer", str, "adamw", "optimizer", choices=("adam", "sgd", "adamw")),
    Parameter("dropout", float, 0.1, "dropout of embedding, attention and output", minimum=0),
    Parameter("activation_checkpointing", bool, False, "recompute activations in backward"),
)


def check(cell: Cell, cluster: Cluster) -> None:
    """Refuse what OneFlow would refuse."""
    values = cell.parameters
    if values["train_iters"] % LINE_EVERY:
        raise UserError(
            f"train_iters {values['train_iters']} is not a multiple of {LINE_EVERY}, the iterations"
            " that each logged line covers, so that its end would not show; change it"
        )
    addresses = [node.address for node in cluster.nodes[: cell.nodes]]
    if cell.nodes > 1 and cluster.engine.in_jobs:
        raise UserError(
            "oneflow_gpt finds its rank by the node's IPv4 address, and nodes of a job are known by"
            " their names; set nodes: 1, or take an inventory over ssh"
        )
    if cell.nodes > 1 and not all(address.replace(".", "").isdigit() for address in addresses):
        raise UserError(
            "oneflow_gpt finds its rank by the node's IPv4 address; set cluster_address of each"
            " node to one"
        )


def command(cell: Cell, node: NodeContext) -> Command:
    """Start the trainer itself, the same on every node; its port is the run's."""
    values = cell.parameters
    folder = f"{node.home}/src/LanguageModeling/gpt-2"
    heads, width, layers = MODELS[values["model"]]
    placement = "on" if values["placement_optimization"] else "off"
    argv = [
        gpt.python(node),
        f"{folder}/src/train.py",
        f"--log_dir={node.run_dir}/oneflow",
        f"--non_distributed_optimizer={placement}",
        f"--num_nodes={node.nnodes}",
        f"--node_ips={','.join(node.addresses)}",
        f"--ctrl_port={node.master_port}",
        f"--use_fp16={values['precision'] == 'fp16'}",
        f"--dataset={node.dataset}/text/AA",
        f"--cfg_dir={node.dataset}",
        f"--batch_size_per_device={values['micro_batch_size']}",
        f"--gpu_num_per_node={node.nproc_per_node}",
        f"--seq_len={values['seq_length']}",
        f"--iter_num={values['train_iters']}",
        f"--optimizer={values['optimizer']}",
        f"--embedding_dropout={values['dropout']}",
        f"--output_dropout={values['dropout']}",
        f"--attention_dropout={values['dropout']}",
        f"--n_vocab={values['vocab_size']}",
        f"--n_ctx={values['seq_length']}",
        f"--n_embd={width}",
        f"--n_head={heads}",
        f"--n_layer={layers}",
    ]
    argv += ["--checkpoint-activations"] if values["activation_checkpointing"] else []
    devices = node.device_ids or range(node.nproc_per_node)
    required = [f"{node.dataset}/{name}" for name in ("text/AA", "encoder.json", "vocab.bpe")]
    return Command(
        argv=tuple(argv),
        env={
            "CUDA_VISIBLE_DEVICES": ",".join(str(number) for number in devices),
            "ONEFLOW_DEBUG_MODE": "1",
        },
        cwd=folder,
        requires=dict.fromkeys([f"{folder}/src/train.py", *required]),
        ports=() if node.node_rank == 0 else node.ports,
    )


def model(values: Mapping[str, Any]) -> Decoder:
    """Return the model's shape."""
    heads, width, layers = MODELS[values["model"]]
    return Decoder(layers, width, heads, values["seq_length"], values["vocab_size"])


def estimate(cell: Cell, cluster: Cluster) -> Estimate:
    """Estimate the memory of one device and the time of one run."""
    stage = 1 if cell.parameters["placement_optimization"] else 0
    return gpt.estimate(cell, cluster, model=model(cell.parameters), zero_stage=stage)


SYSTEM = System(
    name="oneflow_gpt",
    historic=True,
    summary="OneFlow's GPT-2, data parallel with Optimizer-Placement Optimization (document 003)",
    launcher="none: one process a node, the same command on each",
    parameters=PARAMETERS,
    check=check,
    command=command,
    model=model,
    estimate=estimate,
    parallel=gpt.PARALLEL,
    devices=("cuda",),
)
