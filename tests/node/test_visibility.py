"""Whether nodes see one folder.

A file system that shows files late is stood in for where it is asked: `Late` lets open() fail until
the folder was changed by this node, as a node of NFS does that remembers that a file is not there.
"""

import os
import threading
import time
from pathlib import Path

import pytest

from node import visibility


class Late:
    """A node that remembers what is not in a folder, until it changes the folder itself."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.missing, self.changes = str(folder), set[str](), 0
        self.open = os.open
        monkeypatch.setattr(os, "open", self.asked)
        monkeypatch.setattr(visibility, "FORGET_S", 0.05)
        monkeypatch.setattr(visibility, "_CHANGED", {})

    def asked(self, path: str, flags: int, mode: int = 0o777) -> int:
        if os.path.dirname(path) == self.folder and flags & os.O_CREAT:
            self.missing.clear()
            self.changes += 1
        if path in self.missing:
            raise FileNotFoundError(2, "remembered", path)
        try:
            return self.open(path, flags, mode)
        except FileNotFoundError:
            self.missing.add(path)
            raise


def test_a_file_that_this_node_remembers_as_missing_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, path = Late(tmp_path, monkeypatch), tmp_path / "go"
    monkeypatch.setattr(visibility, "FORGET_S", 60.0)
    assert not visibility.fresh(str(path))
    path.write_text("there")
    with pytest.raises(FileNotFoundError):
        os.open(str(path), os.O_RDONLY)  # the node remembers
    assert not visibility.fresh(str(path)), "the folder is not changed at every question"
    visibility._CHANGED[str(tmp_path)] -= 60.0
    assert visibility.fresh(str(path))
    assert late.changes == 1
    assert [each.name for each in tmp_path.iterdir()] == ["go"], "nothing is left there"


def test_a_folder_that_cannot_be_written_is_asked_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visibility, "FORGET_S", 0.0)
    assert not visibility.fresh(str(tmp_path / "nowhere" / "go"))
    assert visibility.clock(str(tmp_path / "nowhere")) is None
    assert visibility.delay_s(str(tmp_path / "nowhere" / "go")) is None


def test_the_delay_is_measured_by_the_file_systems_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "token"
    path.write_text("x")
    monkeypatch.setattr(time, "time", lambda: 0.0)  # this node's clock is off by decades
    os.utime(path, (path.stat().st_mtime - 3.0,) * 2)
    delay = visibility.delay_s(str(path))
    assert delay is not None
    assert 2.9 < delay < 4.0


def test_tokens_of_others_are_awaited(tmp_path: Path) -> None:
    folder = str(tmp_path / "not" / "made" / "yet")
    assert visibility.leave({"folder": folder, "name": "n1", "text": "t"}) == {"left": True}
    later = threading.Timer(0.1, visibility.write_token, args=(str(tmp_path), "n2", "t"))
    later.start()
    asked = {"folder": folder, "names": ["n1", "n2"], "text": "t", "patience_s": 20.0}
    assert sorted(visibility.look(asked)["seen"]) == ["n1", "n2"]
    later.join()
    # another setup's token is none
    assert visibility.look({**asked, "text": "of today", "patience_s": 0.0}) == {"seen": {}}
    for name in ("n1", "n2", "n2"):
        visibility.forget({"folder": folder, "name": name})
    assert list(tmp_path.iterdir()) == []


def test_what_is_wrong_names_node_folder_and_cure() -> None:
    cause, words = visibility.not_shared("gpu17", "/home/me/runs")
    assert cause == "not_shared"
    assert words.startswith("gpu17 does not see /home/me/runs; --runs and cluster_root must be on")
