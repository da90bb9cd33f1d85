"""A thread a host, without Ansible: what stands in for its executor calls the action, or fails."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from plugins.launching.action import LaunchAction
from plugins.launching.host_threads import HostThread, HostThreads
from plugins.launching.node_launch import carry_out
from plugins.launching.shared_run import SharedRun
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.campaign import Campaign
from tests.roles_unit.test_launch import Site

PATIENCE_S = 10.0


class Executor:
    """Ansible's executor of one host's task; `fails` are hosts where it comes to no task."""

    def __init__(self, host: str, fails: dict[str, str]) -> None:
        self.host, self.fails = host, fails

    def run(self) -> dict[str, Any]:
        if self.host in self.fails:
            return {"failed": True, "msg": self.fails[self.host]}
        thread = threading.current_thread()
        assert isinstance(thread, HostThread)
        action = SimpleNamespace(ask=None, patience_s=0.0, variables={})
        return thread.serve(cast(LaunchAction, action))


@pytest.fixture
def fails() -> dict[str, str]:
    return {}


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch, fails: dict[str, str]) -> HostThreads:
    monkeypatch.setattr(HostThreads, "_executor", lambda self, host: Executor(host, fails))
    return HostThreads(cast(LaunchAction, None))


def test_all_hosts_do_a_job_at_once(threads: HostThreads) -> None:
    together, did = threading.Barrier(3), list[str]()

    def job(action: LaunchAction, host: str) -> None:
        together.wait(PATIENCE_S)
        did.append(f"{host} {threading.current_thread().name}")

    for _ in range(2):  # the second time by the same threads
        threads.each(["n1", "n2", "n3"], job, lambda host, words: did.append(words))
    assert sorted(did) == ["n1 n1", "n1 n1", "n2 n2", "n2 n2", "n3 n3", "n3 n3"]


def test_a_host_without_a_task_is_told_of_and_tried_again(
    threads: HostThreads, fails: dict[str, str]
) -> None:
    fails["n2"] = "ansible_port is undefined"
    did, refused = list[str](), list[tuple[str, str]]()
    for _ in range(2):
        threads.each(
            ["n1", "n2"],
            lambda action, host: did.append(host),
            lambda host, words: refused.append((host, words)),
        )
        fails.clear()
    assert did == ["n1", "n1", "n2"] or did == ["n1", "n2", "n1"]
    assert refused == [("n2", "Ansible has no task there: ansible_port is undefined")]


def test_what_a_job_raises_is_raised_once_all_have_ended(threads: HostThreads) -> None:
    ended = []

    def job(action: LaunchAction, host: str) -> None:
        if host == "n1":
            raise OSError("no")
        ended.append(host)

    with pytest.raises(OSError, match="no"):
        threads.each(["n1", "n2"], job, lambda host, words: None)
    assert ended == ["n2"]


def test_a_node_that_cannot_even_begin_tells_the_others(
    tmp_path: Path, threads: HostThreads, fails: dict[str, str]
) -> None:
    """They waited ten minutes for it: its plugin died before it could say so."""
    fails["n1"] = "ansible_port is undefined"
    site = Site(tmp_path)
    with site.campaign.locked():
        shared_run = site.launch("true").shared_run
        carry_out(threads, shared_run)
    halt = site.attempt.halt
    assert halt is not None
    assert (halt.cause, halt.host) == ("launch_error", "n1")
    assert halt.message == "n1: Ansible has no task there: ansible_port is undefined"
    assert site.done["ended_by"] == "error"


def test_a_run_ends_where_its_ansible_was_killed(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path / "campaign")
    run = RunFolder(campaign.path / "run")
    run.path.mkdir(parents=True)
    node = {**Site(tmp_path).node, "argv": ["true"]}
    limits = {"time_limit_s": 6.0, "grace_s": 1.0, "lost_contact_s": 6.0, "stall_limit_s": 60.0}
    content = {"run_id": "run", "nodes": [node], "supervisor": limits}
    (run.path / names.RUN).write_text(json.dumps(content))
    lives = True
    with campaign.locked():
        shared_run = SharedRun(run, campaign.lock, campaign.holder, lambda: lives)
        assert shared_run.halted() == ""
        lives = False
        assert shared_run.halted() == "launch_error"
    assert run.halt is not None
    assert run.halt.message == "Ansible's process on the control node was ended"
