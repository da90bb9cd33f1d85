"""Checkpoints of torch_gpt on this machine's CPU: what goes on is what would have gone on."""

import functools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from tests.torch_gpt import rank
from tests.torch_gpt.test_training import (  # noqa: F401
    SHAPE,
    TRAINER,
    Run,
    environment,
    places,
    prefix,
)

LAYOUTS = {
    "ddp": (2, ()),
    "zero1": (2, ("--zero-stage", "1")),
    "zero3": (2, ("--zero-stage", "3")),
    "tp": (2, ("--tensor-parallel", "2")),
    "pp": (2, ("--pipeline-parallel", "2")),
    "one": (1, ()),
    "tp-zero2": (4, ("--tensor-parallel", "2", "--zero-stage", "2")),
}
MOE = (
    *("--model", "moe-debug", "--kv-channels", "32", "--moe-ffn-hidden-size", "32"),
    *("--micro-batch-size", "4"),
)
SAVED = 4  # of 8 iterations
Train = Callable[..., Run]
Unbroken = Callable[..., tuple[Path, list[str]]]


@pytest.fixture(scope="module")
def train(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Train:  # noqa: F811
    """Run ranks with checkpoints in a folder; those of one folder go on from each other."""

    def run(folder: Path, ranks: int, *words: str, token: str = "t") -> Run:
        argv = [
            *(str(TRAINER / "train.py"), "--data-path", str(prefix), *SHAPE),
            *("--micro-batch-size", "2", "--checkpoint-dir", str(folder)),
            *("--checkpoint-token", token, *words),
        ]
        return Run(*rank.run_all([argv] * ranks, places(ranks), tmp_path_factory.mktemp("run")))

    return run


@pytest.fixture(scope="module")
def unbroken(train: Train, tmp_path_factory: pytest.TempPathFactory) -> Unbroken:
    """A layout's run to the end, with one checkpoint on the way: its folder, its losses."""

    @functools.cache
    def run(layout: str, *words: str) -> tuple[Path, list[str]]:
        ranks, options = LAYOUTS[layout]
        folder = tmp_path_factory.mktemp(layout)
        done = train(folder, ranks, *options, "--checkpoint-interval", str(SAVED), *words)
        assert done.status == 0, done.err
        return folder, losses(done)

    return run


def losses(run: Run) -> list[str]:
    return re.findall(r"torch_gpt step=\d+/\d+ .* loss=(\S+) ", run.out)


def words(run: Run, kind: str) -> list[dict[str, str]]:
    found = [line for line in run.out.splitlines() if line.startswith(f"torch_gpt {kind} ")]
    return [dict(word.split("=", 1) for word in line.split()[2:]) for line in found]


def state(folder: Path, step: int, out: Path) -> dict[str, torch.Tensor]:
    dcp_to_torch_save(folder / f"step-{step:08d}", out)
    loaded: dict[str, torch.Tensor] = torch.load(out)
    return {name: value for name, value in loaded.items() if not name.startswith("random.")}


@pytest.mark.parametrize("words_", [(), ("--checkpoint-async",)], ids=["sync", "async"])
@pytest.mark.parametrize("layout", ["ddp", "zero3"])
def test_what_goes_on_is_the_unbroken_run_bit_for_bit(
    tmp_path: Path, train: Train, unbroken: Unbroken, layout: str, words_: tuple[str]
) -> None:
    """Weights and moments at iteration 6, of a run that went on at 4 and of one that did not."""
    ranks, options = LAYOUTS[layout]
    whole = train(tmp_path / "whole", ranks, *options, "--checkpoint-interval", "6", *words_)
    source, _ = unbroken(layout, *words_)
    shutil.copytree(source, tmp_path / "on")
    on = train(tmp_path / "on", ranks, *options, "--checkpoint-interval", "6", *words_)
    assert (whole.status, on.status) == (0, 0), on.err
    assert [each["step"] for each in words(on, "resumed")] == ["4"]
    assert losses(on) == losses(whole)[4:]
    ours, theirs = (state(tmp_path / each, 6, tmp_path / f"{each}.pt") for each in ("on", "whole"))
    assert ours.keys() == theirs.keys()
    assert any(name.endswith("exp_avg_sq") for name in ours)
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]), name


