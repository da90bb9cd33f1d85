"""When a log's bytes arrived, as a node notes it."""

import ctypes
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from node import arrivals
from node.arrivals import Arrivals, thinned

Came = list[tuple[float, int]]


def noted(folder: Path, *pauses: float) -> tuple[Came, list[list[float]]]:
    """When a log had how many bytes, by who writes it after so many pauses, and as it is noted."""
    log, came = folder / "launcher.log", []
    log.touch()
    keeper = Arrivals(str(log), str(folder / "arrivals"), 0.05)
    with log.open("ab", buffering=0) as stream:
        for pause in pauses:
            time.sleep(pause)
            came.append((1000 * (time.monotonic() - keeper.began), log.stat().st_size + 5))
            stream.write(b"step\n")
    keeper.end()
    assert keeper.log_bytes() == log.stat().st_size
    head, *lines = (folder / "arrivals").read_text().splitlines()
    assert head.startswith("began ")
    assert head.endswith(" within_ms 5")
    return came, [[float(word) for word in line.split()] for line in lines]


def late(came: Came, lines: list[list[float]]) -> list[float]:
    """By how many ms more than it says each entry is later than its first bytes."""
    found, before = [], 0.0
    for at, size, *error in lines:
        first = next(when for when, bytes_then in came if bytes_then > before)
        found.append(at - first - (error[0] if error else 5.0))
        before = size
    return found


@pytest.mark.parametrize("without_inotify", [False, True])
def test_each_line_has_when_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_inotify: bool
) -> None:
    if without_inotify:  # a user may have no more of them
        real = ctypes.CDLL(None)
        monkeypatch.setattr(real, "inotify_init1", lambda flags: -1, raising=False)
        monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: real)
    came, lines = noted(tmp_path, 0.3, 0.1, 0.02, 0.2)
    assert [line[1] for line in lines] == [5, 10, 15, 20]
    assert all(line[0] > at - 1 for line, (at, _) in zip(lines, came, strict=True))
    assert sorted(late(came, lines))[1] < 0  # on a busy machine one may be later


def test_a_flood_is_looked_at_less_often_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "LOOKS", 20)
    came, lines = noted(tmp_path, *[0.001] * 1000)
    assert len(lines) < 100
    assert lines[0][2:] < [50]
    assert lines[-1][1] == came[-1][1]
    assert lines[-2][2] >= 60
    assert sorted(late(came, lines))[len(lines) * 9 // 10] < 0


def test_an_entry_says_how_late_its_thread_came_to_a_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = iter(range(1000))
    monkeypatch.setattr(Arrivals, "waited_s", lambda _: next(waits) * 0.035)
    assert [line[2:] for line in noted(tmp_path, 0.12, 0.13)[1]] == [[36], [36]]


def test_a_long_file_is_thinned_from_its_older_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["began", *map(str, range(1, 9))]
    assert thinned(lines) == ["began", "1", "3", *map(str, range(4, 9))]
    monkeypatch.setattr(arrivals, "MOST_BYTES", 400)
    monkeypatch.setattr(arrivals, "PAUSE_S", 0.0)
    came, entries = noted(tmp_path, *[0.004] * 200)
    assert (tmp_path / "arrivals").stat().st_size < 600
    assert [line[1] for line in entries] == sorted({line[1] for line in entries})
    assert entries[-1][1] == came[-1][1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_full_disk_ends_nothing_and_a_thread_that_died_hides_no_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "launcher.log"
    log.touch()
    keeper = Arrivals(str(log), "/dev/full", 0.01)
    log.write_bytes(b"step\n")
    time.sleep(0.05)
    assert (keeper.is_alive(), keeper.size) == (True, 5)
    monkeypatch.setattr(arrivals, "select", SimpleNamespace(select=None))
    keeper.join(5)
    log.write_bytes(b"step\nstep\n")
    assert (keeper.is_alive(), keeper.size, keeper.log_bytes()) == (False, 5, 10)
    keeper.end()
