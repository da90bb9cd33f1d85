"""The check that fast paths learn alike: what it catches, what it skips, how its runs go on.

The curves of tests/data/same_learning.json were measured by `python -m benchmarks.same_learning
--faults --model gpt2-tiny`: the reference with seeds 1 to 3, and what is planted, with seed 1.
"""

import importlib
import json
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.same_learning import jobs, noise, paths, plot, table
from benchmarks.same_learning.jobs import Job, Store
from benchmarks.same_learning.noise import Curves
from benchmarks.same_learning.paths import FAULTS, PATHS, REFERENCE, Machine

STORED = Path(__file__).parents[1] / "data" / "same_learning.json"
TRAINER = Path(__file__).parents[2] / "roles" / "torch_gpt" / "files" / "torch_gpt"
LAPTOP = Machine("cpu", 2, "CPU", "2.13.0", 0.0, torchao=False, compiler=False)
H200 = Machine("cuda", 2, "NVIDIA H200", "2.11.0", 9.0, torchao=True, compiler=True)
EVERY = list(noise.LIMITS)
# What is seen of each fault, were it in a path that computes so.
CAUGHT = {
    **dict.fromkeys(
        (
            *("learning rate 10 % off", "gradients not clipped", "gradients x 0.9"),
            "gradients of all passes but the last lost",
            "gradients of an eighth of the tokens lost",
            "half of each bias' gradient doubled",
            *("each rank the same samples", "samples of the iteration before", "causal mask lost"),
        ),
        EVERY,
    ),
    "AdamW's second beta 0.999": ["fp32", "16 bits"],
    "weights kept in bf16": ["fp32"],
    "weight decay of norms and biases": [],
}


@pytest.fixture(scope="module")
def model() -> table.Model:
    stored: Mapping[str, Mapping[str, list[float]]] = json.loads(STORED.read_text())
    curves = {
        name: Curves(np.array(each["loss"]), np.log(np.array(each["norm"])))
        for name, each in stored.items()
    }
    references = [curves[f"{REFERENCE.name}, seed {seed}"] for seed in (1, 2, 3)]
    lines = [table.Line(path, curves[path.name]) for path in FAULTS]
    return table.Model("gpt2-tiny", [1, 2, 3], references, lines)


def test_what_is_caught_and_what_is_not(model: table.Model) -> None:
    """A fault is looked for in each arithmetic: where a path rounds more, fewer are seen."""
    caught = {
        line.path.name: [each for each in EVERY if model.ratios(line).beyond(each)]  # type: ignore[union-attr]  # each has curves
        for line in model.lines
        if line.path.wrong
    }
    assert caught == CAUGHT


def test_what_is_honest_is_the_same(model: table.Model) -> None:
    honest = [line for line in model.lines if not line.path.wrong]
    assert [line.path.arithmetic for line in honest] == ["fp32", "16 bits"]
    assert [model.differs(line) for line in honest] == [[], []]


def test_another_seed_is_as_far_as_the_noise(model: table.Model) -> None:
    for reference in model.references[1:]:
        ratios = noise.ratios(reference, model.references)
        assert all(0.5 < ratio < 2 for ratio in ratios.named().values())


def test_a_loss_that_is_no_number_differs(model: table.Model) -> None:
    loss = model.references[0].loss.copy()
    loss[150] = np.nan
    ratios = noise.ratios(replace(model.references[0], loss=loss), model.references)
    assert ratios.beyond("fp8") == ["loss whole"]


