"""`bisect` and `ci` on real repositories whose slow commit is known: how often they are right.

    python -m tests.on_nodes.slowdowns bisect [--tries 20] [--keep FOLDER]
    python -m tests.on_nodes.slowdowns torch [--tries 2]
    python -m tests.on_nodes.slowdowns ci [--tries 100]

`bisect`: each try makes a git repository of 30 commits, of which one, drawn from a seed, makes a
trainer 4 % slower; the trainer starts within a second. Its steps are a timer in place of a device,
10 or 10.4 ms long, and runs of one commit differ by a standard deviation of 1 %: on a shared
machine runs of a processor differ by 20 % and more. `torch` is the same with a small model in torch
on the processor, and 40 %. `ci` compares two commits of equal speed each time, which compute on the
processor; each `worse` is a false alarm. Everything else is real: git, builds, processes of this
machine, clocks. Kept, it goes on where it ended.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import yaml
from tabulate import tabulate

from tests.conftest import ROOT
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
PAIRS = 4  # of a comparison by ci
TORCH_PYTHON = next(
    (ROOT / ".trainbench" / "systems" / "torch_gpt").glob("*/env/bin/python3"), Path(sys.executable)
)
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
        return waiting(10.4 if slow else 10.0, noise=0.01, steps=100)
    return loop(100_000, steps=100)


def repository(folder: Path, trainer: str, slow: int | None) -> None:
    """Make COMMITS commits and one before them; `slow` is the slow one's place."""
    if folder.exists():
        return
    python = TORCH_PYTHON if trainer == "torch" else Path(sys.executable)
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


def bisected(folder: Path, tries: int, trainer: str) -> int:
    """Bisect that many repositories; 0 where at most one answer in twenty is wrong."""
    random_places = random.Random(SEED)
    rows: list[list[Any]] = []
    right, total = 0, 0.0
    for number in range(1, tries + 1):
        slow = random_places.randrange(1, COMMITS + 1)
        place = folder / f"{trainer}{number}"
        repository(place, trainer, slow)
        began = time.monotonic()
        words = ("bisect", str(place / "perf.yaml"), "--good", f"main~{COMMITS}", "--bad", "main")
        held, code = asked(folder, number, *words)
        answer = held.get("answer") or {}
        earliest, final = answer.get("earliest"), answer.get("final")
        named = (earliest, final) == (slow, slow)
        right += named
        pairs = len(held.get("pairs", ()))
        took = time.monotonic() - began
        total += took
        rows.append(
            [number, slow, f"{earliest} to {final}", answer.get("ended"), pairs, took, code]
        )
        print(
            f"try {number}: commit {slow}, answer {earliest} to {final}, {took:.0f} s", flush=True
        )
    heads = ["try", "slow commit", "answer", "ended", "pairs", "s", "exit code"]
    print("\n" + tabulate(rows, heads, "github", floatfmt=".0f"))
    print(f"\n{right} of {tries} commits rightly named, {total / 60:.1f} minutes")
    return 0 if right >= tries - tries // 20 else 1


def compared(folder: Path, tries: int) -> int:
    """Compare equal commits that often; 0 where at most 4 in a hundred are called worse."""
    place = folder / "equal"
    repository(place, "loop", None)
    commits = commits_of(place)
    verdicts: Counter[str] = Counter()
    differences = []
    began = time.monotonic()
    for number in range(1, tries + 1):
        first, second = random.Random(number).sample(commits, 2)
        words = ("ci", str(place / "perf.yaml"), "--base", first, "--head", second)
        answer, code = asked(folder, number, *words, "--pairs", str(PAIRS))
        verdict = answer.get("verdict", f"exit code {code}")
        verdicts[verdict] += 1
        for cell in answer.get("comparison", {}).get("cells", ()):
            differences.append(cell["measures"]["samples_per_s"]["difference_percent"])
        print(f"pair {number}: {verdict}", flush=True)
    print("\n" + tabulate(sorted(verdicts.items()), ["verdict", "pairs"], "github"))
    known = [one for one in differences if one is not None]
    if known:
        print(f"differences: {min(known):.2f} to {max(known):.2f} %")
    print(f"{(time.monotonic() - began) / 60:.1f} minutes")
    return 0 if verdicts["worse"] <= 4 * tries / 100 else 1


def main() -> int:
    """Exit code 0: as often right as promised."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.on_nodes.slowdowns",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=["bisect", "torch", "ci"])
    parser.add_argument("--tries", type=int)
    parser.add_argument("--keep", type=Path, help="keep repositories and runs, or go on there")
    chosen = parser.parse_args()
    tries = chosen.tries or {"bisect": 20, "torch": 2, "ci": 100}[chosen.what]
    with tempfile.TemporaryDirectory(prefix="slowdowns-") as temporary:
        folder = (chosen.keep or Path(temporary)).resolve()
        make_inventory(folder)
        if chosen.what == "ci":
            return compared(folder, tries)
        return bisected(folder, tries, "torch" if chosen.what == "torch" else "waiting")


if __name__ == "__main__":
    sys.exit(main())
