"""Experts in torch_gpt on this machine's CPU: gloo, a real all-to-all, one to eight ranks.

The reference is a plain loop over the experts on one rank (naive_experts.py), with the same passes.
"""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

pytest.importorskip("torch")

from runner.figures.parity import RELATIVE
from tests.torch_gpt import naive_experts, rank
from tests.torch_gpt.test_training import SHAPE, TRAINER, Run, places, prefix  # noqa: F401

PROGRAM = Path(naive_experts.__file__)
MOE = (
    *("--model", "moe-debug", "--num-layers", "2", "--kv-channels", "32", "--train-iters", "5"),
    *("--moe-ffn-hidden-size", "32"),
)
Train = Callable[..., Run]


@pytest.fixture(scope="module")
def train(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Train:  # noqa: F811
    """Run ranks of the trainer; `what` is its own layer, the loop, or a fault."""

    @functools.cache
    def run(what: str, ranks: int, *words: str) -> Run:
        program = ["--data-path", str(prefix), *SHAPE, *MOE, *words]
        first = [str(TRAINER / "train.py")] if not what else [str(PROGRAM), str(TRAINER), what]
        argv = [*first, *program]
        return Run(*rank.run_all([argv] * ranks, places(ranks), tmp_path_factory.mktemp("run")))

    return run


def words(layout: str) -> tuple[int, tuple[str, ...]]:
    """`dp4 ep2 z3`: ranks, and the options that share out a global batch of 8 so."""
    sizes = {"dp": 1, "tp": 1, "pp": 1, "ep": 1, "z": 0}
    sizes |= {part.rstrip("0123456789"): int(part.lstrip("dtepz")) for part in layout.split()}
    passes = sizes["pp"]
    ranks = sizes["dp"] * sizes["tp"] * sizes["pp"]
    micro = 8 // sizes["dp"] // passes
    return ranks, (
        *("--tensor-parallel", str(sizes["tp"]), "--pipeline-parallel", str(sizes["pp"])),
        *("--expert-parallel", str(sizes["ep"]), "--zero-stage", str(sizes["z"])),
        *("--micro-batch-size", str(micro)),
    )


def assert_same(run: Run, reference: Run) -> None:
    assert reference.status == 0, reference.err
    assert run.status == 0, run.err
    assert run.column("loss") == pytest.approx(reference.column("loss"), abs=2e-4)
    # printed with three decimals
    norms = reference.column("grad_norm")
    assert run.column("grad_norm") == pytest.approx(norms, rel=2e-4, abs=1e-3)
    for ours, theirs in zip(run.steps, reference.steps, strict=True):
        assert figures(ours) == pytest.approx(figures(theirs), abs=2e-4)


def figures(step: Mapping[str, str]) -> list[float]:
    """Fewest, mean and most tokens of an expert, imbalance, drop rate and auxiliary loss."""
    values = [word.partition("=")[2] for word in step["experts"].split()]
    return [float(number) for value in values for number in value.split(",")]


def reference(train: Train, layout: str, *more: str) -> Run:
    passes = 2 if "pp2" in layout else 1
    return train("loop", 1, "--zero-stage", "0", "--micro-batch-size", str(8 // passes), *more)


ALWAYS = ("dp1", "dp2 ep2 z0", "dp2 ep2 z1", "dp2 ep2 z3", "dp2 z3", "tp2")
SLOW = (
    *("dp4 ep2 z0", "dp4 ep2 z1", "dp4 ep2 z2", "dp4 ep2 z3", "dp4 ep4 z0", "dp4 ep4 z1"),
    *("dp4 ep4 z2", "dp4 ep4 z3", "dp2 z1", "dp2 z2", "dp2 ep2 z2", "dp2 tp2 ep2", "pp2"),
    *("dp2 tp2 ep2 z1", "dp2 tp2 ep2 z2", "dp2 tp2 ep2 z3", "dp2 pp2 ep2", "dp2 pp2"),
    *("dp2 tp2 pp2 ep2", "dp4 pp2 ep2", "dp4 pp2 ep4", "dp4 tp2 ep2", "dp4 tp2 ep4 z3"),
)


@pytest.mark.parametrize(
    "layout",
    [*ALWAYS, *(pytest.param(each, marks=pytest.mark.nightly("training")) for each in SLOW)],
)
def test_ways_to_spread_experts_change_nothing(train: Train, layout: str) -> None:
    ranks, options = words(layout)
    assert_same(train("", ranks, *options), reference(train, layout))


AUXILIARY = ("--moe-aux-loss-coeff", "0.5")  # so much that 5 steps depend on it


@pytest.mark.parametrize("fault", naive_experts.FAULTS)
def test_a_planted_fault_is_seen(train: Train, fault: str) -> None:
    layout = "dp4 ep2" if fault == "no_sum_over_the_group" else "dp2 ep2"
    ranks, options = words(layout)
    run = train(fault, ranks, *options, *AUXILIARY)
    assert run.status == 0, run.err
    with pytest.raises(AssertionError):
        assert_same(run, reference(train, layout, *AUXILIARY))


CHOICES: dict[str, tuple[str, ...]] = {
    "sigmoid": ("--moe-router-score-function", "sigmoid"),
    "shared": ("--moe-shared-expert-intermediate-size", "32"),
    "balanced": ("--routing", "balanced"),
    "a bias and no loss": (
        *("--moe-router-load-balancing-type", "none", "--moe-router-bias-update-rate", "0.02"),
        *("--moe-router-score-function", "sigmoid"),
    ),
    "a large loss": AUXILIARY,
    "gpt-oss": ("--model", "gpt-oss-debug", "--moe-ffn-hidden-size", "64"),
    "recomputed": ("--activation-checkpointing", "full"),
}


@pytest.mark.parametrize("layout", ["dp1", "dp2 ep2", "dp2 ep2 z3"])
@pytest.mark.parametrize("choice", CHOICES)
def test_every_choice_is_that_of_the_loop(train: Train, choice: str, layout: str) -> None:
    ranks, options = words(layout)
    more = CHOICES[choice]
    assert_same(train("", ranks, *options, *more), reference(train, layout, *more))


@pytest.mark.nightly("training")
@pytest.mark.parametrize("layout", ["dp2 tp2 ep2", "dp2 pp2 ep2", "dp2 tp2 ep2 z3"])
@pytest.mark.parametrize("choice", ["gpt-oss", "shared", "a bias and no loss", "a large loss"])
def test_every_choice_can_be_split(train: Train, choice: str, layout: str) -> None:
    test_every_choice_is_that_of_the_loop(train, choice, layout)


@pytest.mark.parametrize("layout", ["dp1", "dp2 ep2", "dp2 ep2 z2"])
def test_capacity_drops_what_a_loop_over_the_ranks_tokens_drops(train: Train, layout: str) -> None:
    """A rank's pass is the group of tokens: the reference has as many passes as there are ranks."""
    full = ("--moe-expert-capacity-factor", "0.75", "--moe-router-load-balancing-type", "none")
    ranks, options = words(layout)
    alone = train("loop", 1, "--zero-stage", "0", "--micro-batch-size", str(8 // ranks), *full)
    run = train("", ranks, *options, *full)
    assert_same(run, alone)
    dropped = [figures(step)[4] for step in run.steps]
    assert all(0.25 <= share < 0.6 for share in dropped)  # an even load loses a quarter


@pytest.mark.nightly("training")
def test_200_steps_learn_as_the_loop_does(train: Train) -> None:
    """On two ranks with a part of the experts each; the dense one has the active experts' width."""
    ranks, options = words("dp2 ep2")
    long = ("--train-iters", "200", "--log-interval", "5")
    run = train("", ranks, *options, *long)
    naive = reference(train, "dp2 ep2", *long)
    dense = train("", 1, "--num-experts", "0", "--ffn-hidden-size", "64", *long)
    assert (run.status, dense.status) == (0, 0), run.err + dense.err
    print("experts", run.column("loss")[-8:], "loop", naive.column("loss")[-8:])
    print("dense", dense.column("loss")[-8:])
    losses = zip(run.column("loss"), naive.column("loss"), strict=True)
    assert all(abs(ours - theirs) <= RELATIVE * theirs for ours, theirs in losses)
    assert run.column("loss")[-1] < 0.6 * run.column("loss")[0]
    assert run.column("loss")[-1] < dense.column("loss")[-1] + 0.1