def test_the_tables_say_it(model: table.Model) -> None:
    written = model.markdown()
    assert written.count("the noise") == 2
    assert "caught in fp32, 16 bits, fp8" in written
    lines = [*model.lines, table.Line(PATHS[0], None, "skipped: needs a GPU")]
    drawn = replace(model, lines=lines)
    assert "skipped: needs a GPU" in drawn.markdown()
    csv = table.csv([drawn]).splitlines()
    assert csv[0] == "model,path,seed,iteration,loss,grad_norm"
    assert len(csv) == 1 + 200 * (3 + len(FAULTS))
    root = ET.fromstring(plot.svg(drawn))
    assert root.tag.endswith("svg")
    assert not any("var(" in value for each in root.iter() for value in each.attrib.values())


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_trainer_takes_every_path(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TRAINER))
    arguments = importlib.import_module("arguments")
    for model in paths.MODELS[device]:
        for path in (REFERENCE, *PATHS, *FAULTS):
            options = arguments.parse(paths.argv(path, model, device, "/data/set", 200, 1))
            arguments.accumulation(options, path.ranks)


def test_what_a_machine_lacks_is_said() -> None:
    skipped = {path.name: path.lacks(LAPTOP) for path in PATHS}
    assert skipped["compile block"] == "torch.compile needs a C++ compiler and Python's headers"
    assert skipped["bf16 cudnn"] == skipped["fp8, all defaults"] == "needs a GPU"
    assert skipped["zero_stage 3"] == skipped["cross entropy in pieces"] == ""
    assert not any(path.lacks(H200) for path in (REFERENCE, *PATHS, *FAULTS))
    one = replace(H200, devices=1, torchao=False)
    assert {path.lacks(one) for path in PATHS} == {"", "needs 2 devices, has 1", "needs torchao"}
    old = {path.lacks(replace(H200, capability=8.0)) for path in PATHS}
    assert old == {"", "needs CUDA of compute capability 8.9 or more"}


def interpreter(folder: Path) -> str:
    """What stands for Python with torch: it prints the trainer's last line, or its error."""
    program = folder / "python"
    program.write_text(
        f'#!/bin/sh\necho "$0 $*" >> {folder}/started\n'
        'case "$*" in *" bad") echo "torch_gpt error: no good"; exit 1;; *" slow") sleep 60; esac\n'
        'echo "torch_gpt done steps=1 wall_s=1.0"\n'
    )
    program.chmod(0o755)
    return str(program)


def test_what_ended_well_is_kept_and_not_run_again(tmp_path: Path) -> None:
    python, store = interpreter(tmp_path), Store(tmp_path / "out")
    good, bad = Job("good", ("a",)), Job("bad", ("bad",), 2)
    ended = {job.name: well for job, well, _ in jobs.train_all([good, bad], store, python, LAPTOP)}
    assert ended == {"good": True, "bad": False}
    assert store.log(good) == b"torch_gpt done steps=1 wall_s=1.0\n"
    assert (store.log(bad), store.why_not(bad)) == (None, "no good")
    assert store.log(replace(good, argv=("other",))) is None
    started = (tmp_path / "started").read_text().splitlines()
    assert sum("--nproc_per_node 2" in line for line in started) == 1


def test_an_interrupt_keeps_what_ended(tmp_path: Path) -> None:
    python, store = interpreter(tmp_path), Store(tmp_path / "out")
    ended = jobs.train_all([Job("a", ("a",)), Job("b", ("slow",))], store, python, LAPTOP)
    assert next(iter(ended))[0].name == "a"
    ended.close()
    assert sorted(path.name for path in store.folder.iterdir()) == ["a.json", "a.log"]


def test_each_run_has_its_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    job = Job("a", (), environ=tuple(paths.EXACT.items()))
    own = jobs.variables(job, [1], H200, Path("/out"))
    assert (own["CUDA_VISIBLE_DEVICES"], own["NVIDIA_TF32_OVERRIDE"]) == ("1", "0")
    assert own["TORCHINDUCTOR_CACHE_DIR"] == "/out/compile_cache/torchinductor"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    own = jobs.variables(job, [0, 1], H200, Path("/out"))
    assert own["CUDA_VISIBLE_DEVICES"] == "5,7"
    assert "CUDA_VISIBLE_DEVICES" not in jobs.variables(job, [0], LAPTOP, Path("/out"))
