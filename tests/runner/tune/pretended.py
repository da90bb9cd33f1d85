"""Pretended nodes for searches: each run logs what its cell is said to take; nothing is started.

The engine is a fake, as in tests/runner/launch/test_campaign.py. Everything else is real: campaign,
logs, judgement, records, search. Real trainers run in tests/on_nodes/test_tune.py.
"""

import io
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.base.console import Screen
from runner.base.dataclass_schema import read
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.lock import HeldFolder
from runner.launch.view import View
from runner.matrix.file import parse_matrix
from runner.study.running import Limits, Session
from runner.study.study import Answer
from runner.terms.cell import Matrix
from runner.terms.cluster import Cluster
from runner.terms.orders import Orders
from runner.tune.asked_search import tune_study
from runner.tune.tune_study import TuneStudy
from tests.runner.builders import small_cluster
from tests.runner.launch.test_campaign import Nodes

ROOT = 0.001  # of a wobble between runs, as a share: every repeat differs a little


@dataclass(frozen=True)
class Behaviour:
    """What a run logs: s per step by iteration (from 1), losses, memory; how it ends."""

    step_s: Callable[[int], float]
    loss: Callable[[int], float] = lambda n: 8.0 / (1 + 0.05 * n)
    memory_mib: float = 100.0
    rate: float = 1.0  # times what its steps make: of samples/s
    iterations: int | None = None  # logged; None: all
    error: str = ""
    halt: Mapping[str, Any] | None = None


def steady(step_s: float, **more: Any) -> Behaviour:
    return Behaviour(lambda _: step_s, **more)


@dataclass
class PretendedNodes(Nodes):
    """Runs what `behave` says of a cell's parameters and the number of its runs so far."""

    behave: Callable[[Mapping[str, Any], int], Behaviour]
    waits_s: float = 0.0  # for an early end, after the first half of a log
    ran: list[tuple[str, int]] = field(default_factory=list)
    before: Callable[[int], None] = lambda _: None

    def __post_init__(self) -> None:
        super().__init__()

    def run(
        self, folder: HeldFolder, run: RunFolder, orders: Orders, cancelled: Callable[[], bool]
    ) -> str:
        content = json.loads((run.path / names.RUN).read_text())
        assert read(Orders, content) == orders
        cell = content["cell"]
        self.before(len(self.ran))
        key = json.dumps(cell["axes"], sort_keys=True)
        number = sum(one == key for one, _ in self.ran)
        self.ran.append((key, content["attempt"]))
        told = self.behave(cell["parameters"], number)
        wobble = 1 + ROOT * ((number * 7 + len(key)) % 5 - 2)
        wanted = cell["parameters"]["train_iters"]
        for node in orders.nodes:
            home = run.node(node.node_rank)
            home.mkdir(parents=True)
            lines = [
                f"torch_gpt step={n}/{wanted}"
                f" samples_per_s={told.rate * 32 / (wobble * told.step_s(n)):.6f}"
                f" step_time_ms={1000 * wobble * told.step_s(n):.6f} loss={told.loss(n)}"
                f" nan={int(told.loss(n) != told.loss(n))}"  # NaN alone is not itself
                f" memory_allocated_mib=- memory_used_mib={told.memory_mib}\n"
                for n in range(1, (told.iterations or wanted) + 1)
            ]
            text = lines if node.node_rank == 0 else []
            half = len(text) // 2
            (home / names.LOG).write_text("".join(text[:half]))
            end = time.monotonic() + self.waits_s
            while text and time.monotonic() < end and run.halt is None:
                time.sleep(0.02)
            if run.halt is None:
                (home / names.LOG).write_text("".join(text) + told.error)
            code = 1 if told.error else 0
            (home / names.DONE).write_text(json.dumps({"ended_by": "exit", "rc": code}))
        if told.halt is not None:
            run.ask_to_halt(**told.halt, host="n1")
        return ""


KNOBS: Mapping[str, Any] = {"micro_batch_size": [4, 1, 2, 8], "zero_stage": [0, 1, 2]}


def tune_matrix(knobs: Mapping[str, Any] = KNOBS, text: str = "", **more: Any) -> Matrix:
    content: dict[str, Any] = {
        "name": "t",
        "defaults": {"system": "torch_gpt", "global_batch_size": 32, "train_iters": 40, "nodes": 2},
        "tune": {"knobs": dict(knobs)},
    }
    for key, value in more.items():
        where = "tune" if key in ("objective", "short_iters", "headroom_percent") else None
        (content[where] if where else content)[key] = value
    return parse_matrix(text or json.dumps(content), "t.yaml", "t", lambda _: 1)


class Tuning:
    """A search of pretended nodes in a folder, and what it printed."""

    def __init__(
        self,
        folder: Path,
        behave: Callable[[Mapping[str, Any], int], Behaviour],
        matrix: Matrix | None = None,
        cluster: Cluster | None = None,
        budget: float | None = None,
    ) -> None:
        self.folder, self.nodes = folder, PretendedNodes(behave)
        self.matrix = matrix or tune_matrix()
        self.cluster = cluster or small_cluster(2, 1)
        self.budget, self.code = budget, -1

    @property
    def study(self) -> TuneStudy:
        return tune_study(self.matrix, self.cluster, self.folder)

    @property
    def session(self) -> Session:
        return Session(
            *(self.study, self.cluster, self.folder, lambda *_: self.nodes),
            limits=Limits(self.budget),
        )

    def go(self) -> Answer:
        """Search as the command does, on the pretended nodes."""
        answer, self.code = self.session.run(View(Screen(file=io.StringIO(), width=200)))
        return answer

    @property
    def runs(self) -> list[dict[str, Any]]:
        """The axes of the runs, in their order."""
        return [json.loads(key) for key, _ in self.nodes.ran]