PAIRS = [(a, b) for a in LAYOUTS for b in LAYOUTS]
ALWAYS = [("ddp", "tp"), ("tp", "zero3"), ("zero1", "pp"), ("pp", "one"), ("tp-zero2", "ddp")]


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(
            pair, id="-".join(pair), marks=() if pair in ALWAYS else pytest.mark.nightly("training")
        )
        for pair in PAIRS
    ],
)
def test_any_layout_goes_on_in_any_other(
    tmp_path: Path, train: Train, unbroken: Unbroken, pair: tuple[str, str]
) -> None:
    source, _ = unbroken(pair[0])
    _, reference = unbroken(pair[1])
    shutil.copytree(source, tmp_path / "on")
    ranks, options = LAYOUTS[pair[1]]
    on = train(tmp_path / "on", ranks, *options)
    assert on.status == 0, on.err
    assert [each["step"] for each in words(on, "resumed")] == ["4"]
    wanted = [float(loss) for loss in reference[SAVED:]]
    assert [float(loss) for loss in losses(on)] == pytest.approx(wanted, abs=2e-4)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ((2, ("--expert-parallel", "2")), (1, ())),
        ((1, ()), (2, ("--expert-parallel", "2", "--zero-stage", "1"))),
        ((2, ("--expert-parallel", "2", "--zero-stage", "3")), (2, ("--expert-parallel", "2"))),
    ],
)
def test_experts_go_on_in_other_layouts(
    tmp_path: Path, train: Train, first: tuple[int, tuple[str]], then: tuple[int, tuple[str]]
) -> None:
    """The losses of one rank, which no layout changes by more than rounding."""
    saved = train(tmp_path, first[0], *MOE, *first[1], "--checkpoint-interval", str(SAVED))
    assert saved.status == 0, saved.err
    on = train(tmp_path, then[0], *MOE, *then[1])
    assert on.status == 0, on.err
    wanted = [float(loss) for loss in losses(saved)[SAVED:]]
    assert len(wanted) == 4
    assert [float(loss) for loss in losses(on)] == pytest.approx(wanted, abs=5e-4)


def test_a_torn_checkpoint_is_refused_and_the_one_before_taken(
    tmp_path: Path, train: Train
) -> None:
    first = train(tmp_path, 2, "--checkpoint-interval", "2", "--checkpoint-keep", "3")
    assert [each["step"] for each in words(first, "checkpoint")] == ["2", "4", "6"]
    newest = tmp_path / "step-00000006"
    for shard in newest.glob("__1_*"):
        os.truncate(shard, shard.stat().st_size // 2)
    (data,) = (tmp_path / "step-00000004").glob("__0_*")
    data.write_bytes(data.read_bytes()[:-8] + b"........")
    on = train(tmp_path, 2)
    refused = words(on, "checkpoint")
    assert [each["refused"] for each in refused] == ["step-00000006", "step-00000004"]
    assert "bytes" in refused[0]["why"]
    assert "checksum" in refused[1]["why"]
    assert [each["step"] for each in words(on, "resumed")] == ["2"]
    assert losses(on) == losses(first)[2:]


def test_a_checkpoint_of_another_campaign_is_never_loaded(tmp_path: Path, train: Train) -> None:
    train(tmp_path, 1, "--checkpoint-interval", "4")
    on = train(tmp_path, 1, token="another")
    assert [each["why"] for each in words(on, "checkpoint")] == ["another_campaign_wrote_it"]
    assert [each["step"] for each in words(on, "resumed")] == ["0"]


def test_the_newest_stay(tmp_path: Path, train: Train) -> None:
    done = train(tmp_path, 1, "--checkpoint-interval", "1", "--checkpoint-keep", "2")
    assert done.status == 0, done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000006", "step-00000007"]
    manifest = json.loads((tmp_path / "step-00000007" / "trainbench.json").read_text())
    assert manifest["samples"] == 56


@pytest.mark.cluster
@pytest.mark.parametrize(
    "more",
    [
        pytest.param((), id="sync", marks=pytest.mark.nightly("training")),
        pytest.param(("--checkpoint-async",), id="async"),
    ],
)
def test_a_full_disk_ends_no_training(tmp_path: Path, train: Train, more: tuple[str]) -> None:
    """A small file system takes one checkpoint, no second one beside it."""
    alone = train(tmp_path / "alone", 1, "--checkpoint-interval", "4")
    size = int(words(alone, "checkpoint")[0]["bytes"])
    disk = tmp_path / "disk"
    disk.mkdir()
    limit = f"size={int(size * 1.5)}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", limit, "tmpfs", str(disk)], check=True)
    try:
        done = train(
            disk / "kept", 1, "--checkpoint-interval", "2", "--checkpoint-keep", "1", *more
        )
        on = train(disk / "kept", 1)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert done.status == 0, done.err
    saves = words(done, "checkpoint")
    assert saves[0]["step"] == "2"
    assert {"failed": "4", "why": "No_space_left_on_device"} in saves
    assert [each["step"] for each in words(on, "resumed")] == ["2"]
    assert losses(on) == losses(done)[2:]


