"""Samples split over ranks: the same losses and gradients as on one rank, and faults that show.

Real ranks and collectives (gloo) on this machine's CPU, in fp32.
"""

import functools
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "node" / "dataset"))
import megatron_mmap

pytest.importorskip("torch")

from tests.torch_gpt import rank
from tests.torch_gpt.test_training import TRAINER, Run, places

LOSS, NORM = 2e-4, 2e-3  # what may differ; a norm is printed with three decimals
SMALL = (
    *("--num-layers", "2", "--hidden-size", "64", "--num-attention-heads", "4"),
    *("--vocab-size", "256", "--lr", "1e-2", "--split", "9,1,0", "--train-iters", "6"),
    *("--log-interval", "1", "--micro-batch-size", "2", "--global-batch-size", "4"),
)
MODELS = {
    "gpt": (),
    "llama": ("--model", "llama3-debug", "--num-query-groups", "2", "--ffn-hidden-size", "96"),
    "experts": ("--model", "moe-debug"),
}
Train = Callable[..., Run]


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Train:
    """Run ranks of the trainer; the same arguments once."""
    prefix = tmp_path_factory.mktemp("data") / "set"
    random = np.random.default_rng(0)
    with megatron_mmap.Writer(prefix) as writer:
        for _ in range(20):
            # What a token is followed by hangs on the one 100 before: attention has to look.
            noise = random.integers(0, 32, 5000)
            for i in range(100, 5000):
                noise[i] = (noise[i - 100] + 3) % 32 if i % 3 else noise[i]
            writer.add_document(noise)

    @functools.cache
    def run(ranks: int, model: str, length: int, *words: str, fault: str = "") -> Run:
        folder = tmp_path_factory.mktemp("run")
        program = TRAINER / "train.py"
        if fault:
            program = folder / "train.py"
            text = f"import runpy, sys\nsys.path.insert(0, {str(TRAINER)!r})\n{fault}\n"
            program.write_text(
                f"{text}runpy.run_path({str(TRAINER / 'train.py')!r}, run_name='__main__')\n"
            )
        argv = [str(program), "--data-path", str(prefix), "--seq-length", str(length)]
        argv += [*SMALL, *MODELS[model], *words]
        return Run(*rank.run_all([argv] * ranks, places(ranks), folder))

    return run


def apart(run: Run, whole: Run) -> tuple[float, float]:
    """How far losses and norms of gradients are apart, at most."""
    assert run.status == whole.status == 0, run.err + whole.err
    loss, norm = (
        float(np.max(np.abs(np.subtract(run.column(name), whole.column(name)))))
        for name in ("loss", "grad_norm")
    )
    return loss, norm


def same(run: Run, whole: Run) -> bool:
    """Are they the same curve?"""
    loss, norm = apart(run, whole)
    return loss < LOSS and norm < NORM


DENSE = ("gpt", "llama")


@pytest.mark.parametrize("model", DENSE)
@pytest.mark.parametrize(
    ("ranks", "length"),
    [
        (2, 512),
        (4, 1024),
        pytest.param(4, 512, marks=pytest.mark.nightly("training")),
        pytest.param(2, 2048, marks=pytest.mark.nightly("training")),
        pytest.param(2, 4096, marks=pytest.mark.nightly("training")),
        pytest.param(4, 4096, marks=pytest.mark.nightly("training")),
    ],
)
def test_samples_split_over_ranks_change_nothing(
    train: Train, model: str, ranks: int, length: int
) -> None:
    run = train(ranks, model, length, "--context-parallel", str(ranks))
    assert same(run, train(1, model, length)), apart(run, train(1, model, length))
    assert run.config["context_parallel"] == str(ranks)
    assert run.config["data_parallel_size"] == "1"


WITH = (
    (4, ""),  # data parallel by two
    (4, "--zero-stage 1"),
    (4, "--zero-stage 2"),
    (4, "--zero-stage 3"),
    (4, "--tensor-parallel 2"),
    (4, "--tensor-parallel 2 --zero-stage 3"),
    (4, "--pipeline-parallel 2"),
    (2, "--activation-checkpointing full"),
    (2, "--activation-checkpointing selective --zero-stage 3"),
    (2, "--cross-entropy-chunks 3"),
    (2, "--attention-backend math"),
)
EIGHT = ("--tensor-parallel 2 --zero-stage 2", "--tensor-parallel 2 --pipeline-parallel 2")


