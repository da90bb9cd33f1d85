"""Compiled, the models learn what they learn eagerly, on this machine's CPU.

What torch.compile records of a block, of the loss and of a whole model, forward and backward, runs
here by PyTorch's own kernels (`aot_eager`): that takes a second a graph. Kernels in C++ take a
minute, and are slow tests.
"""

import copy
import functools
import importlib
import logging
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")


ROOT = Path(__file__).parents[2]
TRAINER = ROOT / "roles" / "torch_gpt" / "files" / "torch_gpt"
sys.path[:0] = [str(ROOT / "node" / "dataset"), str(TRAINER)]
arguments, compiling, megatron_mmap, model = (
    importlib.import_module(name) for name in ("arguments", "compiling", "megatron_mmap", "model")
)

SHAPE = ("--num-layers", "2", "--hidden-size", "64", "--seq-length", "16", "--vocab-size", "256")
LLAMA = ("--model", "llama3-debug", "--num-attention-heads", "4", "--num-query-groups", "2")
EIGHT = ("--train-iters", "8", "--log-interval", "1")
GPT2 = ("--num-attention-heads", "2")


def learned(decoder: Any, batch: Any) -> tuple[float, dict[str, Any]]:
    """The loss, and each parameter's gradient."""
    loss = decoder(*batch)
    loss.backward()
    return loss.item(), {name: each.grad for name, each in decoder.named_parameters()}


@pytest.mark.parametrize(
    "words",
    [
        (*GPT2, "--compile", "block"),
        (*LLAMA, "--compile", "block", "--activation-checkpointing", "selective"),
        (*LLAMA, "--compile", "model", "--cross-entropy-chunks", "2"),
    ],
)
def test_compiled_is_as_eager(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    options = arguments.parse(["--data-path", "/data/set", *SHAPE, *words])
    torch.manual_seed(0)
    eager = model.Decoder(options, 256)
    eager.prepare(torch.device("cpu"))
    compiled = copy.deepcopy(eager)
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    trace = logging.getLogger("torch.__trace")  # pytest would keep thousands of its lines
    monkeypatch.setattr(trace, "propagate", False)
    torch._dynamo.reset()
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    compiling.compile_model(compiled, options)
    tokens = torch.randint(256, (2, 17))
    batch = tokens[:, :-1], tokens[:, 1:]
    loss, gradients = learned(compiled, batch)
    expected, each = learned(eager, batch)
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"] - graphs
    assert graphs == {"model": 1, "block": 2}[options.compile]
    assert loss == pytest.approx(expected, rel=1e-6)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, each[name], rtol=1e-4, atol=1e-6)


def test_a_block_stays_one_graph_within_ddp(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    wide = ("--hidden-size", "256")  # of 3 MiB; DDP's first bucket has 1
    options = arguments.parse(["--data-path", "/data", *SHAPE, *wide, *GPT2, "--compile", "block"])
    decoder = model.Decoder(options, 256)
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))
    monkeypatch.setattr(logging.getLogger("torch.__trace"), "propagate", False)
    torch._dynamo.reset()
    compiling.compile_model(decoder, options)
    alone = {"store": torch.distributed.HashStore(), "rank": 0, "world_size": 1}
    torch.distributed.init_process_group("gloo", **alone)
    try:
        spread = torch.nn.parallel.DistributedDataParallel(decoder)
        tokens = torch.randint(256, (2, 17))
        spread(tokens[:, :-1], tokens[:, 1:]).backward()
        # Its reducer is not to be the last to let go of the group: it would join gloo's thread
        # with Python's lock held, for which that thread may wait.
        del spread
    finally:
        torch.distributed.destroy_process_group()
    assert len(graphs) == 2  # of all blocks, and of the loss


def without_kernels() -> str:
    """What torch.compile lacks here to make kernels for a CPU, or nothing."""
    if not shutil.which("g++"):
        return "no g++"
    header = Path(sysconfig.get_path("include"), "Python.h")
    return "" if header.is_file() else f"no {header}"


@pytest.mark.nightly("training")
@pytest.mark.skipif(bool(without_kernels()), reason=without_kernels())
def test_a_compiled_run_has_the_eager_ones_curve(tmp_path: Path) -> None:
    curves = []
    for how in ("none", "block"):
        printed = eight_iterations(tmp_path, "--compile", how)
        found = re.findall(r" loss=(\S+) grad_norm=(\S+)", printed)
        curves.append([(float(loss), float(norm)) for loss, norm in found])
        assert f"compile_cache={'none' if how == 'none' else 'cold'} " in printed
    eager, compiled = curves
    assert len(eager) == 8
    assert compiled == [pytest.approx(both, rel=1e-3) for both in eager]


@pytest.mark.nightly("training")
@pytest.mark.skipif(bool(without_kernels()), reason=without_kernels())
def test_the_cache_gives_no_run_another_kernel_of_attention(tmp_path: Path) -> None:
    for backend, ran in (("auto", "cpu_flash"), ("math", "math"), ("math", "math")):
        asked = ("--compile", "block", "--attention-backend", backend)
        printed = eight_iterations(tmp_path, *asked)
        assert f" attention={ran} " in printed, backend
    assert "compile_cache=warm " in printed


def eight_iterations(folder: Path, *words: str) -> str:
    """What a run on a CPU prints whose data and compile cache lie in the folder."""
    tokens = np.random.default_rng(7)
    with megatron_mmap.Writer(folder / "text_document") as writer:
        for _ in range(20):
            writer.add_document(tokens.integers(0, 64, 1_000).tolist())
    data = ("--data-path", str(folder / "text_document"), "--split", "1,0,0", "--device", "cpu")
    paths = os.pathsep.join([str(ROOT / "node" / "dataset"), os.environ["PYTHONPATH"]])
    own = {"PYTHONPATH": paths, "TORCHINDUCTOR_CACHE_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, TRAINER / "train.py", *data, *SHAPE, *GPT2, *words, *EIGHT],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
