"""A full disk where the runner writes: one sentence that names the disk and what is free."""

import errno
import os
from pathlib import Path

import pytest

from runner import __main__ as command_line
from runner.commands import systems


def test_a_full_disk_is_named_with_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mock stands in for a disk that is full: this machine's is not."""
    path = tmp_path / "not" / "there.json"

    def full(chosen: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(systems, "run", full)
    assert command_line.main(["systems"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {path}: the disk is full ({tmp_path} has ")
    assert " free): No space left on device; make room" in said
