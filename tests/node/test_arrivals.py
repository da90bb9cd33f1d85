"""When a log's bytes arrived, as a node notes it."""

import ctypes
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from node import arrivals
from node.arrivals import Arrivals, thinned

PAUSES = (0.3, 0.1, 0.02, 0.2)


def noted(log: Path, write: Callable[[], None]) -> tuple[Arrivals, list[list[float]]]:
    """What is noted of a log while something writes to it."""
    log.touch()
    keeper = Arrivals(str(log), str(log.with_name("arrivals")), 0.05)
    write()
    keeper.end()
    head, *lines = log.with_name("arrivals").read_text().splitlines()
    assert head.startswith("began ")
    assert head.endswith(" within_ms 5")
    return keeper, [[float(word) for word in line.split()] for line in lines]


@pytest.mark.parametrize("without_inotify", [False, True])
def test_each_line_has_when_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_inotify: bool
) -> None:
    if without_inotify:  # a user may have no more of them
        real = ctypes.CDLL(None)
        monkeypatch.setattr(real, "inotify_init1", lambda flags: -1, raising=False)
        monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: real)
    log, came = tmp_path / "launcher.log", []

    def write() -> None:
        with log.open("ab", buffering=0) as stream:
            for pause in PAUSES:
                time.sleep(pause)
                came.append(time.monotonic())
                stream.write(b"step\n")

    keeper, lines = noted(log, write)
    assert [line[1] for line in lines] == [5, 10, 15, 20]
    late = [line[0] / 1000 - (at - keeper.began) for line, at in zip(lines, came, strict=True)]
    assert min(late) > -0.001
    assert sorted(late)[1] < 0.02  # on a busy machine one may be later


def test_a_flood_is_looked_at_less_often_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "LOOKS", 20)
    log = tmp_path / "launcher.log"

    def write() -> None:
        with log.open("ab", buffering=0) as stream:
            for _ in range(1000):
                time.sleep(0.001)
                stream.write(b"step\n")

    _, lines = noted(log, write)
    assert len(lines) < 100
    assert lines[0][2:] == []
    assert lines[-2][2:] == [50]
    assert lines[-1][1] == log.stat().st_size


def test_a_long_file_is_thinned_from_its_older_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["began", *map(str, range(1, 9))]
    assert thinned(lines) == ["began", "1", "3", *map(str, range(4, 9))]
    monkeypatch.setattr(arrivals, "MOST_BYTES", 400)
    monkeypatch.setattr(arrivals, "PAUSE_S", 0.0)
    log = tmp_path / "launcher.log"

    def write() -> None:
        with log.open("ab", buffering=0) as stream:
            for _ in range(200):
                time.sleep(0.004)
                stream.write(b"step\n")

    _, entries = noted(log, write)
    assert (tmp_path / "arrivals").stat().st_size < 600
    assert [line[1] for line in entries] == sorted({line[1] for line in entries})
    assert entries[-1][1] == log.stat().st_size


def test_a_full_disk_ends_nothing(tmp_path: Path) -> None:
    log = tmp_path / "launcher.log"
    log.touch()
    keeper = Arrivals(str(log), "/dev/full" if sys.platform == "linux" else "", 0.01)
    log.write_bytes(b"step\n")
    time.sleep(0.05)
    keeper.end()
    assert keeper.size == 5
