"""kill -9 at random moments of campaigns with secrets, on real nodes.

Most strike the runner, some a process that Ansible started for it, a node's supervisor or its
trainer. The same bench is begun again until its campaign is finished, then another campaign's. No
cell may be lost, no finished repeat made again, no process left, and no secret on any disk.
"""

import os
import random
import signal
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from runner.folder import names
from runner.folder.campaign import Campaign
from runner.results.decide import is_finished
from runner.terms.outcome import Outcome
from tests import stand_in
from tests.cluster.fixtures import Group, RealNodes
from tests.cluster.system import ClusterError
from tests.faults.stage import OURS, VARIABLES
from tests.on_nodes.campaign import Bench, descendants

CELLS = 5
RUNS_BEFORE = (0, 0, 1, 1, 1, 2)  # that a bench begins before the blow
LONGEST_S = 2.5  # and from then to the blow
PATIENCE_S = 90.0
MOST_S = 1800.0  # after which none is killed
VICTIMS = (*["runner"] * 6, *["Ansible"] * 2, "supervisor", "trainer")
# Where a secret could stay: here and, but for the runs' folder, on each node.
PLACES = (
    *(str(Path.home() / ".ansible"), str(Path.home() / ".cache"), "/tmp", "/var/tmp", "/dev/shm"),
    str(stand_in.FOLDER),
)


@dataclass
class Night:
    """The nodes, the secrets' values, and what was killed so far."""

    group: Group
    folder: Path
    chance: random.Random
    kills: Counter[str] = field(default_factory=Counter)
    benches: list[Bench] = field(default_factory=list)
    began: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self.token = f"token-{uuid.uuid4().hex}"
        self.password = f"password-{uuid.uuid4().hex}"

    def next_bench(self) -> Bench:
        """A new campaign of CELLS short cells."""
        number = len(self.benches)
        matrix: dict[str, Any] = {
            "name": f"kills{number}",
            "defaults": {
                "system": "torch_gpt",
                "devices_per_node": 1,
                "nodes": 2,
                "train_iters": 20,
            },
            "axes": {"env": [{"CELL": f"c{each}", "STEP_S": "0.03"} for each in range(CELLS)]},
            "stall_limit_s": 20,
            "time_limit_s": 60,
        }
        self.benches.append(Bench(self.folder, self.group.inventory, matrix))
        return self.benches[-1]

    def strike(self, total: int, seconds: float) -> None:
        """Begin benches and kill, until `total` were or the time is up; then let all end."""
        until = time.monotonic() + seconds
        bench = self.next_bench()
        while self.kills.total() < total and time.monotonic() < until:
            bench.start()
            assert bench.process is not None
            self.wait(bench, bench.process)
            victim = self.chance.choice(VICTIMS)
            if bench.process.poll() is None and self.kill(victim, bench.process.pid):
                self.kills[victim] += 1
                print(f"{self.kills.total()}: {victim} of {bench.campaign.name}")
            if victim != "runner":
                bench.finish(timeout=PATIENCE_S)
            else:
                bench.process.wait()
                time.sleep(self.chance.choice((0.0, 0.0, 0.5, 2.0)))
            if not pending(bench):
                bench = self.next_bench()
        for each in self.benches:
            if pending(each):
                ran = each.run(timeout=300)
                assert ran.returncode in (0, 1), ran.stderr

    def wait(self, bench: Bench, process: subprocess.Popen[str]) -> None:
        """Wait for the moment: some runs after now, and a part of a second or more."""
        before, runs = attempts(bench), self.chance.choice(RUNS_BEFORE)
        while process.poll() is None and attempts(bench) < before + runs:
            time.sleep(0.02)
        until = time.monotonic() + self.chance.uniform(0.05, LONGEST_S)
        while process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)

    def kill(self, victim: str, runner: int) -> bool:
        """Kill -9 one process, if there is one of that kind now."""
        try:
            if victim == "runner":
                os.kill(runner, signal.SIGKILL)
                return True
            if victim == "Ansible":
                pids = descendants(runner)
                if pids:
                    os.kill(self.chance.choice(pids), signal.SIGKILL)
                return bool(pids)
            word = {"supervisor": "supervisor.", "trainer": "train.py"}[victim]
            node = self.chance.choice(self.group.nodes)
            found = [pid for pid, argv in node.processes() if word in " ".join(argv)]
            if found:
                node.signal(self.chance.choice(found), signal.SIGKILL)
            return bool(found)
        except (ClusterError, ProcessLookupError):  # it ended between the look and the strike
            return False

    def left(self) -> list[str]:
        """Processes of ours, on the nodes and here."""
        left = [
            f"{node.hostname}: {' '.join(argv)}"
            for node in self.group.nodes
            for _, argv in node.processes()
            if any(word in " ".join(argv) for word in OURS)
        ]
        return left + [f"here: {line}" for line in commands() if str(self.folder) in line]

    def leaks(self) -> list[str]:
        """Files that have a secret's value, here and on the nodes."""
        pattern = f"{self.token}|{self.password}"
        search = ["-type", "f", "-newermt", f"@{self.began}", "-exec", "grep", "-lE", pattern]
        here = ["find", str(self.folder), *PLACES, *search, "{}", "+"]
        found = subprocess.run(here, capture_output=True, text=True).stdout.split()
        for node in self.group.nodes:
            told = node.exec(["find", *PLACES, *search, "{}", "+"]).stdout.split()
            found += [f"{node.hostname}:{path}" for path in told]
        return found


