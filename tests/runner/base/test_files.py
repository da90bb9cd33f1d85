"""Files that a person names: bounded when read, whole or as before when written."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from runner.base.errors import UserError
from runner.base.files import atomic_file, read_text

# A disk with room for so many bytes: each file ends there, with EFBIG for ENOSPC.
FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
from runner.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def full_disk(*line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", FULL, *line], capture_output=True, text=True)


@pytest.mark.parametrize("format", ["table", "markdown", "csv", "json"])
def test_a_full_disk_leaves_the_output_that_was_there(format: str, tmp_path: Path) -> None:
    """`collect --output` left a part of the new table, and none of the old."""
    target = tmp_path / "table"
    target.write_text("what was measured before")
    published = ["--published", "matrices/documents/published/osdi.yaml", "--shape", "osdi"]
    done = full_disk("collect", *published, "--format", format, "--output", str(target))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "cannot be written: File too large" in done.stderr
    assert target.read_text() == "what was measured before"
    assert [path.name for path in tmp_path.iterdir()] == ["table"]


def test_what_is_written_takes_the_place_of_what_was(tmp_path: Path) -> None:
    """Its mode stays, a link leads to it still, and what a killed process left is no hindrance."""
    target = tmp_path / "table"
    target.write_text("before")
    target.chmod(0o640)
    os.mkfifo(tmp_path / ".table.tmp")
    link = tmp_path / "link"
    link.symlink_to("table")
    with atomic_file(link) as stream:
        stream.write(b"after")
        assert target.read_text() == "before"
    assert (target.read_text(), link.is_symlink()) == ("after", True)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert {path.name for path in tmp_path.iterdir()} == {"table", "link", ".table.tmp"}


def test_two_that_write_one_file_take_nothing_of_each_others(tmp_path: Path) -> None:
    target = tmp_path / "table"
    with atomic_file(target) as first:
        first.write(b"first" * 10_000)
        with atomic_file(target) as second:
            second.write(b"second")
    assert target.read_bytes() == b"first" * 10_000
    assert [path.name for path in tmp_path.iterdir()] == ["table"]


def test_a_device_is_written_as_it_is() -> None:
    with atomic_file(Path("/dev/null")) as stream:
        stream.write(b"x")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_what_has_no_end_is_not_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (Path("/dev/zero"), Path("/dev/tty"), pipe):
        with pytest.raises(UserError, match=r"is not a plain file|cannot be read"):
            read_text(path, 10, "a matrix")
    large = tmp_path / "large"
    large.write_bytes(b"x" * 11)
    with pytest.raises(UserError, match="has more than 10 bytes, too many for a matrix"):
        read_text(large, 10, "a matrix")
