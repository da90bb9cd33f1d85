"""Pretended nodes for versions: each run logs what its commit is said to take; nothing is started.

The engine and the builder are fakes, as in tests/runner/tune/pretended.py. Everything else is
real: git, matrices, campaigns, logs, records, statistics. tests/on_nodes/test_versions.py has none.
"""

import io
import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from node.causes import Cause
from runner.base.console import Screen
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.lock import HeldFolder
from runner.launch.view import View
from runner.matrix.file import parse_matrix
from runner.terms.cell import Matrix
from runner.terms.orders import Orders
from runner.versions.building import Builder
from tests.runner.launch.test_campaign import Nodes

STEPS = 40
CONTENT: Mapping[str, Any] = {
    "name": "perf",
    "pins": {
        "trainer": {
            "requirements": ["alpha==1.0", "beta==2.0"],
            "source": {"repository": "."},
        }
    },
    "defaults": {
        "system": "command",
        "pin": "trainer",
        "argv": ["python3", "train.py"],
        "log": {
            "step": r"step (\d+)/(\d+)",
            "step_time": {"pattern": r"dt: ([\d.]+)ms", "unit": "ms"},
        },
        "samples_per_step": 8,
    },
    "warmup_iters": 2,
}


def git(repository: Path, *words: str) -> str:
    said = ["git", "-C", str(repository), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    done = subprocess.run([*said, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def repository(folder: Path, commits: int) -> list[str]:
    """A repository with that many commits and the matrix; return their digits, oldest first."""
    git(folder, "init", "-q", "-b", "main")
    (folder / "perf.yaml").write_text(json.dumps(CONTENT))
    found = []
    for number in range(commits):
        (folder / "train.py").write_text(f"# {number}\n")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", f"change {number}")
        found.append(git(folder, "rev-parse", "HEAD"))
    return found


def matrix(**more: Any) -> Matrix:
    return parse_matrix(json.dumps({**CONTENT, **more}), "perf.yaml", "perf", lambda _: 1)


@dataclass
class FakeBuilder(Builder):
    """Builds nothing; pin sets of which `broken` says so cannot be built."""

    broken: Callable[[str], bool] = lambda _: False
    asked: list[list[str]] = field(default_factory=list)

    def build(self, systems: Mapping[str, Any]) -> dict[tuple[str, str], str]:
        self.asked.append([pin for sets in systems.values() for pin in sets])
        return {
            (system, pin): "n1: error: expected ';' before '}' token"
            for system, sets in systems.items()
            for pin in sets
            if self.broken(pin)
        }


@dataclass
class PretendedVersions(Nodes):
    """Each run's step takes what `takes_ms` says of its pin set and the number of all runs."""

    takes_ms: Callable[[str, int], float | None]  # None: the run fails
    before: Callable[[int], None] = lambda _: None
    ran: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def run(
        self, folder: HeldFolder, run: RunFolder, orders: Orders, cancelled: Callable[[], bool]
    ) -> str:
        pin = json.loads((run.path / names.RUN).read_text())["cell"]["pin"]
        self.before(len(self.ran))
        time = self.takes_ms(pin, len(self.ran))
        self.ran.append(pin)
        for node in orders.nodes:
            home = run.node(node.node_rank)
            home.mkdir(parents=True)
            lines = [
                f"step {n}/{STEPS} dt: {(time or 0) * (1 + 1e-4 * (n % 3)):.6f}ms\n"
                for n in range(1, STEPS + 1)
            ]
            (home / names.LOG).write_text("".join(lines) if time else "ImportError: no train\n")
            code = 0 if time else 1
            (home / names.DONE).write_text(json.dumps({"ended_by": "exit", "rc": code}))
        if time is None:
            run.ask_to_halt(cause=Cause.EXIT, message="n1: exit code 1", host="n1")
        return ""


def view() -> View:
    return View(Screen(file=io.StringIO(), width=200))