def attempts(bench: Bench) -> int:
    """How many runs of the campaign were begun."""
    return len(list(bench.campaign.glob(names.ATTEMPTS)))


def pending(bench: Bench) -> bool:
    """Whether a repeat of the campaign has no last word yet."""
    return any(not finished(attempts) for attempts in repeats(bench))


def repeats(bench: Bench) -> list[list[Outcome | None]]:
    """Each repeat's attempts, as they ended; all are wanted once campaign.json is there."""
    campaign = Campaign(bench.campaign)
    if campaign.recorded is None:
        return [[]] * CELLS
    return [
        [attempt.outcome for attempt in campaign.attempts(cell.id, repeat)]
        for cell, repeat in campaign.settings.asked()
    ]


def finished(attempts: list[Outcome | None]) -> bool:
    """Whether the last attempt is one that the next bench keeps."""
    return bool(attempts) and is_finished(attempts[-1])


def commands() -> list[str]:
    """Command lines of this machine, but this process's own."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        if int(path.parent.name) != os.getpid():
            try:
                lines.append(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
            except OSError:
                continue
    return lines


@pytest.mark.cluster
@pytest.mark.nightly("kills")
@pytest.mark.timeout(2700)
@pytest.mark.parametrize("kills", [1, 49])
@pytest.mark.usefixtures("stand_in_root")
def test_nothing_is_lost_repeated_or_left(
    kills: int,
    seed: int,
    real_nodes: RealNodes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    secret = {"cluster_env": {"HF_TOKEN": "{{ lookup('env', 'MY_TOKEN') }}"}}
    night = Night(real_nodes(2, variables=VARIABLES | secret), tmp_path, random.Random(seed))
    monkeypatch.setenv("MY_TOKEN", night.token)
    monkeypatch.setenv("PIP_INDEX_URL", f"https://me:{night.password}@index.invalid/simple")
    night.strike(kills, MOST_S)
    until = time.monotonic() + PATIENCE_S
    while (left := night.left()) and time.monotonic() < until:
        time.sleep(0.2)
    every = [attempts for bench in night.benches for attempts in repeats(bench)]
    ends = Counter(attempts[-1].status for attempts in every if attempts and attempts[-1])
    struck = (f"{count} {victim}" for victim, count in night.kills.most_common())
    record_property("killed", f"{night.kills.total()}: {', '.join(struck)}")
    record_property("campaigns", len(night.benches))
    record_property("cells", len(every))
    record_property("attempts", sum(map(len, every)))
    record_property("ended", ", ".join(f"{n} {status}" for status, n in ends.items()))
    assert night.kills.total() > 0
    assert [attempts for attempts in every if not finished(attempts)] == []
    assert [each for each in every if any(is_finished(outcome) for outcome in each[:-1])] == []
    assert left == []
    assert night.leaks() == []
    write = ["sh", "-c", 'echo "$1" >/var/tmp/seen', "-", night.token]
    first = night.group.nodes[0]
    first.exec(write, check=True)
    (tmp_path / "seen").write_text(night.password)
    written = {str(tmp_path / "seen"), f"{first.hostname}:/var/tmp/seen"}
    assert written <= set(night.leaks())  # it does look
