"""The launch plugin's side of a run: the real supervisor on this machine, without Ansible.

Stands in for Ansible's connection alone: `Here` runs what would be run on the node as a process of
this machine, and fails as it is told. Whole launches are proved in tests/golden and tests/on_nodes.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError

from plugins.launching.action import LaunchAction
from plugins.launching.node_launch import NodeLaunch, write
from plugins.launching.shared_run import SharedRun
from plugins.node_action import read, to
from plugins.program import command, message
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.campaign import Campaign
from runner.folder.stored import write_json
from runner.results.decide import decide
from runner.terms.outcome import Outcome
from runner.terms.record import Interval, Measurement

STEPS = "for n in 1 2 3 4 5; do echo step $n; done"
FLOOD = f"seq 30000; {STEPS}"  # more than one poll brings


class Here:
    """This machine as the node; `broken(entry, spec)` may raise instead of each program."""

    def __init__(self) -> None:
        self.broken: Callable[[str, Any], None] = lambda entry, spec: None
        self.asked: list[Any] = []
        self.by_file: list[str] = []  # that nodes were asked to prepare by
        self.variables: dict[str, Any] = {}
        self.kept = ""

    def ask(self, entry: str, spec: Any, kind: Any, file: str = "") -> dict[str, Any]:
        self.asked.append(spec)
        if entry.endswith(":prepare"):
            self.by_file.append(file)
        self.broken(entry, spec)
        argv = [sys.executable, "-I", "-S", *command(entry)]
        given = message(entry, spec, file)
        ran = subprocess.run(argv, input=given, capture_output=True, text=True, timeout=60)
        facts: dict[str, Any] | None = read(ran.stdout, kind, to(entry))
        if facts is None:
            raise AnsibleError(f"gave no answer (exit {ran.returncode})")
        return facts


class Site:
    """A campaign with one run of one node, this machine."""

    def __init__(self, folder: Path) -> None:
        self.here, self.folder = Here(), folder
        self.campaign = Campaign(folder / "campaign")
        self.attempt = RunFolder(self.campaign.path / "cell" / "repeat1" / "attempt1")
        self.node = {
            **{"host": "n1", "node_rank": 0, "runs": str(folder / "node")},
            **{"dir": str(folder / "node" / "run"), "env": {}, "cwd": "/", "files": {}},
            **{"requires": {}, "ports": [], "device": "cpu", "device_ids": [0]},
        }
        self.settings: dict[str, Any] = {
            **{"time_limit_s": 30.0, "grace_s": 1.0, "lost_contact_s": 6.0},
            **{"stall_limit_s": 30.0, "log_limit_bytes": 1 << 30, "log_cap_bytes": 1 << 28},
        }

    def launch(self, script: str, node: Any = None, **settings: float) -> NodeLaunch:
        """The part of a run of this shell script, begun by the campaign's holder."""
        planned = {**self.node, "argv": ["/bin/sh", "-c", script]}
        run = {"run_id": "run", "nodes": [planned], "supervisor": {**self.settings, **settings}}
        write_json(self.attempt.path / names.RUN, run)
        shared_run = SharedRun(self.attempt, self.campaign.lock, self.campaign.holder)
        return NodeLaunch(
            cast(LaunchAction, node or self.here), shared_run, shared_run.orders.nodes[0]
        )

    def run(self, script: str, node: Any = None, **settings: float) -> None:
        """Carry out all of it."""
        launch = self.launch(script, node, **settings)
        write(launch.shared_run, launch.node, launch.run())

    @property
    def done(self) -> dict[str, Any]:
        path = self.attempt.node(0) / names.DONE
        done: dict[str, Any] = json.loads(path.read_text())
        return done

    @property
    def log(self) -> str:
        return self.attempt.log(0).read_text()

    def outcome(self) -> Outcome:
        """What `decide` makes of it, with a step for each line that says one."""
        reached = [int(x.split()[1]) for x in self.log.splitlines() if x.startswith("step ")]
        return decide(
            nodes=1,
            endings=self.attempt.endings(),
            halt=self.attempt.halt,
            measured=Measurement(tuple(Interval(n) for n in reached)),
            train_iters=5,
            play_words="",
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_run_that_ends_well_is_brought_home_and_leaves_no_folder(site: Site) -> None:
    with site.campaign.locked():
        site.run(FLOOD)
    assert (site.done["ended_by"], site.done["rc"], site.done["kept"]) == ("exit", 0, False)
    assert site.log.startswith("1\n2\n")
    assert site.log.count("\n") == 30005
    assert (site.attempt.halt, site.outcome().status) == (None, "ok")


def test_a_later_run_has_the_supervisor_neither_sent_nor_compiled(site: Site) -> None:
    """But where somebody removed what the first had left."""
    with site.campaign.locked():
        for removed in (False, False, True):
            kept = site.folder / "node" / ".programs"
            for file in list(kept.iterdir()) if removed else ():
                file.unlink()
            site.run(STEPS)
            assert sorted(path.suffix for path in kept.iterdir())[1] == ".json"
            assert site.done["rc"] == 0
    assert site.here.by_file == ["", site.here.kept, site.here.kept, ""]


def test_nodes_that_share_a_root_do_not_share_the_supervisors_file(site: Site) -> None:
    """Else one removes what the other is about to link to."""
    site.node["dir"] = str(site.folder / "node" / "n1" / "run")
    with site.campaign.locked():
        site.run(STEPS)
    assert site.done["rc"] == 0
    assert list((site.folder / "node" / "n1" / ".programs").glob("*.json"))
    assert not (site.folder / "node" / ".programs").exists()


# --- what cannot be brought home ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (AnsibleError("python gave no answer (exit -9)"), "python gave no answer (exit -9)"),
        (AnsibleConnectionFailure("no route to host"), "out of contact for "),
        (OSError(28, "No space left on device"), "No space left on device"),
        (ValueError("Expecting value"), "Expecting value"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
@pytest.mark.parametrize("script", [FLOOD, f"{STEPS}; seq 30000"], ids=["reached", "cut off"])
def test_a_log_that_cannot_be_fetched_leaves_the_nodes_own_ending(
    site: Site, error: Exception, words: str, script: str
) -> None:
    def broken(entry: str, spec: Any) -> None:
        if entry.endswith(":fetch"):
            raise error

    site.here.broken = broken
    with site.campaign.locked():
        site.run(script, lost_contact_s=3.0)
    assert (site.done["ended_by"], site.done["rc"]) == ("exit", 0)
    assert site.done["log"].startswith("incomplete: ")
    assert words in site.done["log"]
    assert site.done["kept"]  # for whoever wants the rest
    assert site.attempt.halt is None
    assert not list(site.attempt.path.rglob("*.part"))
    ended = site.outcome()
    if script == FLOOD:
        assert ended == Outcome("ok", "", f"the log of n1 is {site.done['log']}")
        return
    assert (ended.status, ended.cause) == ("did_not_run", "launch_error")
    assert f"the log of n1 is {site.done['log']}" in ended.reason


def test_what_a_log_still_lacks_is_marked_in_it(site: Site) -> None:
    """Else half a line would be read with half of another."""

    def broken(entry: str, spec: Any) -> None:
        if entry.endswith(":fetch"):
            raise AnsibleError("no")

    site.here.broken = broken
    with site.campaign.locked():
        site.run(FLOOD)
    lines = site.log.splitlines()
    assert [line for line in lines if line.startswith("[trainbench: ")]
    assert all(
        line.startswith(("[trainbench: ", "step ")) or line.isdigit() for line in lines if line
    )


def test_samples_that_cannot_be_fetched_cost_no_log(site: Site) -> None:
    def broken(entry: str, spec: Any) -> None:
        if entry.endswith(":fetch") and spec["name"] != "launcher.log":
            raise AnsibleError("no")

    site.here.broken = broken
    with site.campaign.locked():
        launch = site.launch(FLOOD)
        launch.files.sampled = 1 << 40  # as where the polls brought none of them
        launch.prepare()
        done = launch.follow()
        done["files"]["stacks.txt"] = 10
        launch.files.complete(done)
    assert done["others"] == "incomplete: no"
    assert "log" not in done
    assert site.log.count("\n") == 30005


# --- who may go on --------------------------------------------------------------------------------


def test_a_later_bench_of_the_campaign_is_not_taken_for_the_own_one(site: Site) -> None:
    """It took the lock between two looks, so that none of them ever found the lock free."""
    with site.campaign.locked():
        launch = site.launch(STEPS)
        assert launch.shared_run.halted() == ""
    with Campaign(site.campaign.path).locked():
        assert launch.shared_run.halted() == "control_lost"
    halt = site.attempt.halt
    assert halt is not None
    assert (halt.cause, halt.message) == (
        "control_lost",
        "the process that ran bench is gone",
    )


def test_a_lock_that_nobody_holds_ends_the_run(site: Site) -> None:
    with site.campaign.locked():
        launch = site.launch(STEPS)
    assert launch.shared_run.halted() == "control_lost"


def test_a_bench_that_took_over_before_go_keeps_the_trainer_from_starting(site: Site) -> None:
    with site.campaign.locked():
        launch = site.launch("echo started")
        launch.prepare()
    with Campaign(site.campaign.path).locked():
        done = launch.follow()
    assert (done["ended_by"], done["message"]) == ("stop", "control_lost")
    assert not any(spec.get("go") for spec in site.here.asked)
    assert site.log == ""


# --- when a run stalls ----------------------------------------------------------------------------


def test_preparation_is_no_silence_of_the_trainers(site: Site) -> None:
    with site.campaign.locked():
        launch = site.launch(STEPS, stall_limit_s=1.5)
        time.sleep(1.6)
        write(launch.shared_run, launch.node, launch.run())
    assert (site.done["ended_by"], site.attempt.halt) == ("exit", None)


def test_a_run_that_prints_nothing_is_ended(site: Site) -> None:
    with site.campaign.locked():
        site.run("sleep 1000", stall_limit_s=0.5)
    assert site.done["ended_by"] == "stop"
    assert site.outcome().cause == "stalled"
