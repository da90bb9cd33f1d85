"""Lines of a log from byte blocks, and a log's tail."""

from pathlib import Path

from runner.base.text import blocks, counted, tail
from runner.logs.decoding import whole_lines


def test_a_line_without_end_is_cut_and_hides_nothing_behind_it() -> None:
    parts = [b"start", *[b"x" * 100_000] * 50, b"\nafter\n"]
    assert list(whole_lines(parts)) == [b"start" + b"x" * 100_000, b"after\n"]


def test_a_file_comes_in_blocks(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"0123456789")
    assert list(blocks(tmp_path / "log", 4)) == [b"0123", b"4567", b"89"]
    assert list(blocks(tmp_path / "none")) == []


def test_a_tail_starts_at_a_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"first\nsecond\nthird\n")
    assert tail(path, 100) == b"first\nsecond\nthird\n"
    assert tail(path, 19) == b"first\nsecond\nthird\n"
    assert tail(path, 10) == b"third\n"
    assert tail(path, 3) == b""  # less than one line
    assert tail(tmp_path / "none") == b""


def test_one_thing_is_counted_as_one() -> None:
    assert [counted(number, "cell") for number in (0, 1, 2)] == ["0 cells", "1 cell", "2 cells"]
