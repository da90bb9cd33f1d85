"""torch_gpt under torchrun on this machine's CPU, with one and two ranks."""

import functools
import os
import re
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "node" / "dataset"))
import megatron_mmap

pytest.importorskip("torch")

from tests.torch_gpt import rank

MODULES = Path(megatron_mmap.__file__).parent
TRAINER = Path(__file__).parents[2] / "roles" / "torch_gpt" / "files" / "torch_gpt"

LINE = re.compile(
    r"torch_gpt step=(?P<step>\d+)/(?P<last>\d+) samples_per_s=(?P<samples_per_s>\d+\.\d\d) "
    r"step_time_ms=(?P<step_time_ms>\d+\.\d\d) loss=(?P<loss>\d+\.\d{5}|nan) "
    r"grad_norm=(?P<grad_norm>\d+\.\d{3}|nan|inf) lr=(?P<lr>\d\.\d{3}e[+-]\d\d) "
    r"skipped=(?P<skipped>\d+) nan=(?P<nan>\d+) "
    r"(?P<experts>tokens_per_expert=\S+ expert_imbalance=\S+ drop_rate=\S+ aux_loss=\S+ )?"
    r"memory_allocated_mib=(?P<allocated>-(?:,-)*) memory_reserved_mib=(?P=allocated) "
    r"memory_used_mib=(?P=allocated) memory_rss_mib=(?P<rss>\d+\.\d(?:,\d+\.\d)*)"
)
SHAPE = (
    *("--num-layers", "2", "--hidden-size", "64", "--num-attention-heads", "2"),
    *("--seq-length", "64", "--vocab-size", "256", "--lr", "3e-3", "--split", "9,1,0"),
    *("--train-iters", "8", "--log-interval", "1", "--global-batch-size", "8"),
)


class Run(NamedTuple):
    """A finished run: exit status, output, and what its step lines say."""

    status: int
    out: str
    err: str

    @property
    def steps(self) -> list[dict[str, str]]:
        lines = [line for line in self.out.splitlines() if line.startswith("torch_gpt step=")]
        matches = [LINE.fullmatch(line) for line in lines]
        assert all(matches), lines
        return [match.groupdict() for match in matches if match]

    def column(self, name: str) -> list[float]:
        return [float(step[name]) for step in self.steps]

    @property
    def errors(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("torch_gpt error: ")]

    @property
    def config(self) -> dict[str, str]:
        line = next(line for line in self.out.splitlines() if line.startswith("torch_gpt config "))
        return dict(word.split("=", 1) for word in line.split()[2:])


Train = Callable[..., Run]


