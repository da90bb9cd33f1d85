"""`bisect` and `ci` on real repositories whose slow commit is known: how often they are right.

Bisect: each try makes a git repository of 30 commits, of which one, drawn from a seed, makes a
trainer 4 % slower; the trainer starts within a second. Its steps are a timer in place of a device,
30 or 31.2 ms long (a busy machine wakes it a millisecond late), and runs of one commit differ by a
standard deviation of 1 %: on a shared machine runs of a processor differ by 20 % and more. `torch`
is the same with a small model in torch on the processor, and 40 %. ci compares two commits of equal
speed each time, which compute on the processor; each `worse` is a false alarm. Everything else is
real: git, builds, processes of this machine, clocks.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT, TORCH_ENV
from tests.on_nodes.small_trainer import (
    commit,
    commits_of,
    loop,
    matrix,
    new_repository,
    variables,
    waiting,
)

COMMITS = 30
SEED = 42
INVENTORY = "inventory/one"
COMPARISONS, PAIRS = 20, 4  # by ci, and of each
Record = Callable[[str, object], None]
MODEL = """import time
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
layers = [torch.nn.Linear(256, 256) for _ in range(COUNT)]
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(128, 256)
for step in range(1, 101):
    began = time.process_time()
    loss = (model(data) - data).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    took = (time.process_time() - began) * 1000
    print(f"step {step}/100 | loss {loss.item():.4f} | dt: {took:.5f}ms", flush=True)
"""


def program(trainer: str, *, slow: bool) -> str:
    """A trainer's program before and after the slow commit."""
    if trainer == "torch":
        return MODEL.replace("COUNT", "28" if slow else "20")
    if trainer == "waiting":
        return waiting(31.2 if slow else 30.0, noise=0.01, steps=40)
    return loop(100_000, steps=100)


def repository(folder: Path, trainer: str, slow: int | None) -> None:
    """Make COMMITS commits and one before them; `slow` is the slow one's place."""
    python = TORCH_ENV / "bin/python3" if trainer == "torch" else Path(sys.executable)
    pin = {"existing_python": str(python), "source": {"repository": "."}}
    new_repository(folder, matrix(pin, ["python3", "train.py"], warmup_iters=10))
    for number in range(COMMITS + 1):
        text = program(trainer, slow=slow is not None and number >= slow)
        commit(folder, number, {"train.py": f"# change {number}\n{text}"})


def make_inventory(folder: Path) -> None:
    """This machine as the only node, with its own folder for versions."""
    made = folder / INVENTORY
    group = made / "group_vars" / "all"
    group.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "inventory" / "local" / "hosts.yml", made)
    (group / "cluster.yml").write_text(yaml.safe_dump(variables(str(folder / "root"))))


def asked(folder: Path, number: int, *words: str) -> tuple[dict[str, Any], int]:
    """Run a command of ours on try `number`'s repository; its answer and exit code."""
    where = ["-i", str(folder / INVENTORY), "--runs", str(folder / f"runs{number}")]
    argv = [sys.executable, "-m", "runner", *words, *where, "--format", "json"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False)
    return (json.loads(done.stdout) if done.stdout.strip() else {}), done.returncode


@pytest.mark.nightly("slowdowns", by_day="half an hour")
@pytest.mark.timeout(2400)
@pytest.mark.parametrize(("trainer", "tries"), [("waiting", 8), ("torch", 1)])
def test_bisect_names_the_slow_commit(
    trainer: str, tries: int, tmp_path: Path, record_property: Record
) -> None:
    make_inventory(tmp_path)
    places = random.Random(SEED)
    answers = []
    for number in range(1, tries + 1):
        slow = places.randrange(1, COMMITS + 1)
        place = tmp_path / f"{trainer}{number}"
        repository(place, trainer, slow)
        words = ("bisect", str(place / "perf.yaml"), "--good", f"main~{COMMITS}", "--bad", "main")
        held, _ = asked(tmp_path, number, *words)
        answer, (table,) = held["detail"], held["tables"]
        pairs = sum(row["runs"] for row in table["rows"]) // 2
        answers.append((slow, answer["earliest"], answer["final"], pairs))
    right = sum(earliest == final == slow for slow, earliest, final, _ in answers)
    record_property("trainer", trainer)
    record_property("rightly named", f"{right} of {tries}")
    record_property("pairs", " ".join(str(pairs) for *_, pairs in answers))
    assert right >= tries - tries // 8, answers


@pytest.mark.nightly("slowdowns", by_day="a quarter of an hour")
@pytest.mark.timeout(2400)
def test_ci_seldom_calls_equal_commits_worse(tmp_path: Path, record_property: Record) -> None:
    make_inventory(tmp_path)
    place = tmp_path / "equal"
    repository(place, "loop", None)
    commits = commits_of(place)
    verdicts: Counter[str] = Counter()
    for number in range(1, COMPARISONS + 1):
        first, second = random.Random(number).sample(commits, 2)
        words = ("ci", str(place / "perf.yaml"), "--base", first, "--head", second)
        answer, code = asked(tmp_path, number, *words, "--pairs", str(PAIRS))
        verdicts[answer.get("verdict", f"exit code {code}")] += 1
    record_property("verdicts", ", ".join(f"{n} {word}" for word, n in verdicts.items()))
    assert verdicts["worse"] <= 1, verdicts
