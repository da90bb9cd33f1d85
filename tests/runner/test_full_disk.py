"""A full disk where the runner writes: one sentence that names the disk and what is free."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from node.program_output import full_disk, os_error_words
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
    assert said.startswith(f"error: {path}: the disk is full ({tmp_path}, mounted at /")
    assert " free): No space left on device; make room" in said


def test_of_several_folders_the_file_system_without_room_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`write` says not which file: it was the current folder's disk that was named."""
    output = tmp_path / "output"
    output.mkdir()
    real, mounted = os.stat, {str(output): 4711}

    def stat(path: str, **more: object) -> os.stat_result:
        status = real(path, **more)  # type: ignore[arg-type]
        fields = [*status]
        fields[2] = mounted.get(str(path), status.st_dev)
        return os.stat_result(fields)

    def statvfs(path: str) -> SimpleNamespace:
        free = 3 if str(path) == str(output) else 1 << 20
        return SimpleNamespace(
            f_bavail=free, f_blocks=1 << 21, f_frsize=4096, f_files=0, f_favail=0
        )

    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr(os, "statvfs", statvfs)
    monkeypatch.setattr(os.path, "ismount", lambda path: str(path) in {"/", str(output)})
    words = full_disk("/", str(output / "x"))
    assert words == f"the disk is full ({output} has 12.0 KiB of 8.0 GiB free)"
    pip = f"OSError: [Errno 28] No space left on device: '{output}/torch/x.so'\n"
    assert full_disk("/", output=pip) == words
    assert full_disk("/").startswith("the disk is full (/ has 4.0 GiB of")
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert os_error_words(error, str(output)) == f"No space left on device: {words}"
    assert os_error_words(OSError(errno.EACCES, "Permission denied"), "/") == "Permission denied"
    assert str(output) in command_line._folders_written_to(
        error, ["collect", f"--output={output}/x.csv"]
    )


@pytest.mark.parametrize(
    "error", [OSError(errno.EMFILE, os.strerror(errno.EMFILE)), OSError("out of pty devices")]
)
def test_too_few_open_files_are_no_disks_fault(
    error: OSError, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python's pty raises the second one, without a number, where no file can be opened."""

    def few(chosen: object) -> int:
        raise error

    monkeypatch.setattr(systems, "run", few)
    assert command_line.main(["systems"]) == 2
    shown = capsys.readouterr().err
    assert f"{error.strerror or error}; a process may open " in shown
    assert "ulimit -n" in shown
    assert "None" not in shown
