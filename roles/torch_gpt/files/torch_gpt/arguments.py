"""The command line of torch_gpt: model shapes, batch sizes and what may be combined.

Standard library only, so that a wrong argument is reported before torch is imported (seconds).
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from collections.abc import Sequence
from typing import NoReturn


class TrainerError(Exception):
    """The run cannot go on for a reason the user can cure; the message is one sentence."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """A model: ``seq_length`` is the default and counts tokens."""

    num_layers: int
    hidden_size: int
    num_attention_heads: int
    seq_length: int


# gpt2-small and -medium: Radford et al. 2019, table 2.  gpt-1.3b to gpt-3.7b: the sizes of Ascend
# ModelZoo GPT-2_for_PyTorch test/train_full_8p.sh.  gpt2-tiny is ours: seconds on a CPU.
MODELS = {
    "gpt2-tiny": Shape(4, 128, 4, 128),
    "gpt2-small": Shape(12, 768, 12, 1024),
    "gpt2-medium": Shape(24, 1024, 16, 1024),
    "gpt-1.3b": Shape(24, 2048, 16, 1024),
    "gpt-2.7b": Shape(32, 2560, 32, 2048),
    "gpt-3.7b": Shape(32, 3072, 32, 2048),
}


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is not 0 or more")
    return value


def _amount(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of 0 or more")
    return value


_positive.__name__, _count.__name__, _amount.__name__ = "int", "int", "float"  # argparse shows them


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise TrainerError(f"{message}; see --help")


def parser() -> argparse.ArgumentParser:
    """Return the parser; every default is the value a demonstration on a CPU wants."""
    made = _Parser(
        prog="train.py",
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Pre-train a GPT-2 with data, tensor and pipeline parallelism and ZeRO stages.",
    )
    add = made.add_argument_group("model").add_argument
    add("--model", choices=MODELS, default="gpt2-tiny", help="shape to start from")
    add("--num-layers", type=_positive, help="transformer blocks, instead of the model's")
    add("--hidden-size", type=_positive, help="width of a block, instead of the model's")
    add(
        "--num-attention-heads",
        type=_positive,
        help="heads of a block, instead of the model's; must divide the hidden size",
    )
    add("--seq-length", type=_positive, help="tokens a sample, instead of the model's")
    add(
        "--vocab-size",
        type=_positive,
        help="tokens of the vocabulary, by default from dataset.json beside the data; padded to a "
        "multiple of 128, which is faster on GPUs",
    )
    add = made.add_argument_group("batch and parallelism").add_argument
    add("--micro-batch-size", type=_positive, default=4, help="samples a forward pass of one rank")
    add(
        "--global-batch-size",
        type=_positive,
        help="samples an iteration of all ranks; a multiple of micro batch x data parallel ranks, "
        "the quotient being the passes whose gradients are accumulated (by default one pass a "
        "pipeline stage)",
    )
    add(
        "--tensor-parallel",
        type=_positive,
        default=1,
        help="ranks, next to each other, that share out each block's heads and perceptron",
    )
    add(
        "--pipeline-parallel",
        type=_positive,
        default=1,
        help="stages that the blocks are split into (1F1B); must divide them",
    )
    add(
        "--engine",
        choices=("torch", "deepspeed"),
        default="torch",
        help="what shares out, accumulates and updates: PyTorch itself or DeepSpeed",
    )
    add(
        "--zero-stage",
        type=int,
        choices=(0, 1, 2, 3),
        default=0,
        help="what the ranks share out among them: 0 nothing (DDP), 1 optimizer states, "
        "2 also gradients, 3 also weights",
    )
    add(
        "--precision",
        choices=("fp32", "bf16", "fp16"),
        default="fp32",
        help="of the matrix products; weights and optimizer stay fp32, fp16 scales its loss; fp32 "
        "uses TF32 on CUDA",
    )
    add(
        "--activation-checkpointing",
        action="store_true",
        help="compute each block's activations again in the backward pass: less memory, more time",
    )
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: CUDA if present")
    add = made.add_argument_group("training").add_argument
    add("--train-iters", type=_positive, default=40, help="iterations (optimizer steps)")
    add("--log-interval", type=_positive, default=10, help="iterations a printed line")
    add("--seed", type=_count, default=1234, help="of the weights and of the order of samples")
    add("--lr", type=_amount, default=1e-3, help="highest learning rate; falls to a tenth (cosine)")
    add("--lr-warmup-iters", type=_count, default=0, help="iterations of linear warm-up")
    add("--clip-grad", type=_amount, default=1.0, help="largest norm of all gradients; 0: no limit")
    add("--weight-decay", type=_amount, default=0.1, help="AdamW's, for matrices only")
    add = made.add_argument_group("data").add_argument
    add(
        "--data-path",
        required=True,
        metavar="PREFIX",
        help="Megatron mmap dataset: PREFIX.bin and PREFIX.idx",
    )
    add("--split", default="949,50,1", help="weights of train, validation and test documents")
    add(
        "--eval-iters",
        type=_count,
        default=0,
        help="micro batches a rank to validate on after the last iteration; 0: none",
    )
    return made


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options with the model's shape filled in.

    Raises:
        TrainerError: an option is unknown, missing or out of range, or the shape is impossible.
    """
    options = parser().parse_args(arguments)
    for field in dataclasses.fields(Shape):
        if getattr(options, field.name) is None:
            setattr(options, field.name, getattr(MODELS[options.model], field.name))
    if options.hidden_size % options.num_attention_heads:
        raise TrainerError(
            f"--hidden-size {options.hidden_size} is not a multiple of --num-attention-heads "
            f"{options.num_attention_heads}; change one of them"
        )
    check_parallel(options)
    return options


