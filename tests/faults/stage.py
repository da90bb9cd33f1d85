"""One fault on real nodes: a campaign of three cells, of which the second meets it.

`before` is finished when the fault comes and must be kept; `struck` meets it; `after` must run.
The trainer is the stand-in (tests/stand_in.py); sshd, links, processes, memory, disks and play are
real.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.folder import names
from tests import stand_in
from tests.cluster.fixtures import Group
from tests.on_nodes.campaign import Bench, wait

VARIABLES = {"cluster_root": str(stand_in.FOLDER), "cluster_devices_per_node": 2}  # the inventory's
STEPS = 60
PATIENCE_S = 60.0
OURS = ("train.py", "supervisor.", "sampler:")


@dataclass(frozen=True)
class Row:
    """What a fault did. `took_s` is from the fault (or, for a trainer's own, its launch) to a cell
    that has ended on every node that could be reached."""

    fault: str
    status: str
    cause: str
    took_s: float | None
    left: int
    lost: int
    after: str
    reason: str = ""


@dataclass
class Stage:
    """The nodes and the campaign of one fault."""

    name: str
    folder: Path
    group: Group
    act: Mapping[str, str] = field(default_factory=dict)
    matrix: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        cells = {
            "name": "faults",
            "axes": {
                "env": [
                    {"CELL": "before", "STEP_S": "0.001"},
                    {"CELL": "struck", "STEP_S": "0.25", **self.act},
                    {"CELL": "after", "STEP_S": "0.001"},
                ]
            },
            **self.matrix,
            "defaults": {
                "system": "torch_gpt",
                "devices_per_node": 1,
                "nodes": 4,
                "train_iters": STEPS,
                **self.matrix.get("defaults", {}),
            },
        }
        self.bench = self.make_bench(cells)

    def make_bench(self, cells: dict[str, Any]) -> Bench:
        """A bench of these cells on the stage's nodes."""
        return Bench(self.folder, self.group.inventory, cells)

    # -- the three cells -----------------------------------------------------------------------

    def folder_of(self, cell: str) -> Path:
        """The newest attempt of a cell."""
        found = sorted(self.bench.campaign.glob(f"env=CELL_{cell}*/repeat1/attempt*"))
        return found[-1] if found else self.bench.campaign / "none"

    def outcome(self, cell: str, attempt: int | None = None) -> dict[str, Any]:
        """outcome.json of a cell's newest attempt, or of one by number; {} where there is none."""
        path = self.folder_of(cell)
        if attempt is not None:
            path = path.with_name(f"attempt{attempt}")
        try:
            said: dict[str, Any] = json.loads((path / names.OUTCOME).read_text())
        except FileNotFoundError:
            return {}
        return said

    def start(self, *more: str) -> None:
        """Run the campaign in the background until the struck cell trains."""
        self.bench.start(*more)
        self.until_struck_trains()

    def until_struck_trains(self) -> None:
        """Wait for its second step."""
        wait(lambda: self.steps() >= 2, PATIENCE_S, "a step of the struck cell")

    def steps(self) -> int:
        """Steps that the struck cell has logged so far."""
        logs = self.folder_of("struck").rglob(names.LOG)
        return sum(log.read_bytes().count(b"torch_gpt step=") for log in logs)

    def until_struck_ended(self) -> float:
        """Seconds until the struck cell has an outcome."""
        began = time.monotonic()
        wait(lambda: bool(self.outcome("struck")), PATIENCE_S, "the end of the struck cell")
        return time.monotonic() - began

    def until_clean(self, *numbers: int) -> float:
        """Seconds until no node of those (all, without any) holds a process of the struck cell."""
        began = time.monotonic()
        wait(lambda: not self.left(*numbers), PATIENCE_S, "clean nodes")
        return time.monotonic() - began

    def left(self, *numbers: int) -> list[str]:
        """Processes of the trainer, the supervisor or the sampler, by node."""
        nodes = [self.group.nodes[number] for number in numbers] or self.group.nodes
        return [
            f"{node.hostname}: {' '.join(argv)}"
            for node in nodes
            if node.pid is not None
            for _, argv in node.processes()
            if any(word in " ".join(argv) for word in OURS) or argv == ["sleep", "1000"]
        ]

    # -- the end -------------------------------------------------------------------------------

    def row(self, took_s: float | None, attempt: int = 1) -> Row:
        """Wait for the campaign's end; run it again where its last cell has not run yet."""
        if self.bench.process is not None and self.bench.process.poll() is None:
            self.bench.finish(timeout=PATIENCE_S)
        after = self.outcome("after").get("status", "none")
        if after != "ok":
            done = self.bench.run("--only", "env=CELL:after*", timeout=PATIENCE_S)
            after = f"{self.outcome('after').get('status', done.stderr)} (next bench)"
        ended = self.outcome("struck", attempt)
        return Row(
            fault=self.name,
            status=ended.get("status", "none"),
            cause=ended.get("cause", ""),
            took_s=took_s,
            left=len(self.left()),
            lost=int(self.outcome("before").get("status") != "ok"),
            after=after,
            reason=ended.get("reason", ""),
        )

    def strike(self, fault: Callable[[], object], mend: Callable[[], object] | None = None) -> Row:
        """Let a fault happen to the struck cell while it trains; mend it when that has ended."""
        self.start()
        fault()
        took_s = self.until_struck_ended()
        if mend is not None:
            mend()
        took_s += self.until_clean_of_struck()
        return self.row(took_s)

    def until_clean_of_struck(self) -> float:
        """Seconds until no trainer of the struck cell is left (the next cell's may run)."""
        marks = self.struck_pids()
        began = time.monotonic()
        wait(lambda: not (self.struck_pids() & marks), PATIENCE_S, "the end of the struck cell")
        return time.monotonic() - began

    def struck_pids(self) -> set[tuple[str, int]]:
        """(host, pid) of trainers that have the struck cell's environment."""
        found = set()
        for node in self.group.nodes:
            if node.pid is None:
                continue
            for pid, argv in node.processes():
                if "train.py" in " ".join(argv):
                    text = node.exec(["cat", f"/proc/{pid}/environ"], text=False).stdout
                    if b"CELL=struck" in text:
                        found.add((node.hostname, pid))
        return found

    def by_itself(self) -> Row:
        """The stand-in misbehaves as its ACT says; time counts from the cell's launch."""
        self.bench.start()
        wait(lambda: self.folder_of("struck").exists(), PATIENCE_S, "the struck cell")
        return self.row(self.until_struck_ended())
