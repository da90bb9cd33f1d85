"""How long a silent node is waited for: by its nodes, by what polls take, and not while stopped."""

import os
import signal
import subprocess
import sys

from plugins.launching.patience import Patience
from runner.terms.cluster import LOST_CONTACT_S
from tests.conftest import ROOT

ASLEEP = """
import sys, time
from plugins.awake import awake_s
awake_s()
began = time.monotonic()
print("counting", flush=True)
sys.stdin.readline()
print(awake_s(), time.monotonic() - began, flush=True)
"""


def test_it_is_what_the_inventory_asks_for_where_polls_are_fast() -> None:
    patience = Patience(6.0, 4)
    for rank in range(4):
        patience.took(rank, 1.1)
    assert (patience.silence_s, patience.lease_s) == (6.0, 12.0)


def test_it_follows_the_number_of_nodes_before_any_poll() -> None:
    patience = Patience(30.0, 1024)
    assert 90 < patience.silence_s < patience.lease_s < 300


def test_it_follows_what_polls_take_on_a_slow_control_machine() -> None:
    patience = Patience(30.0, 64)
    for rank in range(64):
        patience.took(rank, 20.0)
    assert (patience.silence_s, patience.lease_s) == (60.0, 120.0)
    for rank in range(64):
        patience.took(rank, 1.3)
    assert patience.silence_s == 30.0  # it has recovered


def test_one_slow_link_is_no_slow_control_machine() -> None:
    patience = Patience(6.0, 2)
    patience.took(0, 1.0)
    patience.took(1, 60.0)
    assert patience.silence_s == 6.0


def test_by_default_a_node_outlasts_a_control_machine_that_does_nothing_for_half_a_minute() -> None:
    patience = Patience(LOST_CONTACT_S, 1)
    assert patience.silence_s >= 30.0
    assert patience.lease_s >= 45.0


def test_what_a_stopped_process_missed_is_not_counted() -> None:
    """The control machine that was stopped did not listen, so nobody was silent."""
    with subprocess.Popen(
        [sys.executable, "-c", ASLEEP],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "counting\n"
        os.kill(process.pid, signal.SIGSTOP)
        subprocess.run(["sleep", "4"], check=True)
        os.kill(process.pid, signal.SIGCONT)
        print(file=process.stdin, flush=True)
        awake, passed = map(float, process.stdout.readline().split())
    assert passed > 4
    assert awake < 2.5