@pytest.mark.nightly("training")
@pytest.mark.parametrize("more", [(), ("--checkpoint-async",)], ids=["sync", "async"])
def test_killed_at_random_it_never_goes_on_wrong(
    tmp_path: Path,
    prefix: Path,  # noqa: F811
    more: tuple[str, ...],
) -> None:
    """SIGKILL to all ranks at a random moment; what goes on has the unbroken run's losses.

    KILLS says how often; each kill is of a run that saves after each iteration.
    """
    dice, kills = random.Random(40), int(os.environ.get("KILLS", "4"))  # no secret
    paths = {"PYTHONPATH": environment()["PYTHONPATH"]}  # torch's, too

    def start(folder: Path) -> list[subprocess.Popen[str]]:
        argv = [
            *(sys.executable, str(TRAINER / "train.py"), "--data-path", str(prefix), *SHAPE),
            *("--micro-batch-size", "2", "--train-iters", "40", "--checkpoint-interval", "1"),
            *("--checkpoint-dir", str(folder), "--checkpoint-token", "t", *more),
        ]
        return [
            subprocess.Popen(
                argv,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, **place, **paths},
            )
            for place in places(2)
        ]

    def said(ranks: list[subprocess.Popen[str]]) -> str:
        return "".join(process.communicate()[0] for process in ranks)

    def numbered(out: str) -> dict[str, str]:
        return dict(re.findall(r"torch_gpt step=(\d+)/\d+ .* loss=(\S+) ", out))

    reference = numbered(said(start(tmp_path / "whole")))
    assert len(reference) == 40
    folder, wrong, resumed = tmp_path / "on0", [], []
    for number in range(1, kills + 1):
        ranks = start(folder)
        assert ranks[0].stdout is not None
        first = next((line for line in ranks[0].stdout if "resumed" in line), "")
        resumed += re.findall(r"step=(\d+)", first)
        if number == 1:  # something is there to go on from, however busy this machine is
            next((line for line in ranks[0].stdout if " step=3/" in line), "")
        time.sleep(dice.uniform(0, 1.0))
        for process in ranks:
            process.send_signal(signal.SIGKILL)
        seen = numbered(said(ranks))
        wrong += [at for at, loss in seen.items() if loss != reference[at]]
        print(f"kill {number}: went on at {resumed[-1:]}, {len(wrong)} wrong so far", flush=True)
        if "40" in seen:  # it came through: the next begins again
            folder = tmp_path / f"on{number}"
    seen = numbered(said(start(folder)))
    wrong += [at for at, loss in seen.items() if loss != reference[at]]
    assert wrong == []
    assert "40" in seen
    assert any(int(step) > 0 for step in resumed)
    print(f"{kills} kills, went on at {resumed}, 0 wrong")
