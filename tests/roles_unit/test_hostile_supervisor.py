"""Every way of tests/hostile.py through the launch plugin: a stated end, and nothing hangs.

Stands in for Ansible's connection alone: what would run on the node runs here, by the Python that
is the attacker's. On real nodes: tests/on_nodes/test_hostile_node.py.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from node.printable import printable
from plugins.launching import node_launch
from plugins.launching.action import LaunchAction
from plugins.launching.node_launch import NodeLaunch, write
from plugins.launching.shared_run import SharedRun
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.campaign import Campaign
from runner.folder.stored import write_json
from tests import hostile

LIMIT_S = 40.0  # of one way: the longest is one of 8 s
TRAINER = "seq 30000; sleep 0.1"  # a log that one poll does not bring
OF_A_RUN = {
    name: way
    for name, way in hostile.WAYS.items()
    if way.program.partition(":")[2] in ("prepare", "poll", "fetch", "close")
}


class Connection:
    """What Ansible's connection does, as processes of this machine; as `ActionBase` has it."""

    def run(self, command: str, in_data: bytes) -> dict[str, Any]:
        """Run a command as on the node."""
        ran = subprocess.run(shlex.split(command), input=in_data, capture_output=True, check=False)
        texts = (stream.decode("utf-8", "surrogateescape") for stream in (ran.stdout, ran.stderr))
        return dict(zip(("stdout", "stderr"), texts, strict=True), rc=ran.returncode)


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The attacker's Python."""
    script = tmp_path / "bin" / "python3"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable} -IS\n{Path(hostile.__file__).read_text()}")
    script.chmod(0o755)
    return script


def action(python: Path) -> LaunchAction:
    made = LaunchAction.__new__(LaunchAction)
    made.variables = {}
    made.python = str(python)
    made._templar = SimpleNamespace(template=lambda value: value)
    made._compute_environment_string = lambda: ""
    made._low_level_execute_command = Connection().run
    return made


def plan(folder: Path, way: str) -> Campaign:
    """A run of two nodes, of which the first is ready and the second is the attacker's."""
    campaign = Campaign(folder / "campaign")
    nodes = [
        {
            **{"host": f"n{rank + 1}", "node_rank": rank, "runs": str(folder / "node")},
            **{"dir": str(folder / "node" / "run"), "cwd": "/", "files": {}, "requires": {}},
            **{"env": {"WAY": way}, "argv": ["/bin/sh", "-c", TRAINER], "ports": []},
            **{"device": "cpu", "device_ids": [0]},
        }
        for rank in range(2)
    ]
    limits = {"time_limit_s": 6.0, "grace_s": 1.0, "lost_contact_s": 6.0, "stall_limit_s": 60.0}
    content = {"run_id": "run", "nodes": nodes, "supervisor": limits}
    write_json(campaign.path / "run" / names.RUN, content)
    return campaign


def carry_out(campaign: Campaign, node: Any, ready: int = 1) -> None:
    """The second node's part, once so many nodes are ready."""
    shared_run = SharedRun(RunFolder(campaign.path / "run"), campaign.lock, campaign.holder)
    first, second = shared_run.orders.nodes
    shared_run.gone(first, 0.0)
    if ready:
        shared_run.come(first)
    write(shared_run, second, NodeLaunch(node, shared_run, second).run())


def texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for pair in value.items() for each in pair for text in texts(each)]
    if isinstance(value, list):
        return [text for each in value for text in texts(each)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("name", OF_A_RUN)
def test_a_run_whose_node_answers_so_ends_as_stated(
    tmp_path: Path, python: Path, name: str
) -> None:
    """Before, a list, a text for `now` or deep JSON left no halt, and all others waiting."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    campaign = plan(tmp_path, name)
    run = RunFolder(campaign.path / "run")
    began = time.monotonic()
    with campaign.locked():
        carry_out(campaign, action(python))
    assert time.monotonic() - began < LIMIT_S
    done = json.loads((run.node(1) / names.DONE).read_text())
    halt = run.halt
    ends = hostile.WAYS[name].ends
    if ends == "ok":
        assert (halt, done["ended_by"], done.get("rc")) == (None, "exit", 0), done
    else:
        assert halt is not None, done
        assert (halt.cause, halt.host) == (ends, "n2"), halt
        assert halt.message.startswith("n2: ")
        assert len(halt.message) < 2_100
        assert printable(halt.message) == halt.message
    for file in [path for path in run.path.rglob("*") if path.name in (names.DONE, names.PREPARED)]:
        assert all(text.isprintable() for text in texts(json.loads(file.read_text()))), file
        assert file.stat().st_size < 10_000, file
    written = {path.name for path in run.node(1).rglob("*") if path.is_file()}
    assert written <= {names.DONE, names.LOG, names.PREPARED, names.ARRIVALS, names.SAMPLES}
    assert sum(path.stat().st_size for path in run.path.rglob("*")) < 4 << 20
    assert victim.read_text() == "precious"


def test_who_answers_at_once_and_never_ends_is_given_up(
    tmp_path: Path, python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is not asked thousands of times meanwhile."""
    monkeypatch.setattr(node_launch, "OVERDUE_S", -10.0)
    campaign = plan(tmp_path, "")
    run = RunFolder(campaign.path / "run")
    asked = 0

    def endless(entry: str, spec: Any, kind: Any, file: str = "") -> Any:
        nonlocal asked
        asked += 1
        if entry.endswith(":prepare"):
            return {"now": 1.0, "boot_id": ""}
        return {
            **{"done": None, "size": 0, "offset": 0},
            **{"data": b"", "samples": b"", "arrivals": b"", "files": {}},
        }

    node = SimpleNamespace(
        ask=endless, exchange=lambda argv: None, patience_s=None, variables={}, kept=""
    )
    with campaign.locked():
        carry_out(campaign, node)
    assert run.halt is not None
    assert (run.halt.cause, asked < 12) == ("node_lost", True)


def test_a_node_that_never_gets_ready_does_not_hold_the_others_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The barrier had no bound: a plugin that died before it could say so held all of them."""
    monkeypatch.setattr(node_launch, "BARRIER_S", 0.3)
    campaign = plan(tmp_path, "")
    run = RunFolder(campaign.path / "run")
    with campaign.locked():
        carry_out(campaign, action(Path(sys.executable)), ready=0)
    assert run.halt is not None
    assert run.halt.cause == "launch_error"
    assert run.halt.message == "n2: 0000-n1 did not prepare the run within 0.3 s"


def test_environment_is_the_tests_own() -> None:
    """The attacker's Python is told nothing by this process's variables."""
    assert "WAY" not in os.environ
