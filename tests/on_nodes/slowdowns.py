"""`bisect` and `ci` on real repositories whose slow commit is known: how often they are right.

    python -m tests.on_nodes.slowdowns bisect [--tries 20] [--keep FOLDER]
    python -m tests.on_nodes.slowdowns torch [--tries 2]
    python -m tests.on_nodes.slowdowns ci [--tries 100]

`bisect`: each try makes a git repository of 30 commits, of which one, drawn from a seed, makes a
trainer 4 % slower; the trainer starts within a second. `torch` is the same with a small model in
torch and 15 %. `ci` compares two commits of equal speed each time; each `worse` is a false alarm.
Everything is real: git, builds, processes of this machine, clocks. Kept, it goes on where it ended.
"""

from __future__ import annotations

import argparse
import json
import random
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
from tests.runner.versions.pretended import git

COMMITS = 30
SEED = 42
PAIRS = 4  # of a comparison by ci
TORCH_PYTHON = next(
    (ROOT / ".trainbench" / "systems" / "torch_gpt").glob("*/env/bin/python3"), Path(sys.executable)
)
LOOP = """import time
def work(count):
    x = 1
    for _ in range(count):
        x = x * 1103515245 & 0x7FFFFFFF
for step in range(1, 101):
    began = time.perf_counter()
    work(COUNT)
    took = (time.perf_counter() - began) * 1000
    print(f"step {step}/100 | loss {1 / step:.4f} | dt: {took:.5f}ms", flush=True)
"""
MODEL = """import time
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
layers = [torch.nn.Linear(256, 256) for _ in range(COUNT)]
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(128, 256)
for step in range(1, 101):
    began = time.perf_counter()
    loss = (model(data) - data).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    took = (time.perf_counter() - began) * 1000
    print(f"step {step}/100 | loss {loss.item():.4f} | dt: {took:.5f}ms", flush=True)
"""
# Trainer, and its COUNT before and after the slow commit.
TRAINERS = {"loop": (LOOP, 100_000, 104_000), "torch": (MODEL, 20, 23)}


def matrix(trainer: str) -> dict[str, Any]:
    """A matrix of one cell, whose pin is the repository beside it."""
    python = TORCH_PYTHON if trainer == "torch" else Path(sys.executable)
    return {
        "name": "perf",
        "pins": {"trainer": {"existing_python": str(python), "source": {"repository": "."}}},
        "defaults": {
            "system": "command",
            "pin": "trainer",
            "nodes": 1,
            "devices_per_node": 1,
            "argv": ["python3", "train.py"],
            "log": {
                "step": r"step (\d+)/(\d+)",
                "loss": r"loss (\S+)",
                "step_time": {"pattern": r"dt: ([\d.]+)ms", "unit": "ms"},
            },
            "samples_per_step": 8,
        },
        "warmup_iters": 10,
    }


def repository(folder: Path, trainer: str, slow: int | None) -> list[str]:
    """Make COMMITS commits and one before them; `slow` is the slow one's place. Their digits."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "perf.yaml").write_text(yaml.safe_dump(matrix(trainer)))
    text, fast_count, slow_count = TRAINERS[trainer]
    for number in range(COMMITS + 1):
        count = slow_count if slow is not None and number >= slow else fast_count
        program = f"# change {number}\n" + text.replace("COUNT", str(count))
        (folder / "train.py").write_text(program)
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", f"change {number}")
    return git(folder, "rev-list", "--reverse", "main").split()


def inventory(folder: Path) -> Path:
    """This machine as the only node, with its own folder for versions."""
    made = folder / "inventory" / "one"
    variables = made / "group_vars" / "all"
    variables.mkdir(parents=True, exist_ok=True)
    hosts = ROOT / "inventory" / "local" / "hosts.yml"
    (made / "hosts.yml").write_text(hosts.read_text())
    values = {
        "cluster_root": str(folder / "root"),
        "cluster_systems": [],
        "cluster_devices_per_node": 1,
        "dataset_names": [],
        "setup_privileged": False,
    }
    (variables / "cluster.yml").write_text(yaml.safe_dump(values))
    return made


def asked(folder: Path, number: int, *words: str) -> tuple[dict[str, Any], int]:
    """Run a command of ours on try `number`'s repository; its answer and exit code."""
    where = ["-i", str(inventory(folder)), "--runs", str(folder / f"runs{number}")]
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
        if not place.exists():
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
    if not place.exists():
        repository(place, "loop", None)
    commits = git(place, "rev-list", "--reverse", "main").split()
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
        folder.mkdir(parents=True, exist_ok=True)
        if chosen.what == "ci":
            return compared(folder, tries)
        return bisected(folder, tries, "torch" if chosen.what == "torch" else "loop")


if __name__ == "__main__":
    sys.exit(main())
