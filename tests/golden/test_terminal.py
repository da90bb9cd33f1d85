"""bench and its terminal: closed, it ends nothing; left by --detach; another one looks in and ends.

The trainer is the stand-in; bench, Ansible, the supervisor and the terminal (a pty) are real.
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import stand_in
from tests.conftest import ROOT
from tests.golden.places import stood_in
from tests.on_nodes.campaign import Bench, wait

CELL = {"system": "torch_gpt", "nodes": 1, "devices_per_node": 1, "train_iters": 30}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A campaign of one run of 30 steps in three seconds."""
    return of_steps(tmp_path, "0.1")


@pytest.fixture
def slow_bench(tmp_path: Path) -> Bench:
    """The same in twelve seconds, so that a busy machine still stops it in its middle."""
    return of_steps(tmp_path, "0.4")


def of_steps(tmp_path: Path, step_s: str) -> Bench:
    stand_in.install(tmp_path / "root", os.path.realpath(sys._base_executable))  # type: ignore[attr-defined]  # CPython has it
    inventory = stood_in(tmp_path / "here", tmp_path / "root")
    defaults = {**CELL, "env": {"STEP_S": step_s}}
    return Bench(tmp_path, inventory, {"name": "m", "defaults": defaults})


def command(bench: Bench, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "runner", *words, "--runs", str(bench.runs)]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=400)


def status_of(bench: Bench) -> dict[str, Any]:
    said = command(bench, "status", "--format", "json")
    status: dict[str, Any] = json.loads(said.stdout)
    return status


def test_a_closed_terminal_ends_no_campaign(bench: Bench) -> None:
    terminal = bench.start_in_terminal()
    bench.wait_for_step(2)
    terminal.close()
    assert bench.process is not None
    assert bench.process.wait(60) == 0
    assert bench.outcome("")["status"] == "ok"


def test_a_detached_bench_is_looked_at_and_ended_from_elsewhere(slow_bench: Bench) -> None:
    bench = slow_bench
    terminal = bench.start_in_terminal("--detach")
    assert bench.process is not None
    assert bench.process.wait(60) == 0
    terminal.close()
    bench.wait_for_step(2)
    assert status_of(bench)["live"]
    watched = subprocess.Popen(
        [sys.executable, "-m", "runner", "status", "--watch", "--runs", str(bench.runs)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    ended = command(bench, "stop", "--campaign", bench.campaign.name)
    assert re.fullmatch(
        r"campaign m-here: its bench \(process \d+\) was ended", ended.stdout.strip()
    ), ended
    assert bench.outcome("")["status"] == "interrupted"
    assert "1 interrupted" in watched.communicate(timeout=30)[0]
    lines = (bench.campaign / "bench.log").read_text()
    assert "stopped by Ctrl-C" in lines
    assert "\x1b" not in lines  # nobody's cursor is there
    assert not status_of(bench)["live"]
    again = bench.run("--detach")  # it goes on there
    assert again.returncode == 0, again
    bench_ended = lambda: not status_of(bench)["live"]  # noqa: E731
    wait(bench_ended, 60, "the end")
    assert bench.outcome("", attempt=2)["status"] == "ok"
    assert "samples/s" in (bench.campaign / "bench.log").read_text()


def test_a_detached_bench_says_how_to_look_in(slow_bench: Bench) -> None:
    bench = slow_bench
    done = bench.run("--detach")
    assert done.returncode == 0, done
    said = done.stdout
    process = int(re.search(r"process (\d+)", said)[1])  # type: ignore[index]  # it is there
    try:
        assert os.getsid(process) == process
        assert f"status --watch --campaign m-here --runs {bench.runs}" in said
        assert f"stop --campaign m-here --runs {bench.runs}" in said
        assert str(bench.campaign / "bench.log") in said
        second = bench.run("--detach")
        assert second.returncode == 2
        assert f"another bench runs campaign m-here (process {process} on " in second.stderr
    finally:
        os.kill(process, signal.SIGINT)
        wait(lambda: not Path(f"/proc/{process}").exists(), 30, "its end")


def test_what_is_refused_is_told_in_the_terminal(bench: Bench) -> None:
    """Before the campaign begins, and after."""
    bad = bench.run("--detach", "--only", "nothing")
    assert (bad.returncode, bench.campaign.exists()) == (2, False)
    assert "nothing" in bad.stderr
    (bench.runs.parent / "root").rename(bench.runs.parent / "away")
    gone = bench.run("--detach")
    assert gone.returncode != 0
    assert "setup" in gone.stderr, gone


def test_stop_signals_nobody_whom_the_lock_alone_names(bench: Bench) -> None:
    """A number in a file is no proof: a process holds a campaign if it has its lock open."""
    from runner.folder.campaign import Campaign
    from runner.launch.living_bench import end_bench

    campaign, other = Campaign(bench.campaign), subprocess.Popen(["sleep", "100"])
    try:
        with campaign.locked():
            pid, machine = campaign.held_by
            assert (pid, campaign.holding_process()) == (os.getpid(), os.getpid())
            campaign.lock.write_text(f"0123 {other.pid} {machine}")
            assert end_bench(campaign, lambda: False) == ""
        campaign.lock.write_text("0123")  # as versions before wrote it
        assert (campaign.held_by, campaign.by_whom) == ((0, ""), "")
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