@pytest.mark.parametrize(
    ("model", "ranks", "words"),
    [
        *(("llama", *case) for case in WITH),
        *(pytest.param("gpt", *case, marks=pytest.mark.nightly("training")) for case in WITH),
        *(
            pytest.param("llama", 8, words, marks=pytest.mark.nightly("training"))
            for words in EIGHT
        ),
        ("gpt", 4, "--tensor-parallel 2 --zero-stage 3 --activation-checkpointing selective"),
        ("experts", 2, ""),
    ],
)
def test_with_each_other_way_to_spread_a_run(
    train: Train, model: str, ranks: int, words: str
) -> None:
    run = train(ranks, model, 512, "--context-parallel", "2", *words.split())
    assert same(run, train(1, model, 512)), apart(run, train(1, model, 512))


@pytest.mark.nightly("training")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("which", ["block", "model"])
def test_compiled(train: Train, which: str) -> None:
    run = train(2, "llama", 512, "--context-parallel", "2", "--compile", which)
    assert same(run, train(1, "llama", 512)), apart(run, train(1, "llama", 512))


def test_validation_sees_the_same_samples(train: Train) -> None:
    words = ("--eval-iters", "1", "--train-iters", "2", "--micro-batch-size", "2")
    runs = train(2, "gpt", 512, *words, "--context-parallel", "2"), train(1, "gpt", 512, *words)
    found = [float(run.out.split("torch_gpt eval samples=2 loss=")[1].split()[0]) for run in runs]
    assert found[0] == pytest.approx(found[1], abs=LOSS)


# Each is planted before the trainer begins, in names of its modules.
FAULTS = {
    "a block is lost": """
import context_group
real = context_group.forward
def forward(kernel, query, key, value, causal):
    some = slice(None) if causal else slice(query.shape[2] // 2, None)
    return real(kernel, query, key[:, :, some], value[:, :, some], causal=causal)
context_group.forward = forward
""",
    "a mask where there is none": """
import context_group
real = context_group.forward
context_group.forward = lambda *given, causal: real(*given, causal=True)
""",
    "no mask where there is one": """
import context_group
real = context_group.forward
context_group.forward = lambda *given, causal: real(*given, causal=False)
""",
    "positions are not shifted": """
import context_group
real = context_group.ContextGroup.tokens_of_rank
def own(self, x, dimension):
    if x.is_floating_point() and self.size > 1:
        return x.narrow(dimension, 0, x.shape[dimension] // self.size)
    return real(self, x, dimension)
context_group.ContextGroup.tokens_of_rank = own
""",
    "an unscaled merge": """
import context_group
real = context_group.merge
def merge(out, normaliser, more, other):
    return (out + more) / 2, real(out, normaliser, more, other)[1]
context_group.merge = merge
""",
    "normalisers of a part go backward": """
import context_group
real = context_group.merge
context_group.merge = lambda out, normaliser, *rest: (real(out, normaliser, *rest)[0], normaliser)
""",
    "chunks in the wrong order": """
import context_group, torch
def gather(self, key, value):
    whole = context_group.all_gather(torch.stack((key, value)).unsqueeze(0), self.size, self.name)
    return torch.cat(whole.unbind(0), 3)
context_group.ContextGroup.gather = gather
""",
    "gradients of others' queries are lost": """
import context_group
def scatter_sum(self, x):
    return self.tokens_of_rank(x, 3)
context_group.ContextGroup.scatter_sum = scatter_sum
""",
    "gradients go to the wrong rank": """
import context_group, torch
def scatter_sum(self, x):
    parts = torch.stack(x.chunk(self.size, 3))
    return context_group.reduce_scatter(parts, self.size, self.name).squeeze(0)
context_group.ContextGroup.scatter_sum = scatter_sum
""",
    "targets of other tokens": """
import data
real = data.Samples.batch
def batch(self, *given):
    tokens, targets = real(self, *given)
    return tokens, torch.cat((targets[:, 128:], targets[:, :128]), 1)
import torch
data.Samples.batch = batch
""",
    "weights that are not averaged": """
import world
world.Ranks.replicas = property(lambda self: self.data_size)
""",
}


@pytest.mark.parametrize("model", DENSE)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_shows(train: Train, model: str, fault: str) -> None:
    run = train(2, model, 512, "--context-parallel", "2", fault=FAULTS[fault])
    assert not same(run, train(1, model, 512)), apart(run, train(1, model, 512))
