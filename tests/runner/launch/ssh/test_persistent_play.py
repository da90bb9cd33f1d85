"""The play that waits at a gate: what stands in for Ansible here is a thread at the other side."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.launch.play import Played
from runner.launch.ssh import persistent_play
from runner.launch.ssh.persistent_play import Plays
from runner.launch.ssh.play_pipe import Order, orders
from runner.terms.inspected import Sought

ENDED = Played("successful", 0, "")
DEAD = Played("failed", 250, "Ansible said nothing")


class Ansible:
    """Plays that were begun, and what each was ordered; `does` carries one order out."""

    def __init__(self) -> None:
        self.ordered: list[list[Order]] = []
        self.does: Callable[[Order], None] = lambda order: None

    def __call__(self, gate: Path, cancelled: Callable[[], bool]) -> Played:
        mine = list[Order]()
        self.ordered.append(mine)
        try:
            for order in orders(gate):
                mine.append(order)
                self.does(order)
        except RuntimeError as error:
            return Played("failed", 2, str(error))
        return ENDED


@pytest.fixture
def ansible() -> Ansible:
    return Ansible()


@pytest.fixture
def plays(tmp_path: Path, ansible: Ansible) -> Iterator[Plays]:
    made = Plays(ansible, tmp_path / "private")
    yield made
    made.close()
    assert not list((tmp_path / "private").glob("tmp*"))


def never() -> bool:
    return False


def run(number: int) -> Order:
    return Order(f"/runs/{number}", lock="/runs/lock", holder="me")


def test_one_play_carries_out_one_order_after_another(plays: Plays, ansible: Ansible) -> None:
    wanted = [Order("/inspect", ("n1", "n2"), Sought({"env": "/{{ x }}"})), run(1), run(2)]
    for order in wanted:
        assert plays.carry_out(order, never) == ""
    assert ansible.ordered == [wanted]


def test_a_play_that_dies_ends_its_run_alone(plays: Plays, ansible: Ansible) -> None:
    def dies(order: Order) -> None:
        if order == run(1):
            raise RuntimeError("A worker was found in a dead state")

    ansible.does = dies
    words = [plays.carry_out(run(number), never) for number in range(3)]
    assert words == ["", "A worker was found in a dead state", ""]
    assert ansible.ordered == [[run(0), run(1)], [run(2)]]


def test_a_play_that_never_came_to_the_gate_says_why(tmp_path: Path) -> None:
    made = Plays(lambda gate, cancelled: DEAD, tmp_path)
    assert made.carry_out(run(1), never) == "Ansible said nothing"
    made.close()


def test_a_full_disk_here_is_raised_where_somebody_waits(tmp_path: Path) -> None:
    """It was a traceback of a thread's."""

    def full(gate: Path, cancelled: Callable[[], bool]) -> Played:
        raise OSError(28, "No space left on device")

    made = Plays(full, tmp_path)
    with pytest.raises(OSError, match="No space left on device"):
        made.carry_out(run(1), never)
    made.close()


def test_an_ansible_that_was_killed_leaves_its_run_time_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process that speaks with the nodes has outlived it, and ends the run on them."""

    def outlives(gate: Path) -> None:
        for order in orders(gate):
            time.sleep(0.5)
            (tmp_path / "ended").write_text(order.folder)

    def killed(gate: Path, cancelled: Callable[[], bool]) -> Played:
        threading.Thread(target=outlives, args=(gate,), daemon=True).start()
        time.sleep(0.2)
        return DEAD

    monkeypatch.setattr(persistent_play, "LOOK_S", 0.05)
    made = Plays(killed, tmp_path / "private")
    assert made.carry_out(run(1), never) == ""
    assert (tmp_path / "ended").read_text() == "/runs/1"
    made.close()


def test_who_will_not_wait_leaves_and_ansible_is_killed(tmp_path: Path) -> None:
    seen = list[bool]()

    def slow(gate: Path, cancelled: Callable[[], bool]) -> Played:
        until = time.monotonic() + 10
        while not cancelled() and time.monotonic() < until:
            time.sleep(0.01)
        seen.append(cancelled())
        return DEAD

    made = Plays(slow, tmp_path)
    assert made.carry_out(run(1), lambda: True) == "Ansible said nothing"
    made.close()
    assert seen == [True]


def test_a_gate_that_bench_closed_ends_the_play(plays: Plays, ansible: Ansible) -> None:
    plays.carry_out(run(1), never)
    began = time.monotonic()
    plays.close()
    assert time.monotonic() - began < 30
    plays.carry_out(run(2), never)
    assert ansible.ordered == [[run(1)], [run(2)]]
