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

from rules import TrainerError, accumulation, check
from shapes import MODELS, Shape


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


def _steps(text: str) -> tuple[int, int]:
    first, last = (int(part) for part in text.split("-"))
    if not 4 <= first <= last:  # the second iteration has a profiler of its own
        raise argparse.ArgumentTypeError(f"{text} is not FIRST-LAST with 4 <= FIRST <= LAST")
    return first, last


def _ranks(text: str) -> frozenset[int]:
    return frozenset(map(int, text.split(",")))


_steps.__name__, _ranks.__name__ = "range of iterations", "list of ranks"
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
        description="Pre-train a GPT-2 or a Llama with data, tensor and pipeline parallelism and "
        "ZeRO stages.",
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
    add(
        "--num-query-groups",
        type=_positive,
        help="heads of keys and values, instead of the model's; must divide the heads; Llama only",
    )
    add("--ffn-hidden-size", type=_positive, help="width of the perceptron, instead of the model's")
    add("--kv-channels", type=_positive, help="size of a head, instead of the model's; Llama only")
    add("--seq-length", type=_positive, help="tokens per sample, instead of the model's")
    add(
        "--vocab-size",
        type=_positive,
        help="tokens of the vocabulary, by default a Llama's own, else from dataset.json beside "
        "the data; padded to a multiple of 128, which is faster on GPUs",
    )
    add_experts(made)
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
        help="ranks, next to each other, that share out each block's heads and perceptron, the "
        "vocabulary, and between those the tokens (sequence parallel)",
    )
    add(
        "--async-tensor-parallel",
        action="store_true",
        help="overlap the tensor group's communication with its matrix products, in pieces, by "
        "torch's symmetric memory; CUDA with --compile",
    )
    add(
        "--context-parallel",
        type=_positive,
        default=1,
        help="ranks, next to each other's tensor groups, that share out the tokens of each sample",
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
        choices=("fp32", "bf16", "fp16", "fp8"),
        default="fp32",
        help="of the matrix products; the optimizer's weights stay fp32, fp16 scales its loss; "
        "fp32 uses TF32 on CUDA; fp8: the blocks' products in float8 (torchao, one scale a "
        "tensor), the rest in bf16",
    )
    add(
        "--mixed-precision",
        choices=("autocast", "master_weights"),
        help="master_weights: weights and all between the products in bf16, made from fp32 "
        "masters (by default, with bf16 and fp8); autocast: fp32 between the products (with fp16)",
    )
    add(
        "--activation-checkpointing",
        choices=("none", "selective", "full"),
        default="none",
        help="what is computed again in the backward pass, to keep less: all of a block, or all "
        "but its matrix products and attention",
    )
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: CUDA if present")
    add = made.add_argument_group("speed").add_argument
    add(
        "--compile",
        choices=("auto", "none", "block", "model"),
        default="auto",
        help="torch.compile of each block and the loss, or of the whole model; auto: block on "
        "CUDA, none on a CPU and with DeepSpeed",
    )
    add(
        "--attention-backend",
        choices=("auto", "cudnn", "flash", "efficient", "math"),
        default="auto",
        help="kernel of scaled_dot_product_attention; auto: cuDNN's first on Hopper, else "
        "FlashAttention's",
    )
    add(
        "--cross-entropy-chunks",
        type=_count,
        help="pieces that the tokens go through output matrix and loss in, which computes their "
        "gradients at once; 0: all logits in one, by autograd (by default a billion logits a "
        "piece, and 0 without --compile)",
    )
    add(
        "--cuda-graphs",
        action="store_true",
        help="record the passes of a micro batch as one CUDA graph and replay it; one data "
        "parallel rank",
    )
    add(
        "--adamw",
        choices=("auto", "fused", "foreach"),
        default="auto",
        help="kernel of the optimizer; auto: fused on CUDA, foreach on a CPU",
    )
    add(
        "--gradient-reduction",
        choices=("each_pass", "last_pass"),
        help="when --zero-stage 2 and 3 share gradients out: last_pass: once an iteration, and "
        "until then they are whole (by default with stage 2 on CUDA, if they fit "
        "beside the memory of the first two iterations)",
    )
    add("--grad-reduce-in-bf16", action="store_true", help="sum gradients in bf16; ZeRO 2 and 3")
    add(
        "--gc-interval",
        type=_count,
        default=100,
        help="iterations between two collections of Python's garbage, all ranks at once; 0: "
        "whenever Python wants",
    )
    add = made.add_argument_group("training").add_argument
    add("--train-iters", type=_positive, default=40, help="iterations (optimizer steps)")
    add("--log-interval", type=_positive, default=10, help="iterations a printed line")
    add("--seed", type=_count, default=1234, help="of the weights and of the order of samples")
    add("--lr", type=_amount, default=1e-3, help="highest learning rate; falls to a tenth (cosine)")
    add("--lr-warmup-iters", type=_count, default=0, help="iterations of linear warm-up")
    add("--clip-grad", type=_amount, default=1.0, help="largest norm of all gradients; 0: no limit")
    add("--weight-decay", type=_amount, default=0.1, help="AdamW's, for matrices only")
    add = made.add_argument_group("checkpoints").add_argument
    add("--checkpoint-dir", metavar="FOLDER", help="that all ranks see; go on from what is there")
    add("--checkpoint-interval", type=_count, default=0, help="iterations between saves; 0: none")
    add("--checkpoint-async", action="store_true", help="save while training goes on")
    add("--checkpoint-keep", type=_positive, default=2, help="newest checkpoints that stay")
    add("--checkpoint-token", default="", help="only checkpoints with the same one are loaded")
    add = made.add_argument_group("profiler").add_argument
    add("--profile", choices=("torch", "nsys"), help="what traces some iterations; nsys runs us")
    add("--profile-steps", type=_steps, metavar="FIRST-LAST", help="iterations, from 4")
    add("--profile-ranks", type=_ranks, default="0", metavar="R,R", help="ranks that are traced")
    add("--profile-dir", default=".", metavar="FOLDER", help="for torch's traces")
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


