"""A node's log as it comes home: gaps are marked, the rest is fetched, the cap holds here."""

from __future__ import annotations

from pathlib import Path

import pytest

from node.schema import UnfitError
from plugins.log_copy import BroughtLog, gap

CAP = 1000


class Node:
    """A node's log; what was fetched of it."""

    def __init__(self, size: int) -> None:
        self.data = bytes(n % 251 for n in range(size))
        self.fetched: list[tuple[int, int]] = []

    def fetch(self, offset: int, length: int) -> bytes:
        length = min(length, 300)
        self.fetched.append((offset, length))
        return self.data[offset : offset + length]


def brought(folder: Path) -> BroughtLog:
    return BroughtLog(folder / "launcher.log", folder / "launcher.log.part", CAP)


def test_what_the_polls_brought_is_not_fetched_again(tmp_path: Path) -> None:
    node, log = Node(900), brought(tmp_path)
    log.add(0, node.data[:100])
    log.add(100, node.data[100:250])
    log.add(800, node.data[800:])  # more was new than one poll brings
    assert gap(550) in log.path.read_bytes()
    log.complete(900, node.fetch)
    assert log.path.read_bytes() == node.data
    assert node.fetched == [(250, 300), (550, 300), (850, 50)]
    assert not log.part.exists()


@pytest.mark.parametrize("step", [100, 400, 64])
def test_no_more_than_the_cap_is_ever_here(tmp_path: Path, step: int) -> None:
    """Polls alone brought 64 KiB a second, for as long as the run took."""
    node, log = Node(5000), brought(tmp_path)
    for offset in range(0, 5000, step):
        log.add(offset, node.data[offset : offset + step])
        assert log.path.stat().st_size <= CAP + 200
    assert log.path.read_bytes().endswith(node.data[-8:])  # the newest, for who watches
    log.complete(5000, node.fetch)
    head, tail = node.data[: CAP // 2], node.data[-CAP // 2 :]
    assert log.path.read_bytes() == head + gap(4000) + tail


def test_a_log_that_goes_back_is_no_log(tmp_path: Path) -> None:
    log = brought(tmp_path)
    log.add(0, b"x" * 10)
    with pytest.raises(UnfitError, match="offset is 5 after 10"):
        log.add(5, b"y")


def test_one_that_says_it_is_endless_is_fetched_up_to_the_cap(tmp_path: Path) -> None:
    log, asked = brought(tmp_path), list[int]()

    def fetch(offset: int, length: int) -> bytes:
        asked.append(offset)
        return b"x" * min(length, 100)

    log.complete(2**62, fetch)
    assert log.path.stat().st_size == CAP + len(gap(2**62 - CAP))
    assert len(asked) == 10


def test_what_cannot_be_fetched_leaves_what_is_here(tmp_path: Path) -> None:
    log = brought(tmp_path)
    log.add(0, b"line\n")

    def fetch(offset: int, length: int) -> bytes:
        raise UnfitError("no")

    with pytest.raises(UnfitError):
        log.complete(900, fetch)
    assert log.path.read_bytes() == b"line\n"
    assert not log.part.exists()