def free_port() -> int:
    """A port outside the range from which the kernel takes ports of its own accord."""
    for port in range(20000 + os.getpid() % 8000, 32000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    raise AssertionError("no free port")


def places(ranks: int) -> list[dict[str, str]]:
    """Each rank's variables, as torchrun sets them on one node."""
    port = str(free_port())
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "PYTHONPATH": str(MODULES)}
    common |= {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1"}
    return [{**common, "RANK": str(n), "LOCAL_RANK": str(n)} for n in range(ranks)]


def environment() -> dict[str, str]:
    paths = [str(MODULES), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 documents of 300 tokens whose next token mostly follows from the last: learnable."""
    path = tmp_path_factory.mktemp("data") / "set"
    random = np.random.default_rng(0)
    with megatron_mmap.Writer(path) as writer:
        for _ in range(40):
            jumps = random.random(300) < 0.1
            steps = np.where(jumps, random.integers(0, 32, 300), 3)
            writer.add_document(np.cumsum(steps) % 32)
    return path


@pytest.fixture(scope="module")
def train(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Train:
    """Run ranks of the trainer, forked from a process with torch; the same arguments once."""

    @functools.cache
    def run(ranks: int, *words: str) -> Run:
        argv = [str(TRAINER / "train.py"), "--data-path", str(prefix), *SHAPE, *words]
        return Run(*rank.run_all([argv] * ranks, places(ranks), tmp_path_factory.mktemp("run")))

    return run


@pytest.fixture(scope="module")
def launch(prefix: Path) -> Train:
    """Run the trainer under torchrun."""

    def run(ranks: int, *words: str, address_space: int = 0) -> Run:
        command = [
            *(sys.executable, "-m", "torch.distributed.run", "--nnodes", "1", "--node_rank", "0"),
            *("--nproc_per_node", str(ranks), "--master_addr", "127.0.0.1"),
            *("--master_port", str(free_port()), str(TRAINER / "train.py")),
            *("--data-path", str(prefix), *SHAPE, *words),
        ]

        def limit() -> None:
            if address_space:
                resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))

        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=environment(),
            timeout=120,
            check=False,
            preexec_fn=limit,  # the tests have no threads
        )
        return Run(done.returncode, done.stdout, done.stderr)

    return run


BASE = ("--zero-stage", "0", "--micro-batch-size", "4")


def test_the_loss_falls_and_the_lines_are_as_documented(launch: Train, train: Train) -> None:
    run = launch(2, *BASE)
    assert run.column("loss") == train(2, *BASE).column("loss")
    assert run.status == 0, run.err
    assert [step["step"] for step in run.steps] == [str(i) for i in range(1, 9)]
    losses = run.column("loss")
    assert losses[0] == pytest.approx(np.log(256), abs=0.1)
    assert losses[-1] < losses[0] - 0.5
    assert run.steps[0]["allocated"] == "-,-"
    assert len(run.steps[0]["rss"].split(",")) == 2
    for step in run.steps:
        seconds = float(step["step_time_ms"]) / 1000
        assert float(step["samples_per_s"]) == pytest.approx(8 / seconds, rel=0.01)
    assert run.config["world_size"] == run.config["data_parallel_size"] == "2"
    assert run.config["accumulation"] == "1"
    assert run.config["documents"] == "40"
    assert re.search(r"^torch_gpt done steps=8 wall_s=\d+\.\d$", run.out, re.MULTILINE)


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_the_stages_agree(train: Train, stage: int) -> None:
    run = train(2, "--zero-stage", str(stage), "--micro-batch-size", "4")
    assert run.status == 0, run.err
    assert run.column("loss") == pytest.approx(train(2, *BASE).column("loss"), abs=2e-4)
    assert run.column("grad_norm") == pytest.approx(train(2, *BASE).column("grad_norm"), rel=2e-2)


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        (1, ("--zero-stage", "0", "--micro-batch-size", "8")),
        (1, ("--zero-stage", "3", "--micro-batch-size", "2")),
        (2, ("--zero-stage", "1", "--micro-batch-size", "1")),
        (2, ("--zero-stage", "2", "--micro-batch-size", "2")),
    ],
)
def test_ranks_and_accumulation_change_nothing(
    train: Train, ranks: int, words: tuple[str, ...]
) -> None:
    run = train(ranks, *words)
    assert run.status == 0, run.err
    assert run.column("loss") == pytest.approx(train(2, *BASE).column("loss"), abs=2e-4)


@pytest.mark.parametrize("stage", ["2", "3"])
@pytest.mark.parametrize("micro_batch", ["1", "2", "4"])
def test_when_gradients_are_reduced_changes_nothing(
    train: Train, stage: str, micro_batch: str
) -> None:
    run = train(
        *(2, "--zero-stage", stage, "--micro-batch-size", micro_batch),
        *("--gradient-reduction", "last_pass"),
    )
    assert run.status == 0, run.err
    assert run.config["accumulation"] == str(4 // int(micro_batch))
    assert " gradient_reduction=last_pass\n" in run.out
    assert run.column("loss") == pytest.approx(train(2, *BASE).column("loss"), abs=2e-4)
    assert run.column("grad_norm") == pytest.approx(train(2, *BASE).column("grad_norm"), rel=2e-2)


def test_gradients_in_bf16_are_those_in_fp32_to_its_precision(train: Train) -> None:
    words = (
        *("--zero-stage", "2", "--precision", "bf16", "--micro-batch-size", "1"),
        *("--gradient-reduction", "last_pass"),
    )
    exact, run = train(2, *words), train(2, *words, "--grad-reduce-in-bf16")
    assert run.status == 0, run.err
    assert run.config["grad_reduce_in_bf16"] == "True"
    assert run.column("loss") == pytest.approx(exact.column("loss"), abs=5e-3)
    assert run.column("grad_norm") == pytest.approx(exact.column("grad_norm"), rel=2e-2)
    assert run.column("grad_norm") != exact.column("grad_norm")


@pytest.mark.parametrize(
    "words",
    [
        ("--tensor-parallel", "2", "--micro-batch-size", "8"),
        ("--tensor-parallel", "2", "--micro-batch-size", "4", "--zero-stage", "3"),
        ("--tensor-parallel", "2", "--micro-batch-size", "8", "--cross-entropy-chunks", "3"),
        ("--pipeline-parallel", "2", "--micro-batch-size", "4"),
    ],
)
def test_splitting_the_model_changes_nothing(train: Train, words: tuple[str, ...]) -> None:
    run = train(2, *words)
    assert run.status == 0, run.err
    assert run.config["data_parallel_size"] == "1"
    assert run.column("loss") == pytest.approx(train(2, *BASE).column("loss"), abs=2e-4)
    assert run.column("grad_norm") == pytest.approx(train(2, *BASE).column("grad_norm"), rel=2e-2)


LLAMA = (
    *("--model", "llama3-debug", "--num-attention-heads", "4", "--num-query-groups", "2"),
    *("--ffn-hidden-size", "96", "--num-layers", "2", "--micro-batch-size", "4"),
)


@pytest.mark.parametrize(
    "words",
    [
        ("--tensor-parallel", "2", "--zero-stage", "1", "--micro-batch-size", "8"),
        ("--pipeline-parallel", "2"),
        ("--zero-stage", "3", "--activation-checkpointing", "full"),
    ],
)
def test_splitting_a_llama_changes_nothing(train: Train, words: tuple[str, ...]) -> None:
    whole = train(1, *LLAMA)
    assert whole.status == 0, whole.err
    assert whole.column("loss")[-1] < whole.column("loss")[0] - 0.5
    run = train(2, *LLAMA, *words)
    assert run.status == 0, run.err
    assert run.column("loss") == pytest.approx(whole.column("loss"), abs=2e-4)
    assert run.column("grad_norm") == pytest.approx(whole.column("grad_norm"), rel=2e-2)


@pytest.mark.nightly("training")
@pytest.mark.parametrize(
    "words",
    [
        ("--tensor-parallel", "2", "--pipeline-parallel", "2", "--micro-batch-size", "4"),
        (
            *("--tensor-parallel", "2", "--zero-stage", "2", "--micro-batch-size", "2"),
            *("--gradient-reduction", "last_pass"),
        ),
        (
            "--pipeline-parallel",
            "2",
            "--micro-batch-size",
            "2",
            "--activation-checkpointing",
            "full",
        ),
    ],
)
def test_four_ranks_split_the_model_and_the_data(train: Train, words: tuple[str, ...]) -> None:
    run = train(4, *words)
    assert run.status == 0, run.err
    assert run.column("loss") == pytest.approx(train(2, *BASE).column("loss"), abs=2e-4)
    assert run.column("grad_norm") == pytest.approx(train(2, *BASE).column("grad_norm"), rel=2e-2)


@pytest.mark.parametrize(("stage", "which"), [("0", "selective"), ("3", "full")])
def test_activation_checkpointing_changes_nothing(train: Train, stage: str, which: str) -> None:
    words = ("--zero-stage", stage, "--micro-batch-size", "4", "--activation-checkpointing", which)
    run = train(2, *words)
    assert run.status == 0, run.err
    assert run.column("loss") == pytest.approx(train(2, *BASE).column("loss"), abs=2e-4)


def test_the_seed_fixes_the_curve(train: Train) -> None:
    again = train(2, *BASE, "--seed", "1234")  # the default, but another call
    assert again.column("loss") == train(2, *BASE).column("loss")
    other = train(2, *BASE, "--seed", "1")
    assert other.column("loss") != again.column("loss")


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("stage", ["1", "3"])
def test_half_precision_stays_close(train: Train, precision: str, stage: str) -> None:
    run = train(2, "--zero-stage", stage, "--micro-batch-size", "4", "--precision", precision)
    assert run.status == 0, run.err
    assert sum(run.column("nan")) == 0
    if sum(run.column("skipped")) == 0:
        assert run.column("loss") == pytest.approx(train(2, *BASE).column("loss"), abs=0.05)


@pytest.mark.nightly("training")
def test_float8_stays_close(train: Train, launch: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gathered in float8 by FSDP2. Compiling for a CPU takes a minute, and is left out here."""
    pytest.importorskip("torchao", reason="an environment from before torchao was in the pin set")
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    words = ("--zero-stage", "3", "--micro-batch-size", "4", "--precision", "fp8")
    run = launch(2, *words, "--compile", "block")
    assert run.status == 0, run.err
    assert "Failed to load" not in run.err
    assert run.column("loss") == pytest.approx(train(2, *BASE).column("loss"), abs=0.1)


def test_a_diverging_run_is_counted_and_ends_well(train: Train) -> None:
    run = train(
        1, *BASE, "--lr", "1e30", "--log-interval", "3", "--clip-grad", "0", "--train-iters", "7"
    )
    assert run.status == 0, run.err
    assert [step["step"] for step in run.steps] == ["3", "6", "7"]
    assert sum(run.column("nan")) >= 4
    assert run.steps[-1]["loss"] == "nan"


SLOW_REPORT = """\
import builtins, runpy, sys, time
show = print
def slow(*words, **options):
    time.sleep(0.2 if words[1:2] and str(words[1]).startswith("step=") else 0)
    show(*words, **options)
builtins.print = slow
sys.path.insert(0, {folder!r})
runpy.run_path({program!r}, run_name="__main__")
"""


def test_a_window_goes_from_one_reading_of_the_clock_to_the_next(
    prefix: Path, tmp_path: Path
) -> None:
    """The clock stopped while a line was reported: that took no time, by the trainer's lines.

    As in Megatron-LM, whose interval-time goes on (core_v0.13.0 megatron/core/timers.py, elapsed
    with reset=True), what a report takes is in the window behind it.
    """
    program = tmp_path / "slow.py"
    program.write_text(SLOW_REPORT.format(folder=str(TRAINER), program=str(TRAINER / "train.py")))
    words = ("--data-path", str(prefix), *SHAPE, "--train-iters", "5", "--log-interval", "2")
    run = Run(*rank.run_all([[str(program), *words]], places(1), tmp_path))
    assert run.status == 0, run.err
    assert [step["step"] for step in run.steps] == ["2", "4", "5"]
    _, two, one = run.column("step_time_ms")
    assert two >= 100  # of each of the window's two iterations
    assert one >= 200


def test_validation_at_the_end(train: Train) -> None:
    run = train(2, "--zero-stage", "3", "--micro-batch-size", "4", "--eval-iters", "2")
    assert run.status == 0, run.err
    found = re.search(r"^torch_gpt eval samples=16 loss=(\d\.\d{5})$", run.out, re.MULTILINE)
    assert found
    assert float(found[1]) < 5.5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--global-batch-size", "7"), "--global-batch-size 7 is not a multiple"),
        (("--data-path", "absent/set"), "absent/set.idx is missing"),
        (("--vocab-size", "20"), "not in a vocabulary of 20; raise --vocab-size"),
        (("--split", "999,1,0"), "leaves the valid part without documents"),
    ],
)
def test_expected_errors_are_one_line(train: Train, words: tuple[str, ...], message: str) -> None:
    run = train(2, *BASE, *words)
    assert run.status in (1, 2)
    assert len(run.errors) == 1, run.err
    assert message in run.errors[0]
    assert 'train.py", line' not in run.err