def add_experts(made: argparse.ArgumentParser) -> None:
    """Add the options of experts, under Megatron-LM's names."""
    add = made.add_argument_group("experts, in a model of Llama's family").add_argument
    add("--num-experts", type=_count, help="of a block, instead of the model's; 0: none")
    add("--moe-router-topk", type=_positive, help="experts of a token, instead of the model's")
    add("--moe-ffn-hidden-size", type=_positive, help="width of an expert, instead of the model's")
    add(
        "--moe-shared-expert-intermediate-size",
        type=_count,
        help="width of the expert of all tokens, instead of the model's; 0: none",
    )
    add(
        "--moe-router-score-function",
        choices=("softmax", "sigmoid"),
        help="of the router's scores, instead of the model's",
    )
    add(
        "--routing",
        choices=("learned", "balanced"),
        default="learned",
        help="balanced: experts by turns, whatever the router says, to measure speed alone",
    )
    add(
        "--moe-router-load-balancing-type",
        choices=("aux_loss", "none"),
        default="aux_loss",
        help="aux_loss: a loss that evens out the experts' tokens, over all data parallel ranks",
    )
    add("--moe-aux-loss-coeff", type=_amount, default=1e-2, help="weight of that loss")
    add(
        "--moe-router-bias-update-rate",
        type=_amount,
        default=0.0,
        help="by how much a bias for the choice of experts moves each iteration; 0: without it",
    )
    add(
        "--moe-expert-capacity-factor",
        type=_amount,
        default=0.0,
        help="most tokens of an expert, in units of an even share of a rank's pass; 0: no limit",
    )
    add(
        "--moe-grouped-gemm",
        choices=("auto", "grouped", "loop"),
        default="auto",
        help="the experts' products as one (bf16), or one by one; auto: grouped on CUDA",
    )
    add(
        "--expert-parallel",
        type=_positive,
        default=1,
        help="data parallel ranks that share out the experts; must divide both",
    )


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options with the model's shape filled in.

    Raises:
        TrainerError: an option is unknown, missing or out of range, or the shape is impossible.
    """
    options = parser().parse_args(arguments)
    model = MODELS[options.model]
    if options.num_query_groups is None and model.num_query_groups == model.num_attention_heads:
        options.num_query_groups = options.num_attention_heads
    if options.hidden_size and options.ffn_hidden_size is None and not model.llama:
        options.ffn_hidden_size = 4 * options.hidden_size
    if options.moe_ffn_hidden_size is None and model.moe_ffn_hidden_size is None:
        options.moe_ffn_hidden_size = options.ffn_hidden_size or model.ffn_hidden_size
    for field in dataclasses.fields(Shape):
        if getattr(options, field.name, None) is None:
            setattr(options, field.name, getattr(model, field.name))
    if options.mixed_precision is None and options.engine == "torch":
        options.mixed_precision = {"fp32": None, "fp16": "autocast"}.get(
            options.precision, "master_weights"
        )
    check(options)
    return options


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