def check_parallel(options: argparse.Namespace) -> None:
    """Refuse what cannot be split, or not together.

    Raises:
        TrainerError: says which two options do not go together.
    """
    tensor, stages, zero = options.tensor_parallel, options.pipeline_parallel, options.zero_stage
    if options.num_attention_heads % tensor:
        raise TrainerError(
            f"--num-attention-heads {options.num_attention_heads} is not a multiple of "
            f"--tensor-parallel {tensor}; change one of them"
        )
    if options.num_layers % stages:
        raise TrainerError(
            f"--num-layers {options.num_layers} is not a multiple of --pipeline-parallel {stages}; "
            "change one of them"
        )
    if options.engine == "deepspeed" and tensor * stages > 1:
        raise TrainerError(
            "--engine deepspeed is data parallel only; take --engine torch, or set "
            "--tensor-parallel and --pipeline-parallel to 1"
        )
    if tensor > 1 and zero == 1:
        raise TrainerError("--tensor-parallel goes with --zero-stage 0, 2 and 3, not with 1")
    if stages > 1 and zero:
        raise TrainerError("--pipeline-parallel goes with --zero-stage 0 only")
    if stages > 1 and options.eval_iters:
        raise TrainerError("--pipeline-parallel has no validation; set --eval-iters 0")


def accumulation(options: argparse.Namespace, ranks: int) -> int:
    """Return the passes an iteration; fill in the global batch size if it was not given.

    Raises:
        TrainerError: the ranks cannot be grouped, or the global batch is no multiple of micro
            batch x data parallel ranks, or has too few passes for the pipeline's stages.
    """
    stages = options.pipeline_parallel
    model_ranks = options.tensor_parallel * stages
    if ranks % model_ranks:
        raise TrainerError(
            f"{ranks} ranks are not a multiple of --tensor-parallel {options.tensor_parallel} x "
            f"--pipeline-parallel {stages} = {model_ranks}; change one of them"
        )
    samples = options.micro_batch_size * (ranks // model_ranks)
    if options.global_batch_size is None:
        options.global_batch_size = samples * stages
    if options.global_batch_size % samples:
        raise TrainerError(
            f"--global-batch-size {options.global_batch_size} is not a multiple of "
            f"--micro-batch-size {options.micro_batch_size} x {ranks // model_ranks} "
            f"{'data parallel ' if model_ranks > 1 else ''}ranks = {samples}; change one of them"
        )
    passes = int(options.global_batch_size // samples)
    if passes < stages:
        raise TrainerError(
            f"--global-batch-size {options.global_batch_size} is {passes} passes, fewer than "
            f"--pipeline-parallel {stages}; make it {samples * stages} or more"
        )
    return passes


def parse_or_exit(arguments: Sequence[str] | None = None) -> tuple[argparse.Namespace, int]:
    """Return the options and the passes an iteration; leave with status 2 if they are wrong.

    All ranks were given the same arguments, so that only rank 0 says what is wrong with them. The
    others wait a little: torchrun ends all ranks of a node as soon as the first one has gone, and
    that must not be before rank 0 has spoken.
    """
    try:
        options = parse(arguments)
        return options, accumulation(options, int(os.environ.get("WORLD_SIZE", "1")))
    except TrainerError as fault:
        if os.environ.get("RANK", "0") == "0":
            print(f"torch_gpt error: {fault}", file=sys.stderr, flush=True)
        else:
            time.sleep(5)
        sys.exit(2)
