"""Lines of a log from byte blocks, and a log's tail."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner import lines
from runner.lines import blocks, lines_with, tail


@given(st.lists(st.sampled_from([b"M ", b"\n", b"x", b"\r\n", b"\xff", b"MM", b" "])), st.data())
def test_the_same_lines_come_however_the_bytes_are_cut(
    parts: list[bytes], data: st.DataObject
) -> None:
    whole = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    places = [0, *cuts, len(whole)]
    cut = [whole[first:last] for first, last in itertools.pairwise(places)]
    assert list(lines_with(cut, b"M ")) == list(lines_with([whole], b"M "))


def test_a_line_starts_at_the_marker_and_ends_before_its_line_end() -> None:
    found = lines_with([b"[0]: M a\r\nnothing\nM b M c\nM half"], b"M ")
    assert list(found) == ["M a", "M b M c"]


def test_bytes_that_are_no_text_do_not_stop_the_reading() -> None:
    assert list(lines_with([b"M \xff\n"], b"M ")) == ["M �"]


def test_a_line_without_end_takes_no_memory_and_hides_nothing_behind_it() -> None:
    parts = [b"M start", *[b"x" * 100_000] * 50, b"\nM after\n"]
    assert list(lines_with(parts, b"M "))[-1] == "M after"


def test_a_file_comes_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 4)
    (tmp_path / "log").write_bytes(b"0123456789")
    assert list(blocks(tmp_path / "log")) == [b"0123", b"4567", b"89"]
    assert list(blocks(tmp_path / "none")) == []


def test_a_tail_starts_at_a_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"first\nsecond\nthird\n")
    assert tail(path, 100) == b"first\nsecond\nthird\n"
    assert tail(path, 19) == b"first\nsecond\nthird\n"
    assert tail(path, 10) == b"third\n"
    assert tail(path, 3) == b""  # less than one line
    assert tail(tmp_path / "none") == b""