def test_out_of_memory_says_what_to_lower(launch: Train) -> None:
    run = launch(1, *BASE, "--hidden-size", "16384", address_space=6 << 30)
    assert run.status == 1
    assert len(run.errors) == 1, run.err
    assert "out of memory on the host" in run.errors[0]
    assert "lower --micro-batch-size" in run.errors[0]


def test_ranks_started_differently_are_refused(prefix: Path, tmp_path: Path) -> None:
    command = [str(TRAINER / "train.py"), "--data-path", str(prefix), *SHAPE]
    argvs = [[*command, "--global-batch-size", batch] for batch in ("8", "16")]
    run = Run(*rank.run_all(argvs, places(2), tmp_path))
    assert run.status == 1
    assert run.err == (
        "torch_gpt error: rank 1 was started with --global-batch-size 16 but rank 0 with 8; start "
        "all nodes with the same arguments\n"
    )


def test_without_torchrun_it_is_one_rank_that_leaves_without_pythons_finalization(
    prefix: Path, tmp_path: Path
) -> None:
    """What made FSDP2 ranks abort at exit, see world.leave: only a busy machine shows it."""
    mark = "import atexit\natexit.register(print, 'finalized')\n"
    (tmp_path / "sitecustomize.py").write_text(mark)
    command = [sys.executable, str(TRAINER / "train.py"), "--data-path", str(prefix), *SHAPE]
    paths = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{environment()['PYTHONPATH']}"}
    said = {}
    for words, finalized in (("--train-iters=2", False), ("--help", True)):
        done = subprocess.run(
            [*command, words],
            capture_output=True,
            text=True,
            env={**environment(), **paths},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith("finalized\n") == finalized
        said[words] = Run(done.returncode, done.stdout, done.stderr)
    run = said["--train-iters=2"]
    assert run.config["world_size"] == "1"
    assert len(run.steps) == 2


@pytest.mark.nightly("training")
@pytest.mark.timeout(1800)
def test_fsdp_ranks_always_leave_in_order(launch: Train) -> None:
    """60 runs of two FSDP2 ranks: none may abort at exit, as torch 2.13 with gloo was seen to."""
    statuses = []
    for i in range(60):
        words = ("--zero-stage", str(2 + i % 2), "--micro-batch-size", "4", "--train-iters", "3")
        statuses.append(launch(2, *words, "--seed", str(i)).status)
    assert statuses == [0] * 60
